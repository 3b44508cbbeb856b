package channel

import (
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"

	pb "shoal/channel/channelpb"
)

// maxInt bounds counts of pages and bytes, so that they fit an int on 32-bit platforms.
const maxInt = 1<<31 - 1

// Marshal encodes the header. The manager signs these bytes.
func (h *Header) Marshal() []byte {
	return encode(&pb.Header{
		Network: bytes32(h.Network), Channel: uint64(h.Channel), Gen: uint64(h.Gen), Host: ascii(h.Host),
		Pages: int64(h.Pages), Budget: int64(h.Budget), IssuedUs: micros(h.Issued), LatestUs: micros(h.Latest),
		GapUs: h.Gap.Microseconds(), Archive: ascii(h.Archive), BodySha256: bytes32(h.BodySHA256), BodyBytes: int64(h.BodyBytes),
	})
}

// ParseHeader decodes a header. It does not check the signature.
func ParseHeader(b []byte) (Header, error) {
	var m pb.Header
	if err := decodeShort(b, MaxHeader, &m); err != nil {
		return Header{}, err
	}
	c := checker{what: "task header"}
	h := Header{
		Network: c.array32("network", m.Network), Channel: ID(m.Channel), Gen: Gen(m.Gen), Host: c.origin("host", m.Host),
		Pages: c.count("pages", m.Pages, maxInt), Budget: c.count("budget", m.Budget, maxInt),
		Issued: c.time("issued", m.IssuedUs), Latest: c.time("latest start", m.LatestUs), Gap: c.duration("gap", m.GapUs),
		Archive: c.id("archive", m.Archive, MaxPeerID), BodySHA256: c.array32("body hash", m.BodySha256),
		BodyBytes: c.count("body size", m.BodyBytes, MaxBody),
	}
	if h.Channel == 0 || h.Gen == 0 {
		c.fail(ErrMalformed, "no channel or generation")
	}
	return h, c.err
}

// Marshal encodes the signed header, as it travels in offers, hand-overs and claims.
func (s *Signed) Marshal() []byte {
	m := &pb.Signed{Raw: s.Raw, Sig: s.Sig, Delegation: s.Delegation}
	for _, h := range s.Handovers {
		m.Handovers = append(m.Handovers, &pb.Handover{From: ascii(h.From), To: ascii(h.To), Sig: h.Sig})
	}
	return encode(m)
}

// ParseSigned decodes a signed header. It checks neither the signature nor the header.
func ParseSigned(b []byte) (Signed, error) {
	var m pb.Signed
	if err := decode(b, MaxHeader, &m); err != nil {
		return Signed{}, err
	}
	c := checker{what: "signed task header"}
	s := Signed{
		Raw: c.bytes("header", m.Raw, MaxHeader), Sig: c.bytes("signature", m.Sig, MaxSig),
		Delegation: c.bytes("delegation", m.Delegation, MaxDelegation),
	}
	for _, h := range m.Handovers {
		s.Handovers = append(s.Handovers, Handover{
			From: c.id("giver", h.From, MaxPeerID), To: c.id("taker", h.To, MaxPeerID), Sig: c.bytes("giver's signature", h.Sig, MaxSig),
		})
	}
	return s, c.err
}

// Marshal encodes the body. Header.BodySHA256 is the hash of these bytes.
func (b *Body) Marshal() []byte {
	m := &pb.Body{
		Scope: b.Scope.pb(), Seeds: texts(b.Seeds), Inter: texts(b.Inter), Settings: b.Settings.pb(), KnownInter: b.KnownInter,
		Record: recordPB(b.Record), Contact: text(b.Contact),
	}
	for _, d := range b.Digests {
		m.DigestUrl = append(m.DigestUrl, d.URL)
		m.DigestContent = append(m.DigestContent, d.Content)
	}
	for _, v := range b.Validators {
		m.Validators = append(m.Validators, &pb.Validator{Url: v.URL, Etag: []byte(v.ETag), LastModified: []byte(v.LastModified)})
	}
	for _, i := range b.Importance {
		m.ImportanceUrl = append(m.ImportanceUrl, i.URL)
		m.ImportanceRank = append(m.ImportanceRank, i.Rank)
	}
	return encode(m)
}

// ParseBody decodes a task body.
func ParseBody(raw []byte) (Body, error) {
	var m pb.Body
	if err := decode(raw, MaxBody, &m); err != nil {
		return Body{}, err
	}
	c := checker{what: "task body"}
	b := Body{
		Scope: c.scope(m.Scope), Seeds: c.urls("seeds", m.Seeds, MaxSeeds), Inter: c.urls("inter-site URLs", m.Inter, MaxInter),
		Settings: c.settings(m.Settings), KnownInter: m.KnownInter, Record: c.record(m.Record), Contact: c.text("contact", m.Contact, MaxText),
	}
	if len(m.DigestUrl) != len(m.DigestContent) || len(m.ImportanceUrl) != len(m.ImportanceRank) {
		return Body{}, fmt.Errorf("%w: task body: halves of pairs are missing", ErrMalformed)
	}
	for i, u := range m.DigestUrl {
		b.Digests = append(b.Digests, PageDigest{URL: u, Content: m.DigestContent[i]})
	}
	for i, u := range m.ImportanceUrl {
		rank := c.real("importance", float64(m.ImportanceRank[i]), 0, maxWeight)
		b.Importance = append(b.Importance, Importance{URL: u, Rank: float32(rank)})
	}
	for _, v := range m.Validators {
		b.Validators = append(b.Validators, Validator{
			URL: v.Url, ETag: c.fieldValue("ETag", v.Etag), LastModified: c.fieldValue("Last-Modified", v.LastModified),
		})
	}
	return b, c.err
}

// Marshal encodes the resume state.
func (r *Resume) Marshal() []byte {
	return encode(&pb.Resume{Seq: r.Seq, Head: bytes32(r.Head), Frontier: frontierPB(r.Frontier), Done: r.Done, Leads: texts(r.Leads)})
}

// ParseResume decodes a resume state.
func ParseResume(b []byte) (Resume, error) {
	var m pb.Resume
	if err := decode(b, MaxResume, &m); err != nil {
		return Resume{}, err
	}
	c := checker{what: "resume state"}
	r := Resume{Seq: m.Seq, Head: c.array32("head", m.Head), Frontier: c.frontier(m.Frontier), Done: m.Done, Leads: c.urls("leads", m.Leads, MaxReportInter)}
	return r, c.err
}

// leadsField is the number of Resume.leads.
const leadsField = 5

// ParseLeads decodes the URLs of other sites alone, and none of the many others that a resume state may have. It leaves what cannot be read to the decoder.
func ParseLeads(b []byte) ([]string, error) {
	var leads []byte
	for len(b) > 0 {
		num, _, size := protowire.ConsumeField(b)
		if size < 0 {
			size, num = len(b), leadsField
		}
		if num == leadsField {
			leads = append(leads, b[:size]...)
		}
		b = b[size:]
	}
	r, err := ParseResume(leads)
	return r.Leads, err
}

func frontierPB(in []Frontier) []*pb.Frontier {
	out := make([]*pb.Frontier, len(in))
	for i, f := range in {
		out[i] = &pb.Frontier{Url: ascii(f.URL), Depth: int64(f.Depth)}
	}
	return out
}

func (c *checker) frontier(in []*pb.Frontier) []Frontier {
	var out []Frontier
	for _, f := range in {
		out = append(out, Frontier{URL: c.url("frontier", f.Url), Depth: c.count("depth", f.Depth, maxInt)})
	}
	return out
}
