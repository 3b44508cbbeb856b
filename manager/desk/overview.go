package desk

import (
	"slices"
	"strings"
	"time"

	"shoal/channel"
	"shoal/coords"
	"shoal/manager"
	"shoal/manager/archive"
	"shoal/overlay"
)

// Overview is the state of the whole system at one moment.
type Overview struct {
	Network     string           `json:"network"` // its public key
	Version     string           `json:"version"`
	Strategy    string           `json:"strategy"`
	Since       time.Time        `json:"since"`   // the network's first start, with which the counters begin
	Started     time.Time        `json:"started"` // the manager's
	Now         time.Time        `json:"now"`
	Tick        Seconds          `json:"tick_s"`
	Channels    int              `json:"channels"`
	Never       int              `json:"never_crawled"`
	Out         int              `json:"tasks_out"`
	Due         int              `json:"due"` // channels that wait for room or politeness
	Peers       int              `json:"peers"`
	Submitted   int64            `json:"tasks_submitted"` // handings-out: a task that came to nothing counts again
	Accepted    int64            `json:"tasks_accepted"`  // of them
	Refused     int64            `json:"tasks_refused"`
	Lapsed      int64            `json:"tasks_lapsed"`
	Audits      int64            `json:"audits_accepted"` // looks at stored pages that peers took on; they are not among the tasks
	Updates     int64            `json:"updates"`
	Pages       int64            `json:"pages_fetched"`
	Unchanged   int64            `json:"pages_unchanged"`
	Archived    int64            `json:"pages_archived"`         // versions, ever
	Stored      *int64           `json:"pages_stored,omitempty"` // pages that are there, as they were counted last; nil: not counted yet
	BytesDown   int64            `json:"bytes_down"`
	WARCFiles   int              `json:"warc_files"`
	ArchiveWork *archive.Work    `json:"archive_work,omitempty"` // what goes on of the archive's upkeep that runs alone, and what waits for it; nil: nothing
	UpdatesMin  float64          `json:"updates_a_minute"`
	PagesMin    float64          `json:"pages_a_minute"`
	Freshness   float64          `json:"freshness"` // expected share of fresh channels, from learnt change rates
	Intervals   []Seconds        `json:"intervals_s"`
	GroupSizes  []int            `json:"group_sizes"`
	Errors      map[string]int64 `json:"errors"`
	Noted       map[string]int64 `json:"noted"` // what crawls did as they were asked to, and what sites told of changes
	History     []Point          `json:"history"`
	Data        string           `json:"data"`
	Notices     []string         `json:"notices"`          // what an operator should know: disk full, no contact
	Blocking    []string         `json:"blocking"`         // of the notices, those because of which nothing is handed out
	Import      string           `json:"import,omitempty"` // how far imports are that are under way
	Threads     int              `json:"threads"`          // that the peers offer
	Idle        int              `json:"threads_idle"`     // of them without a task
	HeldBack    string           `json:"held_back"`        // why threads are idle, or that there are too few, in a sentence; empty where there is nothing to say
	Held        string           `json:"held_back_by"`     // the same in a word: interval, cap, politeness, refusals, failures, blocks, strategy, end, placing, notice, under way, fresh, capacity or matched
	Discovered  int              `json:"discovered"`       // channels that discovery has added
	ArchiveLag  Seconds          `json:"archive_lag_s"`
	Lookups     int64            `json:"lookups"`
	HopsMean    float64          `json:"hops_mean"`
	RTTChosenMS float64          `json:"rtt_chosen_ms"`
	RTTRandomMS float64          `json:"rtt_random_ms"`
	Truth       *Truth           `json:"truth,omitempty"` // in the pond only, where it is known
	// Managers are those that share the network, this one first; nil: there is no other. Counters and rates are of all of them.
	Managers []Manager `json:"managers,omitempty"`
}

// Manager is one of several that share a network.
type Manager struct {
	Peer       string `json:"peer"`
	Machine    string `json:"machine"`
	Page       string `json:"page,omitempty"`
	Version    string `json:"version"`
	Partitions int    `json:"partitions"`        // of 256
	Here       bool   `json:"here,omitempty"`    // this one
	Leaving    bool   `json:"leaving,omitempty"` // it hands its partitions over
	// ArchiveOnly says that it runs an archive alone, and takes no partitions.
	ArchiveOnly bool      `json:"archive_only,omitempty"`
	Since       time.Time `json:"since,omitzero"` // its start
	Addrs       []string  `json:"addrs,omitempty"`

	Figures Figures `json:"figures"`
}

// Figures are what a manager tells the others of its share.
type Figures struct {
	Channels   int     `json:"channels"`
	Never      int     `json:"never_crawled"`
	Out        int     `json:"tasks_out"`
	Due        int     `json:"due"`
	Submitted  int64   `json:"tasks_submitted"`
	Accepted   int64   `json:"tasks_accepted"`
	Refused    int64   `json:"tasks_refused"`
	Lapsed     int64   `json:"tasks_lapsed"`
	Audits     int64   `json:"audits_accepted"`
	Updates    int64   `json:"updates"`
	Pages      int64   `json:"pages_fetched"`
	Unchanged  int64   `json:"pages_unchanged"`
	BytesDown  int64   `json:"bytes_down"`
	UpdatesMin float64 `json:"updates_a_minute"`
	PagesMin   float64 `json:"pages_a_minute"`
	Freshness  float64 `json:"freshness"`
	ArchiveLag Seconds `json:"archive_lag_s"` // how far its text extraction is behind
}

// Count adds what another manager has counted. What it has at a moment is not added.
func (f *Figures) Count(x *Figures) {
	f.Submitted, f.Accepted, f.Refused, f.Lapsed = f.Submitted+x.Submitted, f.Accepted+x.Accepted, f.Refused+x.Refused, f.Lapsed+x.Lapsed
	f.Audits += x.Audits
	f.Updates, f.Pages, f.Unchanged, f.BytesDown = f.Updates+x.Updates, f.Pages+x.Pages, f.Unchanged+x.Unchanged, f.BytesDown+x.BytesDown
}

// FiguresOf are those of a manager's own overview.
func FiguresOf(o manager.Overview) Figures {
	return Figures{Channels: o.Channels, Never: o.Never, Out: o.Out, Due: o.Due, Submitted: o.Submitted, Accepted: o.Accepted, Refused: o.Refused, Lapsed: o.Lapsed, Audits: o.Audits,
		Updates: o.Updates, Pages: o.Pages, Unchanged: o.Unchanged, BytesDown: o.BytesDown, UpdatesMin: o.UpdatesMin, PagesMin: o.PagesMin, Freshness: o.Freshness,
		ArchiveLag: Seconds(o.Archive.TextDelay)}
}

// add makes counters and rates those of the whole network. gone is what managers have counted that are not here any more.
func (o *Overview) add(all []Manager, gone Figures) {
	o.Managers = all
	sum := Figures{Submitted: o.Submitted, Accepted: o.Accepted, Refused: o.Refused, Lapsed: o.Lapsed, Audits: o.Audits, Updates: o.Updates, Pages: o.Pages, Unchanged: o.Unchanged, BytesDown: o.BytesDown}
	sum.Count(&gone)
	for i := range all {
		if all[i].Here {
			continue
		}
		f := &all[i].Figures
		if n := o.Channels + f.Channels; n > 0 {
			o.Freshness = (o.Freshness*float64(o.Channels) + f.Freshness*float64(f.Channels)) / float64(n)
		}
		o.Channels, o.Never, o.Out, o.Due = o.Channels+f.Channels, o.Never+f.Never, o.Out+f.Out, o.Due+f.Due
		sum.Count(f)
		o.UpdatesMin, o.PagesMin = o.UpdatesMin+f.UpdatesMin, o.PagesMin+f.PagesMin
	}
	o.Submitted, o.Accepted, o.Refused, o.Lapsed, o.Audits = sum.Submitted, sum.Accepted, sum.Refused, sum.Lapsed, sum.Audits
	o.Updates, o.Pages, o.Unchanged, o.BytesDown = sum.Updates, sum.Pages, sum.Unchanged, sum.BytesDown
}

// Truth is how fresh the stored copy really is. Only a synthetic Web knows it.
type Truth struct {
	Channels float64 `json:"channels"` // share of channels of which every stored page is current
	Pages    float64 `json:"pages"`    // share of all pages that are stored as they are
	Weight   float64 `json:"weight"`   // as Channels, by importance
	// Mean is how it was over the time of this run; nil: none has passed.
	Mean *TrueFreshness `json:"mean,omitempty"`
}

// TrueFreshness are averages over the time of a run.
type TrueFreshness struct {
	Channels      float64 `json:"fresh_true"`        // as Truth.Channels
	Pages         float64 `json:"fresh_true_pages"`  // as Truth.Pages
	Weight        float64 `json:"fresh_true_weight"` // as Truth.Weight
	Estimate      float64 `json:"fresh_estimate"`    // what the manager thought
	EstimateError float64 `json:"estimate_error"`    // how far that was from Channels, either way
}

// Point is one sample of the history.
type Point struct {
	At         time.Time `json:"at"`
	UpdatesMin float64   `json:"updates_a_minute"`
	PagesMin   float64   `json:"pages_a_minute"`
	RefusedMin float64   `json:"refused_a_minute"`
	Out        int       `json:"tasks_out"`
	Peers      int       `json:"peers"`
	Freshness  float64   `json:"freshness"`
	Intervals  []Seconds `json:"intervals_s"`
}

// Overview tells the state of the whole system, a quarter of a second old at most; of a stopped manager nothing.
func (d *Desk) Overview() Overview {
	if d.m == nil {
		return Overview{}
	}
	running := shown(d.m, d.cfg.Members)
	o := overviewOf(running)
	ofAll(d, &running)
	o.Held, o.HeldBack = holdsBack(&running)
	o.Network, o.Import = d.cfg.Network, d.imports.words()
	if d.cfg.Truth != nil {
		o.Truth = d.cfg.Truth()
	}
	if d.cfg.Managers != nil {
		all, gone := d.cfg.Managers()
		o.add(all, gone)
	}
	return o
}

func overviewOf(o manager.Overview) Overview {
	out := Overview{
		Version: o.Version, Strategy: o.Strategy, Since: o.Since, Started: o.Started, Now: o.Now, Tick: Seconds(o.Unit), Channels: o.Channels, Never: o.Never,
		Out: o.Out, Due: o.Due, Peers: o.Peers, Submitted: o.Submitted, Accepted: o.Accepted, Refused: o.Refused, Lapsed: o.Lapsed, Audits: o.Audits, Updates: o.Updates,
		Pages: o.Pages, Unchanged: o.Unchanged, Archived: int64(o.Archive.Pages), BytesDown: o.BytesDown, WARCFiles: o.Archive.Files, ArchiveWork: o.Archive.Work, UpdatesMin: o.UpdatesMin,
		PagesMin: o.PagesMin, Freshness: o.Freshness, Intervals: seconds(o.Intervals), GroupSizes: append([]int{}, o.GroupSizes...), Data: o.Data,
		Notices: append([]string{}, o.Notices...), Blocking: append([]string{}, o.Blocking...), Discovered: o.Discovered, Threads: o.Threads, Idle: o.Idle, ArchiveLag: Seconds(o.Archive.TextDelay), Lookups: o.Lookups, HopsMean: o.HopsMean,
		RTTChosenMS: o.RTTChosenMS, RTTRandomMS: o.RTTRandomMS, History: make([]Point, len(o.History)),
	}
	if a := o.Archive; !a.Counted.IsZero() {
		n := int64(a.Provisional + a.Verified + a.Withdrawn)
		out.Stored = &n
	}
	out.Errors, out.Noted = map[string]int64{}, map[string]int64{}
	for kind, n := range o.Errors {
		if channel.Noted(kind) {
			out.Noted[kind] = n
		} else {
			out.Errors[kind] = n
		}
	}
	for i, p := range o.History {
		out.History[i] = Point{p.At, p.UpdatesMin, p.PagesMin, p.RefusedMin, p.Out, p.Peers, p.Freshness, seconds(p.Intervals)}
	}
	return out
}

// Peer is one member of the swarm as the manager knows it.
type Peer struct {
	ID      string     `json:"id"`
	Account string     `json:"account,omitempty"` // what it is held to: its own id, or an invite's; empty: not seen yet
	Coord   [2]float64 `json:"coordinates_ms"`    // the first two dimensions
	Err     float64    `json:"coordinate_error"`
	Running int        `json:"running"`
	Queued  int        `json:"queued"`
	Seen    time.Time  `json:"seen,omitzero"`
	RTTMS   float64    `json:"rtt_ms"` // predicted, from the manager
}

// shown is what the manager shows, without the peers that are banned. The swarm forgets these only when it has not heard of them for a while.
func shown(m Running, members Members) manager.Overview {
	o := m.Overview()
	if banned := bannedBy(members); len(banned) > 0 {
		all, _ := m.Peers()
		for i := range all {
			if o.Peers > 0 && isBanned(banned, &all[i]) {
				o.Peers--
			}
		}
	}
	return o
}

// bannedBy are the peers and accounts that are banned.
func bannedBy(members Members) []string {
	if members == nil {
		return nil
	}
	return members.Banned()
}

func isBanned(banned []string, p *overlay.PeerRecord) bool {
	return slices.Contains(banned, string(p.ID)) || p.Account != "" && slices.Contains(banned, p.Account)
}

// Peers are the members that take tasks. Who is banned takes none any more.
func (d *Desk) Peers() ([]Peer, error) {
	if err := d.Live(); err != nil {
		return nil, err
	}
	out := []Peer{}
	all, own := d.m.Peers()
	banned := bannedBy(d.cfg.Members)
	for _, p := range all {
		if isBanned(banned, &p) {
			continue
		}
		out = append(out, Peer{
			ID: string(p.ID), Account: p.Account, Coord: [2]float64{p.Coord.Vec[0], p.Coord.Vec[1]}, Err: p.Coord.Err, Running: int(p.Load.Running),
			Queued: int(p.Load.Queued), Seen: p.Seen, RTTMS: float64(coords.Predict(own, p.Coord)) / float64(time.Millisecond),
		})
	}
	slices.SortFunc(out, func(a, b Peer) int { return strings.Compare(a.ID, b.ID) })
	return out, nil
}
