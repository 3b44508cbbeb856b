package overlay

import (
	"bytes"
	"math"
	"math/bits"
	"slices"
	"time"

	"shoal/coords"
)

// entry is one peer of the table.
type entry struct {
	id       ID          // of its record, which is somewhere else in memory
	rec      *PeerRecord // shared with messages and, in a simulation, with other nodes: never changed
	more     *more       // nil: nothing of it is known
	seen     int64       // when this node last heard of it, ns
	failures uint8
}

// more is what is known of few peers.
type more struct {
	account   string    // of its certificate; empty: that was not seen
	prefix    string    // of the address that it was seen at, else of the first that it names; empty: none that tells
	located   bool      // it was seen there
	delivered time.Time // when it last delivered pages of a task of this node's
	full      time.Time // until when it is offered no task by name, since it refused one or gave one back
	behind    bool      // it refused that one since it could have started it only later
	left      time.Time // until when it is offered no task at all, since it gave one back
	back      time.Time // when it made a record after it had left a request unanswered; zero: it has not
	host      string    // that it did not want last
	unwanted  uint8     // such hosts since it took a task
}

// known is what is known of a peer, to be read.
func (e *entry) known() more {
	if e.more == nil {
		return more{}
	}
	return *e.more
}

// note is what is known of a peer, to be changed.
func (e *entry) note() *more {
	if e.more == nil {
		e.more = &more{}
	}
	return e.more
}

// spot is where an entry is. Spots lie beside one another, since they are gone through with every message.
type spot struct {
	at    coords.Coord  // as in its record
	rtt   time.Duration // measured to it, the shortest; 0: not yet
	since int64         // from when its record counts, ns; silent: it left the last request unanswered
}

// table holds the peers that a node knows: the nearest ones, and in each ring of round-trip times some at random.
type table struct {
	own      *coords.Coord
	moved    bool // own has changed since ms was computed
	expiry   time.Duration
	oldest   int64 // no record is older, ns
	grouped  bool  // some prefix or account was heard of
	all      int   // every peer is kept up to here; 0: MaxTable. A manager knows more than it needs for lookups
	overfull bool  // a member was dropped for want of room
	entries  []entry
	hashes   []uint32  // of each entry's id
	tags     []byte    // their last bytes: so few are gone through in no time, and an index would be a kilobyte or two
	spots    []spot    // of each entry
	ms       []float64 // of each entry, how far it is; negative: to be computed
	index    *index    // of the spots; nil: they are few, and looked at one by one
	apart    []float64 // scratch of nearest
	best     []far     // the same
	reach    float64   // how far the last of the nearest was when they were chosen last
	gone     []ID      // peers that failed, oldest first, with what they last said
	graves   map[ID]uint64
}

// A peer that failed does not come back by hearsay: only a record that it made since counts. maxGone bounds how many of them are remembered, maxAhead how far a record may be dated in the future, since clocks differ.
const (
	maxGone  = 256
	maxAhead = 5 * time.Minute
)

// ringAt is the ring of a predicted round-trip time: log2 of milliseconds.
func ringAt(ms float64) int {
	if ms < 2 {
		return 0
	}
	return min(bits.Len64(uint64(ms))-1, rings-1)
}

func newTable(own *coords.Coord, expiry time.Duration, all int) table {
	const full = MaxTable + MaxGossip + 1 // and what a message brings
	t := table{own: own, expiry: expiry, all: all, graves: map[ID]uint64{},
		entries: make([]entry, 0, full), hashes: make([]uint32, 0, full), tags: make([]byte, 0, full),
		spots: make([]spot, 0, full), ms: make([]float64, 0, full)}
	if all > MaxTable {
		t.index = &index{}
	}
	return t
}

// sampled reports whether there are more members than a table has room for, so that it holds some of them only.
func (t *table) sampled() bool { return t.all == 0 || t.overfull && len(t.entries) > t.all-t.all/8 }

// hashOf is FNV-1a, its halves mixed.
func hashOf(id ID) uint32 {
	h := uint32(2166136261)
	for i := range len(id) {
		h = (h ^ uint32(id[i])) * 16777619
	}
	return h ^ h>>15
}

func (t *table) find(id ID) int { return t.findHashed(id, hashOf(id)) }

// findHashed is the position of an id with its hash; -1: it is not there.
func (t *table) findHashed(id ID, hash uint32) int {
	for from := 0; ; from++ {
		i := bytes.IndexByte(t.tags[from:], byte(hash))
		if i < 0 {
			return -1
		}
		if from += i; t.hashes[from] == hash && t.entries[from].id == id {
			return from
		}
	}
}

// recordOf is the record of an id; nil: there is none.
func (t *table) recordOf(id ID) *PeerRecord {
	if i := t.find(id); i >= 0 {
		return t.entries[i].rec
	}
	return nil
}

// remove takes an entry out; the last one takes its place.
func (t *table) remove(i int) {
	last := len(t.entries) - 1
	if t.index != nil {
		t.index.drop(i)
		if i != last {
			t.index.rename(last, i)
		}
	}
	if i != last {
		t.entries[i], t.hashes[i], t.tags[i] = t.entries[last], t.hashes[last], t.tags[last]
		t.spots[i], t.ms[i] = t.spots[last], t.ms[last]
	}
	t.entries[last] = entry{}
	t.entries, t.hashes, t.tags = t.entries[:last], t.hashes[:last], t.tags[:last]
	t.spots, t.ms = t.spots[:last], t.ms[:last]
}

// hear takes a record in and keeps it. An older one than the present one counts as nothing heard. The caller calls
// trim once all records of a message are in, because choosing who stays is most of the cost of a message.
func (t *table) hear(now time.Time, r *PeerRecord) { t.hearHashed(now, r, hashOf(r.ID)) }

// hearHashed is the same for a record whose id's hash is known.
func (t *table) hearHashed(now time.Time, r *PeerRecord, hash uint32) {
	if age := now.Sub(r.Issued); age < -maxAhead || age > t.expiry && !r.Issued.IsZero() {
		return
	}
	if i := t.findHashed(r.ID, hash); i >= 0 {
		e := &t.entries[i]
		if e.rec == r && !r.Issued.IsZero() {
			e.seen = now.UnixNano()
			return
		}
		if r.Seq < e.rec.Seq {
			return
		}
		if r.Seq > e.rec.Seq {
			if e.failures > 0 {
				e.note().back = now
			}
			e.failures = 0
			if !e.known().located && !slices.Equal(r.Addrs, e.rec.Addrs) {
				e.note().prefix = prefixOf(r.Addrs)
			}
		}
		if t.spots[i].rtt == 0 && r.Coord != t.spots[i].at {
			t.ms[i] = -1
		}
		if t.index != nil && r.Coord != t.spots[i].at {
			t.index.put(i, &r.Coord)
		}
		e.rec, e.seen, t.spots[i].at = r, now.UnixNano(), r.Coord
		if r.Account != "" { // else it is hearsay
			e.note().account = r.Account
		}
		if r.Prefix != "" {
			e.note().prefix, e.more.located = r.Prefix, true
		}
		t.noted(i)
		return
	}
	var about more
	if r.Prefix != "" {
		about.account, about.prefix, about.located = r.Account, r.Prefix, true
	} else if r.Account != "" || len(r.Addrs) > 0 {
		about.account, about.prefix = r.Account, prefixOf(r.Addrs)
	}
	if len(t.gone) > 0 {
		if seq, ok := t.graves[r.ID]; ok {
			if r.Seq <= seq {
				return
			}
			about.back = now
			delete(t.graves, r.ID)
			t.gone = slices.DeleteFunc(t.gone, func(id ID) bool { return id == r.ID })
		}
	}
	e := entry{id: r.ID, rec: r, seen: now.UnixNano()}
	if about != (more{}) {
		*e.note() = about
	}
	t.entries, t.hashes, t.tags = append(t.entries, e), append(t.hashes, hash), append(t.tags, byte(hash))
	t.spots, t.ms = append(t.spots, spot{at: r.Coord}), append(t.ms, -1)
	if t.index != nil {
		t.index.put(len(t.entries)-1, &r.Coord)
	}
	t.noted(len(t.entries) - 1)
}

// locate notes the network that a peer was seen in.
func (t *table) locate(id ID, prefix string) {
	if i := t.find(id); i >= 0 && prefix != "" {
		t.entries[i].note().prefix, t.entries[i].more.located = prefix, true
		t.grouped = true
	}
}

// measured notes how far a peer really is.
func (t *table) measured(id ID, rtt time.Duration) {
	if i := t.find(id); i >= 0 && (t.spots[i].rtt == 0 || rtt < t.spots[i].rtt) {
		t.spots[i].rtt, t.ms[i] = rtt, milliseconds(rtt)
	}
}

// away is how far each entry is in milliseconds: as measured, else as predicted.
func (t *table) away() []float64 {
	for i := range t.spots {
		if s := &t.spots[i]; s.rtt == 0 && (t.moved || t.ms[i] < 0) {
			t.ms[i] = coords.Distance(t.own, &s.at)
		}
	}
	t.moved = false
	return t.ms
}

// fail notes that a peer did not answer; the second time in a row it leaves. It tells whether it left.
func (t *table) fail(id ID) bool {
	i := t.find(id)
	if i < 0 {
		return false
	}
	t.entries[i].failures++
	t.spots[i].since = silent
	if t.entries[i].failures < maxFailures {
		return false
	}
	if len(t.gone) >= maxGone {
		delete(t.graves, t.gone[0])
		t.gone = slices.Delete(t.gone, 0, 1)
	}
	t.gone, t.graves[id] = append(t.gone, id), t.entries[i].rec.Seq
	t.remove(i)
	return true
}

// wasAway reports whether a peer may have been away since some time: it is now, or it has come back since a request was left unanswered.
func (t *table) wasAway(id ID, from time.Time) bool {
	if _, ok := t.graves[id]; ok {
		return true
	}
	i := t.find(id)
	return i >= 0 && t.entries[i].known().back.After(from)
}

// since is from when an entry's record counts, in ns: when its peer made it, since hearsay keeps no peer alive.
func (e *entry) since() int64 {
	if e.rec.Issued.IsZero() { // an address of which nothing was heard yet
		return e.seen
	}
	return e.rec.Issued.UnixNano()
}

// record is a copy of an entry's record, with what this node knows beside.
func (e *entry) record() PeerRecord {
	r := *e.rec
	r.Seen, r.Account = time.Unix(0, e.seen), e.known().account
	return r
}

// busy notes until when a peer's threads are busy, of which it tells with its next record.
func (e *entry) busy(backlog time.Duration) {
	r := *e.rec
	r.Load.Backlog = min(max(backlog, 0), MaxBacklog)
	e.rec = &r
}

// noted takes note of what an entry's record says.
func (t *table) noted(i int) {
	e := &t.entries[i]
	if e.more != nil {
		t.grouped = t.grouped || e.more.prefix != "" || e.more.account != ""
	}
	if e.failures == 0 {
		t.spots[i].since = e.since()
	}
	t.ages(e)
}

// silent stands for a time before all others, so that who is silent is asked again soon, and stays or goes.
const silent = math.MinInt64

// ages notes that an entry is there whose record may be the oldest one.
func (t *table) ages(e *entry) {
	t.oldest = min(t.oldest, e.since())
}

func (t *table) answered(now time.Time, id ID) {
	if i := t.find(id); i >= 0 {
		e := &t.entries[i]
		e.failures, e.seen = 0, now.UnixNano()
		t.spots[i].since = e.since()
	}
}

// expire drops records that say nothing any more.
func (t *table) expire(now time.Time) {
	if now.UnixNano()-t.oldest <= int64(t.expiry) {
		return
	}
	t.oldest = now.UnixNano()
	for i := 0; i < len(t.entries); {
		if e := &t.entries[i]; now.UnixNano()-e.since() > int64(t.expiry) {
			t.remove(i)
		} else {
			t.ages(e)
			i++
		}
	}
}
