package badgerdb

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"shoal/channel"
)

// v1 is the version byte that begins every stored value.
const v1 = 1

// The first byte of a key tells the kind of record. Ids are eight bytes, big-endian, so that keys sort by id.
const (
	keyMeta      = 'm' // name: see metaSchema and its neighbours
	keyFacts     = 'f' // id: state and the scheduler's facts; every existing channel has exactly one
	keyLease     = 'l' // id: last handing-out
	keyLearnt    = 't' // id: what reports taught
	keyCold      = 'c' // id: scope, seeds, settings
	keyInter     = 'i' // id: pending inter-site URLs
	keyPlace     = 'p' // host, directory: the channels there
	keySet       = 'u' // host, hash of directories: the channel of that set
	keyHost      = 'o' // host: what politeness needs
	keyRecord    = 'r' // host: where it is
	keyCandidate = 'd' // host
	keyCursor    = 'a' // feed
	keyCounter   = 'k' // name
	keyBlob      = 'b' // name: head, and the parts below it
)

func metaKey(name string) []byte { return append([]byte{keyMeta}, name...) }

func nameKey(kind byte, name string) []byte { return append([]byte{kind}, name...) }

func idKey(kind byte, id channel.ID) []byte {
	return binary.BigEndian.AppendUint64([]byte{kind}, uint64(id))
}

func keyID(key []byte) channel.ID { return channel.ID(binary.BigEndian.Uint64(key[1:])) }

// Places: 'p' host 0 scheme directory 0 for the channel of a host (directory "/") or of a directory; 'p' host 0
// scheme directory 1 id for a channel of several directories. The scheme follows the host name, so that a search can
// use the beginning of the name.
const (
	placeOne = 0
	placeSet = 1
)

func hostKey(kind byte, origin string) []byte {
	name, ok := strings.CutPrefix(origin, "https://")
	scheme := byte('s')
	if !ok {
		name, scheme = strings.TrimPrefix(origin, "http://"), 'h'
	}
	k := append([]byte{kind}, name...)
	return append(k, 0, scheme)
}

// parseHostKey returns the origin in a key and the bytes after it.
func parseHostKey(key []byte) (origin string, rest []byte, ok bool) {
	i := slices.Index(key, 0)
	if i < 1 || i+1 >= len(key) {
		return "", nil, false
	}
	scheme := "http://"
	if key[i+1] == 's' {
		scheme = "https://"
	}
	return scheme + string(key[1:i]), key[i+2:], true
}

func placeKey(origin, dir string) []byte {
	return append(append(hostKey(keyPlace, origin), dir...), placeOne)
}

func setPlaceKey(origin, dir string, id channel.ID) []byte {
	k := append(append(hostKey(keyPlace, origin), dir...), placeSet)
	return binary.BigEndian.AppendUint64(k, uint64(id))
}

func setKey(s *channel.Scope) []byte {
	sum := sha256.Sum256([]byte(s.Key()))
	return append(hostKey(keySet, s.Host), sum[:16]...)
}

// scopeKey is the key that makes a scope unique.
func scopeKey(s *channel.Scope) []byte {
	switch s.Kind {
	case channel.WholeHost:
		return placeKey(s.Host, "/")
	case channel.Directory:
		return placeKey(s.Host, s.Dirs[0])
	}
	return setKey(s)
}

// scopeHolder is the channel that reaches what a scope does; 0: none does.
func scopeHolder(get getter, s *channel.Scope) (channel.ID, error) {
	for _, spelt := range s.Spellings() {
		if id, err := sameHolder(get, &spelt); err != nil || id != 0 {
			return id, err
		}
	}
	return 0, nil
}

// sameHolder is the channel that has a scope, spelt as it is; 0: none has. A set of one directory, named twice, reaches what that directory does, but has another key.
func sameHolder(get getter, s *channel.Scope) (channel.ID, error) {
	keys := [][]byte{scopeKey(s)}
	if one := s.Dirs; len(one) > 0 && !slices.ContainsFunc(one, func(d string) bool { return d != one[0] }) {
		keys = [][]byte{placeKey(s.Host, one[0]), setKey(s)}
	}
	for _, key := range keys {
		if raw, err := get(key); err != nil {
			return 0, err
		} else if raw != nil {
			return parseID(raw)
		}
	}
	return 0, nil
}

// setPlaces returns the places of a channel of several directories with their values, nothing for another channel.
func setPlaces(id channel.ID, s *channel.Scope) map[string][]byte {
	if s.Kind != channel.Directories {
		return nil
	}
	keys := make(map[string][]byte, len(s.Dirs))
	for _, d := range s.Dirs {
		keys[string(setPlaceKey(s.Host, d, id))] = idValue(id)
	}
	return keys
}

// scopeKeys returns all index entries of a channel with their values.
func scopeKeys(id channel.ID, s *channel.Scope) map[string][]byte {
	keys := map[string][]byte{string(scopeKey(s)): idValue(id)}
	maps.Copy(keys, setPlaces(id, s))
	return keys
}

func idValue(id channel.ID) []byte { return binary.AppendUvarint([]byte{v1}, uint64(id)) }

func parseID(v []byte) (channel.ID, error) {
	r := reader{b: v}
	r.version()
	id := r.uint()
	return channel.ID(id), r.end("id")
}

func damaged(what string, raw []byte) error {
	return fmt.Errorf("%w: %s: %x", ErrDamaged, what, raw[:min(len(raw), 32)])
}

// facts is the hottest record. With the scheduler's 44 bytes it stays below inlineValue.
type facts struct {
	state  channel.State
	weight float32
	group  int
	host   channel.HostKey // zero in what older programs wrote
	links  int
	blob   []byte
}

const (
	factWeight = 1 << iota // flags
	factGroup
	factHost
	factLinks
)

func (f *facts) encode() []byte {
	flags := byte(0)
	if f.weight != 0 {
		flags |= factWeight
	}
	if f.group != 0 {
		flags |= factGroup
	}
	if f.host != 0 {
		flags |= factHost
	}
	if f.links != 0 {
		flags |= factLinks
	}
	b := append(make([]byte, 0, inlineValue), v1, byte(f.state), flags)
	if f.weight != 0 {
		b = binary.BigEndian.AppendUint32(b, math.Float32bits(f.weight))
	}
	if f.group != 0 {
		b = append(b, byte(f.group))
	}
	if f.host != 0 {
		b = binary.BigEndian.AppendUint64(b, uint64(f.host))
	}
	if f.links != 0 {
		b = binary.BigEndian.AppendUint16(b, uint16(f.links))
	}
	return append(b, f.blob...)
}

func parseFacts(raw []byte) (facts, error) {
	f, err := parseFactsIn(raw)
	f.blob = slices.Clone(f.blob)
	return f, err
}

// parseFactsIn does not copy the blob.
func parseFactsIn(raw []byte) (facts, error) {
	r := reader{b: raw}
	r.version()
	f := facts{state: channel.State(r.byte())}
	flags := r.byte()
	if flags&factWeight != 0 {
		f.weight = math.Float32frombits(r.uint32())
	}
	if flags&factGroup != 0 {
		f.group = int(r.byte())
	}
	if flags&factHost != 0 {
		f.host = channel.HostKey(binary.BigEndian.Uint64(r.take(8)))
	}
	if flags&factLinks != 0 {
		f.links = int(binary.BigEndian.Uint16(r.take(2)))
	}
	f.blob = r.rest()
	return f, r.end("facts")
}

// leaseRecord is the last handing-out.
type leaseRecord struct {
	gen       channel.Gen
	submitted time.Time
	blob      []byte
}

func (l *leaseRecord) encode() []byte {
	b := append(make([]byte, 0, inlineValue), v1)
	b = binary.AppendUvarint(b, uint64(l.gen))
	b = appendTime(b, l.submitted)
	return append(b, l.blob...)
}

func parseLease(raw []byte) (leaseRecord, error) {
	if raw == nil {
		return leaseRecord{}, nil
	}
	l, err := parseLeaseIn(raw)
	l.blob = slices.Clone(l.blob)
	return l, err
}

// parseLeaseIn does not copy the blob.
func parseLeaseIn(raw []byte) (leaseRecord, error) {
	r := reader{b: raw}
	r.version()
	l := leaseRecord{gen: channel.Gen(r.uint()), submitted: r.time()}
	l.blob = r.rest()
	return l, r.end("lease")
}

// encodeLearnt leaves out Gen, Submitted and EstimatorBlob, which have records of their own. The place of Failed held
// a number that was always zero in earlier versions.
func encodeLearnt(l *channel.Learnt, reason string) []byte {
	out := uint64(0)
	if l.Out {
		out = 1
	}
	b := append(make([]byte, 0, inlineValue), v1)
	for _, n := range []uint64{out, count(l.Failed), count(l.Visits), count(l.Changes), count(l.Pages), count(l.Budget),
		uint64(max(l.Service, 0).Milliseconds()), uint64(l.LastOutcome)} {
		b = binary.AppendUvarint(b, n)
	}
	b = appendTime(b, l.Updated)
	b = appendTime(b, l.Changed)
	b = appendText(b, l.LastError)
	b = appendText(b, reason)
	return append(b, l.History...)
}

func count(n int) uint64 { return uint64(max(n, 0)) }

func parseLearnt(raw []byte) (l channel.Learnt, reason string, err error) {
	if raw == nil {
		return l, "", nil
	}
	r := reader{b: raw}
	r.version()
	l.Out = r.uint() == 1
	l.Failed, l.Visits, l.Changes, l.Pages, l.Budget = r.int(), r.int(), r.int(), r.int(), r.int()
	l.Service = time.Duration(r.uint()) * time.Millisecond
	l.LastOutcome = channel.Outcome(r.uint())
	l.Updated, l.Changed = r.time(), r.time()
	l.LastError = r.text()
	reason = r.text()
	if h := r.rest(); len(h) > 0 { // what was written before there were histories has none
		l.History = slices.Clone(h)
	}
	return l, reason, r.end("learnt")
}

func encodeInter(urls []channel.Pending) []byte {
	b := []byte{v1}
	for _, u := range urls {
		b = appendTime(b, u.Found)
		b = appendText(b, u.URL)
	}
	return b
}

func parseInter(raw []byte) ([]channel.Pending, error) {
	if raw == nil {
		return nil, nil
	}
	r := reader{b: raw}
	r.version()
	var urls []channel.Pending
	for len(r.b) > 0 && !r.bad {
		urls = append(urls, channel.Pending{Found: r.time(), URL: r.text()})
	}
	return urls, r.end("inter-site URLs")
}

// encodeHot encodes the part of a host that politeness needs; encodeRecord encodes the rest.
func encodeHot(h *channel.Host) []byte {
	b := append(make([]byte, 0, inlineValue), v1)
	b = appendTime(b, h.NextVisit)
	b = binary.AppendUvarint(b, uint64(max(h.CrawlDelay, 0).Milliseconds()))
	b = appendText(b, h.Blocked)
	if h.Rest < time.Millisecond {
		return b
	}
	return binary.AppendUvarint(b, uint64(h.Rest.Milliseconds()))
}

func parseHot(name string, raw []byte) (channel.Host, error) {
	h := channel.Host{Name: name}
	if raw == nil {
		return h, nil
	}
	r := reader{b: raw}
	r.version()
	h.NextVisit = r.time()
	h.CrawlDelay = time.Duration(r.uint()) * time.Millisecond
	h.Blocked = r.text()
	if len(r.b) > 0 { // what was written before there were rests has none
		h.Rest = time.Duration(r.uint()) * time.Millisecond
	}
	return h, r.end("host")
}

func encodeCandidate(c *channel.Candidate) []byte {
	b := binary.AppendUvarint([]byte{v1}, count(c.Links))
	b = binary.AppendUvarint(b, uint64(c.From))
	b = appendTime(b, c.First)
	b = appendTime(b, c.Last)
	for _, u := range c.Seeds {
		b = appendText(b, u)
	}
	return b
}

func parseCandidate(host string, raw []byte) (channel.Candidate, error) {
	r := reader{b: raw}
	r.version()
	c := channel.Candidate{Host: host, Links: r.int(), From: channel.ID(r.uint()), First: r.time(), Last: r.time()}
	for len(r.b) > 0 && !r.bad {
		c.Seeds = append(c.Seeds, r.text())
	}
	return c, r.end("candidate")
}

// Times are milliseconds since 1970. Zero means none.
func appendTime(b []byte, t time.Time) []byte {
	if t.IsZero() || t.UnixMilli() < 0 {
		return append(b, 0)
	}
	return binary.AppendUvarint(b, uint64(t.UnixMilli()))
}

func appendText(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// reader reads what the functions above wrote. After a malformed field it returns zeros, and end reports the error.
type reader struct {
	b   []byte
	bad bool
}

func (r *reader) take(n int) []byte {
	if n > len(r.b) || r.bad {
		r.bad = true
		return make([]byte, min(n, 8))
	}
	out := r.b[:n]
	r.b = r.b[n:]
	return out
}

func (r *reader) version() {
	if r.byte() != v1 {
		r.bad = true
	}
}

func (r *reader) byte() byte     { return r.take(1)[0] }
func (r *reader) uint32() uint32 { return binary.BigEndian.Uint32(r.take(4)) }

func (r *reader) uint() uint64 {
	n, used := binary.Uvarint(r.b)
	if used <= 0 || r.bad {
		r.bad = true
		return 0
	}
	r.b = r.b[used:]
	return n
}

func (r *reader) int() int {
	n := r.uint()
	if n > math.MaxInt32 {
		r.bad = true
		return 0
	}
	return int(n)
}

func (r *reader) time() time.Time {
	ms := r.uint()
	if ms == 0 || ms > math.MaxInt64 {
		return time.Time{}
	}
	return time.UnixMilli(int64(ms)).UTC()
}

func (r *reader) text() string {
	n := r.uint()
	if n > uint64(len(r.b)) {
		r.bad = true
		return ""
	}
	return string(r.take(int(n)))
}

func (r *reader) rest() []byte {
	if len(r.b) == 0 {
		return nil
	}
	return r.take(len(r.b))
}

func (r *reader) end(what string) error {
	if r.bad || len(r.b) > 0 {
		return fmt.Errorf("%w: a record of %s cannot be read", ErrDamaged, what)
	}
	return nil
}
