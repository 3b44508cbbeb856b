package channel

import (
	"math"

	pb "shoal/channel/channelpb"
	"shoal/coords"
)

// maxWeight bounds the importance of channels and pages.
const maxWeight = 1e9

// Marshal encodes the channel.
func (ch *Channel) Marshal() []byte {
	return encode(&pb.Channel{
		Id: uint64(ch.ID), Scope: ch.Scope.pb(), Seeds: texts(ch.Seeds), Inter: texts(ch.Inter), AddedUs: micros(ch.Added),
		State: uint32(ch.State), Reason: text(ch.Reason), Settings: ch.Settings.pb(), Learnt: ch.Learnt.pb(),
	})
}

// ParseChannel decodes a channel.
func ParseChannel(b []byte) (Channel, error) {
	var m pb.Channel
	if err := decode(b, MaxChannel, &m); err != nil {
		return Channel{}, err
	}
	c := checker{what: "channel"}
	ch := Channel{
		ID: ID(m.Id), Scope: c.scope(m.Scope), Seeds: c.urls("seeds", m.Seeds, MaxSeeds), Inter: c.urls("inter-site URLs", m.Inter, MaxInter),
		Added: c.time("added", m.AddedUs), State: State(c.enum("state", m.State, uint32(Removed))), Reason: c.text("reason", m.Reason, MaxText),
		Settings: c.settings(m.Settings), Learnt: c.learnt(m.Learnt),
	}
	return ch, c.err
}

// Marshal encodes what was learnt.
func (l *Learnt) Marshal() []byte { return encode(l.pb()) }

// ParseLearnt decodes what was learnt about a channel.
func ParseLearnt(b []byte) (Learnt, error) {
	var m pb.Learnt
	if err := decode(b, MaxLearnt, &m); err != nil {
		return Learnt{}, err
	}
	c := checker{what: "learnt"}
	l := c.learnt(&m)
	return l, c.err
}

// Marshal encodes the host.
func (h *Host) Marshal() []byte {
	return encode(&pb.Host{
		Name: ascii(h.Name), NextVisitUs: micros(h.NextVisit), CrawlDelayUs: h.CrawlDelay.Microseconds(), Blocked: text(h.Blocked),
		Record: recordPB(h.Record), RestUs: h.Rest.Microseconds(),
	})
}

// ParseHost decodes a host.
func ParseHost(b []byte) (Host, error) {
	var m pb.Host
	if err := decode(b, MaxHost, &m); err != nil {
		return Host{}, err
	}
	c := checker{what: "host"}
	h := Host{
		Name: c.origin("name", m.Name), NextVisit: c.time("next visit", m.NextVisitUs),
		CrawlDelay: c.duration("crawl-delay", m.CrawlDelayUs), Blocked: c.text("blocked", m.Blocked, MaxText), Record: c.record(m.Record),
		Rest: c.duration("rest", m.RestUs),
	}
	return h, c.err
}

func (s *Scope) pb() *pb.Scope {
	return &pb.Scope{
		Kind: uint32(s.Kind), Host: ascii(s.Host), Dirs: texts(s.Dirs), Filters: texts(s.Filters), Exclude: texts(s.Exclude),
		MaxDepth: int64(s.MaxDepth),
	}
}

func (c *checker) scope(m *pb.Scope) Scope {
	s := Scope{
		Kind: Kind(c.enum("scope kind", m.GetKind(), uint32(Directories))), Host: m.GetHost(), Dirs: m.GetDirs(), Filters: m.GetFilters(),
		Exclude: m.GetExclude(), MaxDepth: c.count("maximum depth", m.GetMaxDepth(), maxDepth),
	}
	if err := s.check(); err != nil {
		c.fail(ErrMalformed, "%v", err)
	}
	return s
}

func (s *Settings) pb() *pb.Settings {
	return &pb.Settings{
		Order: text(s.Order), Pages: int64(s.Pages), PageBytes: int64(s.PageBytes), Weight: s.Weight, TextOnly: s.TextOnly,
		Group: int64(s.Group),
	}
}

func (c *checker) settings(m *pb.Settings) Settings {
	return Settings{
		Order: c.id("order", m.GetOrder(), MaxText), Pages: c.count("pages", m.GetPages(), maxInt),
		PageBytes: c.count("page size", m.GetPageBytes(), MaxPage), Weight: float32(c.real("weight", float64(m.GetWeight()), 0, maxWeight)),
		TextOnly: m.GetTextOnly(), Group: c.count("group", m.GetGroup(), math.MaxUint8),
	}
}

func (l *Learnt) pb() *pb.Learnt {
	return &pb.Learnt{
		Gen: uint64(l.Gen), SubmittedUs: micros(l.Submitted), UpdatedUs: micros(l.Updated),
		ChangedUs: micros(l.Changed), Visits: int64(l.Visits), Changes: int64(l.Changes), Pages: int64(l.Pages), Budget: int64(l.Budget),
		ServiceUs: min(max(0, l.Service), maxDuration).Microseconds(), LastOutcome: uint32(l.LastOutcome), LastError: text(l.LastError), Out: l.Out,
		Estimator: l.EstimatorBlob, History: l.History, Failed: int64(l.Failed),
	}
}

func (c *checker) learnt(m *pb.Learnt) Learnt {
	return Learnt{
		Gen: Gen(m.GetGen()), Failed: c.count("failed", m.GetFailed(), maxInt), Submitted: c.time("submitted", m.GetSubmittedUs()),
		Updated: c.time("updated", m.GetUpdatedUs()), Changed: c.time("changed", m.GetChangedUs()),
		Visits: c.count("visits", m.GetVisits(), maxInt), Changes: c.count("changes", m.GetChanges(), maxInt),
		Pages: c.count("pages", m.GetPages(), maxInt), Budget: c.count("budget", m.GetBudget(), maxInt),
		Service: c.duration("service", min(max(0, m.GetServiceUs()), maxDuration.Microseconds())), LastOutcome: Outcome(c.enum("outcome", m.GetLastOutcome(), uint32(Refused))),
		LastError: c.text("error", m.GetLastError(), MaxText), Out: m.GetOut(),
		EstimatorBlob: c.bytes("estimator", m.GetEstimator(), MaxEstimator), History: c.bytes("history", m.GetHistory(), MaxHistory),
	}
}

// Bounds of a coordinate on the wire. They only keep nonsense out; package coords checks more closely what it learns
// from.
const (
	maxCoordMS = 1e6        // milliseconds, every component
	maxRTT     = 60_000_000 // microseconds
)

// CoordPB returns the wire form of a coordinate. Other packages use it in their messages.
func CoordPB(at coords.Coord) *pb.Coord {
	return &pb.Coord{Vec: append([]float64(nil), at.Vec[:]...), Height: at.Height, Adjust: at.Adjust, Err: at.Err}
}

// ParseCoordPB decodes and checks a coordinate. It refuses NaN, infinities and a wrong number of dimensions.
func ParseCoordPB(m *pb.Coord) (coords.Coord, error) {
	c := checker{what: "coordinate"}
	at := c.coord(m)
	return at, c.err
}

func (c *checker) coord(m *pb.Coord) coords.Coord {
	var at coords.Coord
	if len(m.GetVec()) != coords.Dims {
		c.fail(ErrMalformed, "coordinate of %d dimensions, not %d", len(m.GetVec()), coords.Dims)
		return at
	}
	for i, v := range m.Vec {
		at.Vec[i] = c.real("coordinate", v, -maxCoordMS, maxCoordMS)
	}
	at.Height = c.real("height", m.Height, 0, maxCoordMS)
	at.Adjust = c.real("adjustment", m.Adjust, -maxCoordMS, maxCoordMS)
	at.Err = c.real("error", m.Err, 0, maxCoordMS)
	return at
}

func recordPB(r coords.HostRecord) *pb.HostRecord {
	m := &pb.HostRecord{Best: texts(r.Best), Anycast: r.Anycast}
	for _, s := range r.Samples {
		m.Samples = append(m.Samples, &pb.Sample{Vantage: ascii(s.Vantage), At: CoordPB(s.At), RttUs: s.RTT.Microseconds(), WhenS: s.When})
	}
	return m
}

func (c *checker) record(m *pb.HostRecord) coords.HostRecord {
	if len(m.GetSamples()) > coords.MaxSamples || len(m.GetBest()) > coords.MaxBest {
		c.fail(ErrTooLarge, "host record of %d samples and %d best vantages", len(m.GetSamples()), len(m.GetBest()))
		return coords.HostRecord{}
	}
	r := coords.HostRecord{Anycast: m.GetAnycast()}
	if n := len(m.GetSamples()); n > 0 {
		r.Samples = make([]coords.Sample, 0, n)
	}
	for _, id := range m.GetBest() {
		r.Best = append(r.Best, c.id("vantage", id, MaxPeerID))
	}
	for _, s := range m.GetSamples() {
		if s.RttUs > maxRTT {
			c.fail(ErrMalformed, "RTT of %d microseconds", s.RttUs)
		}
		if s.WhenS < 0 || s.WhenS > maxTime/1_000_000 {
			c.fail(ErrMalformed, "sample outside the years 1970 to 9999")
		}
		r.Samples = append(r.Samples, coords.Sample{
			Vantage: c.id("vantage", s.Vantage, MaxPeerID), At: c.coord(s.At), RTT: c.duration("RTT", s.RttUs), When: s.WhenS,
		})
	}
	return r
}
