// Package overlaytest is the contract of the overlay for every transport of its messages. Each transport passes
// itself to Run in a test: the simulator's event queue in virtual time, and libp2p over loopback. The contract
// asserts outcomes, never timing.
//
// Of the overlay's invariants it checks those that its messages could break. Disagreement about who is near costs
// locality and never correctness. Nothing is accepted that is forged, late, of another network, or signed by a key
// without the right to. Accepted work never falls as more is offered. Everything has a bound, and bad input is
// refused and counted and does no harm. Moving or turning all places changes no order. The other two do not concern
// the overlay's messages: a channel's unbroken chain of chunks with growing generations, and at most eight
// handings-out of a task. channel/lease (its scenarios), manager/archive and manager keep these, whatever the overlay
// does.
package overlaytest

import (
	"crypto/ed25519"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"testing"
	"time"

	"shoal/channel"
	"shoal/coords"
	"shoal/internal/member"
	"shoal/overlay"
)

// Manager is the index of the member that places tasks; peers count from 0.
const Manager = -1

// Swarm is a manager and some peers, met over a transport.
type Swarm interface {
	// Now is the swarm's time.
	Now() time.Time
	// Until lets time pass until something holds, and fails the test if it never does.
	Until(what string, holds func() bool)
	// Known are the members that one knows.
	Known(who int) []overlay.PeerRecord
	// PlaceAt has the manager place a task for which a judge may have named a peer, and waits for what it comes to.
	PlaceAt(t overlay.Task, r coords.HostRecord, named overlay.Named) (overlay.Placed, error)
	// Handoff has a peer give tasks away, and says how many were taken.
	Handoff(from int, tasks []overlay.Task) int
	// Deliver brings a message of one peer to another, as it is but for what the transport signs; an error: it was refused on the way.
	Deliver(from, to int, m overlay.Msg) error
	// Introduce has a peer tell another of members that do not run, as they said themselves.
	Introduce(from, to int, ghosts []Ghost) error
	// Near has a peer ask another for those that it knows nearest to a place, and says which of the ghosts they are.
	Near(from, to int, at coords.Coord) (ghosts []int, err error)
	// Archive is the setup's ledger as a peer reaches it.
	Archive(who int) Uplink
	// Refused is how many messages, records and tasks a peer has refused.
	Refused(who int) int64
	// Vanish ends a peer without a word.
	Vanish(who int)
}

// Ghost is a member that is nowhere: its number, when it spoke, where it said that it is, and the account of its certificate.
type Ghost struct {
	N       int
	Seq     uint64
	At      coords.Coord
	Account string
}

// Setup is what a transport opens a swarm of.
type Setup struct {
	Network  member.NetworkID
	Verifier *member.Verifier // knows the authority that signs the suite's tasks
	Queues   []*Queue         // one for each peer
	Ledger   *Ledger          // of the archive, which is where the manager is
}

// Queue takes up to Room tasks.
type Queue struct {
	mu   sync.Mutex
	room int
	have []channel.ID
}

// Quote implements overlay.Queue.
func (q *Queue) Quote(now time.Time, _ channel.Header) (time.Time, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return now, len(q.have) < q.room
}

// Take implements overlay.Queue.
func (q *Queue) Take(_ time.Time, _ channel.Signed, h channel.Header) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.have = append(q.have, h.Channel)
	return nil
}

// Load implements overlay.Queue.
func (q *Queue) Load(time.Time) overlay.Load {
	q.mu.Lock()
	defer q.mu.Unlock()
	return overlay.Load{Threads: uint8(max(q.room, 1)), Running: uint8(min(len(q.have), math.MaxUint8))}
}

func (q *Queue) tasks() []channel.ID {
	q.mu.Lock()
	defer q.mu.Unlock()
	return append([]channel.ID(nil), q.have...)
}

// world is a network's authority and its swarm.
type world struct {
	t     *testing.T
	root  member.Root
	auth  *member.Authority
	setup Setup
	Swarm
}

// Run runs the contract. open makes a swarm that ends with the test.
func Run(t *testing.T, open func(t *testing.T, s Setup) Swarm) {
	for name, f := range map[string]func(*world){
		"each task is in one queue":             oneQueue,
		"the named peer comes first":            namedFirst,
		"wrong places cost locality only":       wrongPlaces,
		"a full swarm refuses for certain":      full,
		"what is taken never falls with load":   load,
		"peers that vanish are passed over":     vanish,
		"nothing forged, late or foreign taken": forged,
		"tasks are handed over once":            handover,
		"bad messages are refused and counted":  bad,
		"moved and turned places, same order":   moved,
		"one account has its share of a table":  share,
		"a copy is one unbroken chain":          chain,
		"handed out eight times at most":        handedOut,
	} {
		t.Run(name, func(t *testing.T) {
			w := &world{t: t}
			now := time.Now()
			w.root = member.NewRoot([32]byte{7})
			w.auth = authority(t, w.root, now)
			v := member.NewVerifier(w.root.ID())
			w.setup = Setup{Network: w.root.ID(), Verifier: v, Ledger: &Ledger{}}
			for range peers {
				w.setup.Queues = append(w.setup.Queues, &Queue{room: room})
			}
			w.Swarm = open(t, w.setup)
			w.setup.Ledger.Open(v, w.Now)
			w.Until("the manager knows all peers", func() bool { return w.takers(Manager) == peers })
			f(w)
			for i := range peers {
				if k := len(w.Known(i)); k > overlay.MaxTable {
					t.Errorf("peer %d knows %d members, at most %d", i, k, overlay.MaxTable)
				}
			}
		})
	}
}

const peers, room = 4, 3

func authority(t *testing.T, root member.Root, now time.Time) *member.Authority {
	t.Helper()
	a, err := newAuthority(root, now)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// newAuthority may sign tasks for a day.
func newAuthority(root member.Root, now time.Time) (*member.Authority, error) {
	seed := [32]byte{8}
	sealed, err := root.Delegate(member.Delegation{Key: [32]byte(ed25519.NewKeyFromSeed(seed[:]).Public().(ed25519.PublicKey)), Roles: member.AllRoles,
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(24 * time.Hour), Serial: 1})
	if err != nil {
		return nil, err
	}
	return member.NewAuthority(seed, root.ID(), sealed)
}

func (w *world) takers(who int) (n int) {
	for _, p := range w.Known(who) {
		if p.Load.Threads > 0 {
			n++
		}
	}
	return n
}

func (w *world) task(id channel.ID, change func(*channel.Header)) overlay.Task {
	w.t.Helper()
	now := w.Now()
	h := channel.Header{Network: w.root.ID(), Channel: id, Gen: 1, Host: fmt.Sprintf("http://h%d.example", id), Pages: 3, Gap: time.Millisecond,
		Issued: now, Latest: now.Add(10 * time.Minute), Archive: "archive", BodyBytes: 1}
	if change != nil {
		change(&h)
	}
	s, err := w.auth.SignHeader(h)
	if err != nil {
		w.t.Fatal(err)
	}
	return overlay.Task{Signed: s, Header: h}
}

// held counts in how many queues each task is.
func (w *world) held() map[channel.ID]int {
	n := map[channel.ID]int{}
	for _, q := range w.setup.Queues {
		for _, id := range q.tasks() {
			n[id]++
		}
	}
	return n
}

// once wants each of these tasks in one queue, and no others anywhere.
func (w *world) once(ids ...channel.ID) {
	w.t.Helper()
	n := w.held()
	for _, id := range ids {
		if n[id] != 1 {
			w.t.Errorf("task %d is in %d queues", id, n[id])
		}
		delete(n, id)
	}
	for id, k := range n {
		w.t.Errorf("task %d is in %d queues, and should be in none", id, k)
	}
}

// Place has the manager place a task for which no peer was named.
func (w *world) Place(t overlay.Task, r coords.HostRecord) (overlay.Placed, error) {
	return w.PlaceAt(t, r, overlay.Named{})
}

// namedFirst names each peer while it has room, and then when it has none.
func namedFirst(w *world) {
	var ids []channel.ID
	place := func(named overlay.ID) (overlay.Placed, error) {
		ids = append(ids, channel.ID(len(ids)+1))
		return w.PlaceAt(w.task(ids[len(ids)-1], nil), coords.HostRecord{}, overlay.Named{Peer: named})
	}
	first := overlay.ID("")
	for _, p := range w.Known(Manager) {
		if p.Load.Threads == 0 {
			continue
		}
		if first == "" {
			first = p.ID
		}
		for range room - 1 {
			if got, err := place(p.ID); err != nil || got.Peer != p.ID || got.Offers != 1 || got.Queries != 0 {
				w.t.Errorf("a task for %s: %+v, %v", p.ID, got, err)
			}
		}
	}
	if got, err := place(first); err != nil || got.Peer != first {
		w.t.Errorf("a task for %s: %+v, %v", first, got, err)
	}
	if got, err := place(first); err != nil || got.Peer == first || got.Offers < 2 {
		w.t.Errorf("a task for %s, which is full: %+v, %v", first, got, err)
	}
	if got, err := place("a peer that is not there"); err != nil || got.Peer == first {
		w.t.Errorf("a task for a peer that is not there: %+v, %v", got, err)
	}
	w.once(ids...)
}

func oneQueue(w *world) {
	var ids []channel.ID
	for i := range peers * room {
		id := channel.ID(i + 1)
		if _, err := w.Place(w.task(id, nil), coords.HostRecord{}); err != nil {
			w.t.Fatalf("task %d: %v", id, err)
		}
		ids = append(ids, id)
	}
	w.once(ids...)
}

// wrongPlaces places by nonsensical records: hosts everywhere at once, vantage points that do not exist.
func wrongPlaces(w *world) {
	var ids []channel.ID
	for i := range peers * room {
		id := channel.ID(i + 1)
		r := coords.HostRecord{Best: []string{"nobody", "no one"}}
		for k := range coords.MaxSamples {
			c := coords.Coord{Err: 1, Height: float64(k)}
			c.Vec[k%coords.Dims] = float64((k*37+i*101)%900) - 450
			r.Add(coords.Sample{Vantage: fmt.Sprint("v", k), At: c, RTT: time.Duration(1+(k*53)%400) * time.Millisecond, When: w.Now().Unix()})
		}
		if _, err := w.Place(w.task(id, nil), r); err != nil {
			w.t.Fatalf("task %d: %v", id, err)
		}
		ids = append(ids, id)
	}
	w.once(ids...)
}

func full(w *world) {
	oneQueue(w)
	if _, err := w.Place(w.task(999, nil), coords.HostRecord{}); !errors.Is(err, overlay.ErrRefused) {
		w.t.Errorf("a full swarm answers %v", err)
	}
	if w.held()[999] != 0 {
		w.t.Error("a refused task is in a queue")
	}
}

// load offers from a third of what the swarm holds to three times that.
func load(w *world) {
	last, id := 0, channel.ID(0)
	for _, offered := range []int{peers * room / 3, peers * room, 3 * peers * room} {
		for _, q := range w.setup.Queues {
			q.mu.Lock()
			q.have = nil
			q.mu.Unlock()
		}
		for range offered {
			id++
			if _, err := w.Place(w.task(id, nil), coords.HostRecord{}); err != nil && !errors.Is(err, overlay.ErrRefused) {
				w.t.Fatalf("task %d: %v", id, err)
			}
		}
		taken := len(w.held())
		if want := min(offered, peers*room); taken < last || taken != want {
			w.t.Errorf("of %d tasks %d were taken, of which %d fit; with less load it was %d", offered, taken, want, last)
		}
		last = taken
	}
}

func vanish(w *world) {
	w.Vanish(0)
	w.Vanish(1)
	var ids []channel.ID
	for i := range (peers - 2) * room {
		id := channel.ID(i + 1)
		if _, err := w.Place(w.task(id, nil), coords.HostRecord{}); err != nil {
			w.t.Errorf("task %d: %v", id, err)
			continue
		}
		ids = append(ids, id)
	}
	w.once(ids...)
}

func forged(w *world) {
	altered := w.task(1, nil)
	altered.Signed.Raw = append([]byte(nil), altered.Signed.Raw...)
	altered.Signed.Raw[len(altered.Signed.Raw)-1] ^= 1
	unsigned := w.task(2, nil)
	unsigned.Signed.Sig = nil
	late := w.task(3, func(h *channel.Header) { h.Issued, h.Latest = w.Now().Add(-2*time.Hour), w.Now().Add(-time.Hour) })
	stranger := member.NewRoot([32]byte{99})
	mine, auth := w.root, w.auth
	w.root, w.auth = stranger, authority(w.t, stranger, time.Now())
	foreign := w.task(4, nil)
	w.root, w.auth = mine, auth
	w.auth = mustDelegate(w, member.Delegation{Roles: member.SignCertificates | member.SignDocuments, NotBefore: w.Now().Add(-time.Hour), NotAfter: w.Now().Add(time.Hour)})
	role := w.task(5, nil)
	w.auth = mustDelegate(w, member.Delegation{Roles: member.AllRoles, NotBefore: w.Now().Add(-3 * time.Hour), NotAfter: w.Now().Add(-time.Hour)})
	ended := w.task(6, nil)
	w.auth = auth
	for what, t := range map[string]overlay.Task{"altered": altered, "unsigned": unsigned, "late": late, "foreign": foreign,
		"of a key that may not": role, "of a key whose time is over": ended} {
		if _, err := w.Place(t, coords.HostRecord{}); err == nil {
			w.t.Errorf("placed a task that is %s", what)
		}
		if k := w.Handoff(0, []overlay.Task{t}); k > 0 {
			w.t.Errorf("handed over a task that is %s", what)
		}
		before := w.Refused(1)
		_ = w.Deliver(Manager, 1, overlay.Offer{Signed: t.Signed, Header: t.Header}) // that it is not taken is what counts
		w.Until("counted: "+what, func() bool { return w.Refused(1) > before })
	}
	w.once()
}

// mustDelegate is a working key with a delegation of its own.
func mustDelegate(w *world, d member.Delegation) *member.Authority {
	w.t.Helper()
	seed := [32]byte{9, byte(d.Roles)}
	d.Key, d.Serial = [32]byte(ed25519.NewKeyFromSeed(seed[:]).Public().(ed25519.PublicKey)), 1
	sealed, err := w.root.Delegate(d)
	if err != nil {
		w.t.Fatal(err)
	}
	a, err := member.NewAuthority(seed, w.root.ID(), sealed)
	if err != nil {
		w.t.Fatal(err)
	}
	return a
}

// moved has a peer know the same members twice, the second time all of them moved and turned, and asks it for those nearest to a place and to that place moved and turned.
func moved(w *world) {
	const ghosts = 12
	there := func(c coords.Coord) coords.Coord { // whole numbers, so that no distance differs by rounding
		m := c
		for k := range coords.Dims {
			m.Vec[k] = 100 + float64(k)
			if from := (k + 3) % coords.Dims; k%2 == 0 {
				m.Vec[k] -= c.Vec[from]
			} else {
				m.Vec[k] += c.Vec[from]
			}
		}
		return m
	}
	here := func(c coords.Coord) coords.Coord { return c }
	at := coords.Coord{Err: 1}
	at.Vec[0], at.Vec[5] = 3, -2
	seq := uint64(w.Now().UnixMilli())
	order := func(place func(coords.Coord) coords.Coord) (got []int) {
		w.Until("a peer knows those that do not run", func() bool { // they are dropped again, since they do not answer
			seq++
			var all []Ghost
			for i := range ghosts {
				c := coords.Coord{Err: 1, Height: 1}
				for k := range coords.Dims {
					c.Vec[k] = float64((i*i*7+k*k*5+i*k)%23 - 11)
				}
				all = append(all, Ghost{N: i, Seq: seq, At: place(c)})
			}
			if err := w.Introduce(0, 1, all); err != nil {
				w.t.Fatal(err)
			}
			var err error
			got, err = w.Near(0, 1, place(at))
			return err == nil && len(got) == ghosts
		})
		return got
	}
	if first, second := order(here), order(there); !slices.Equal(first, second) {
		w.t.Errorf("nearest first: %v; moved and turned: %v", first, second)
	}
}

// share tells a peer of many members of one account that crowd around it, and of some others all over.
func share(w *world) {
	const crowd, others, most = 120, 60, 4 + 2*9 // of the nearest, of each ring
	var all []Ghost
	seq := uint64(w.Now().UnixMilli()) + 1<<20 // the crowd's own; the others have the next
	for i := range crowd + others {
		g := Ghost{N: i, Seq: seq, At: coords.Coord{Err: .1, Height: .1}, Account: fmt.Sprint("account", i)}
		if i%3 > 0 {
			g.Account = "mallory"
			g.At.Vec[0] = 1 + float64(i%40)
		} else {
			g.Seq++
			g.At.Vec[0], g.At.Vec[1] = float64(i*37%240-120), float64(i*53%240-120)
		}
		all = append(all, g)
	}
	for part := range slices.Chunk(all, overlay.MaxGossip) {
		if err := w.Introduce(0, 1, part); err != nil {
			w.t.Fatal(err)
		}
	}
	last := Ghost{N: crowd + others, Seq: seq + 1, At: coords.Coord{Err: .1, Height: .1}, Account: "last"} // what a peer shows may be older than what it has heard
	var known []overlay.PeerRecord
	w.Until("a peer shows the last of them", func() bool {
		last.Seq++
		if err := w.Introduce(0, 1, []Ghost{last}); err != nil {
			w.t.Fatal(err)
		}
		known = w.Known(1)
		return slices.ContainsFunc(known, func(p overlay.PeerRecord) bool { return p.Seq > seq+1 })
	})
	if n := len(slices.DeleteFunc(known, func(p overlay.PeerRecord) bool { return p.Seq != seq })); n > most {
		w.t.Errorf("%d entries of a table are of one account, want at most %d", n, most)
	}
}

func handover(w *world) {
	w.Until("a peer knows others", func() bool { return w.takers(0) >= 3 })
	tasks := []overlay.Task{w.task(1, nil), w.task(2, nil), w.task(3, nil)}
	if k := w.Handoff(0, tasks); k != len(tasks) {
		w.t.Errorf("%d of %d tasks were taken over", k, len(tasks))
	}
	w.once(1, 2, 3)
	if len(w.setup.Queues[0].tasks()) > 0 {
		w.t.Error("who gave them away has them")
	}
}

// bad sends what no honest member sends.
func bad(w *world) {
	nan := coords.Coord{Err: 1}
	nan.Vec[2] = math.NaN()
	far := coords.Coord{Err: 1}
	far.Vec[0] = math.Inf(-1)
	self := func(c coords.Coord, change func(*overlay.PeerRecord)) overlay.PeerRecord {
		var r overlay.PeerRecord
		for _, k := range w.Known(Manager) {
			if k.Load.Threads > 0 {
				r = k
			}
		}
		r.Coord, r.Seq = c, r.Seq+100
		if change != nil {
			change(&r)
		}
		return r
	}
	ok := coords.Coord{Err: 1}
	for what, m := range map[string]overlay.Msg{
		"a coordinate that is no number":     overlay.Gossip{Self: self(nan, nil)},
		"an infinite coordinate":             overlay.Gossip{Self: self(far, nil)},
		"a record of somebody else":          overlay.Gossip{Self: self(ok, func(r *overlay.PeerRecord) { r.ID = "somebody else" })},
		"a record with too many addresses":   overlay.Gossip{Self: self(ok, func(r *overlay.PeerRecord) { r.Addrs = make([]string, overlay.MaxAddrs+1) })},
		"a lookup toward no place":           overlay.FindNear{At: nan, N: 8},
		"a lookup for nobody":                overlay.FindNear{At: ok, N: 0},
		"a lookup for more than there may":   overlay.FindNear{At: ok, N: overlay.MaxNear + 1},
		"a handoff of too many tasks":        overlay.Handoff{Tasks: make([]overlay.Task, overlay.MaxHandoff+1)},
		"a task without a header or a name":  overlay.Offer{},
		"a handoff of tasks that are nobody": overlay.Handoff{Tasks: make([]overlay.Task, 2)},
	} {
		before := w.Refused(1)
		_ = w.Deliver(0, 1, m)
		w.Until("counted: "+what, func() bool { return w.Refused(1) > before })
	}
	w.once()
	w.Until("after all that a good question is answered", func() bool { return w.Deliver(0, 1, overlay.FindNear{At: ok, N: 8}) == nil })
	if _, err := w.Place(w.task(1, nil), coords.HostRecord{}); err != nil {
		w.t.Error(err)
	}
}
