package archive

import (
	"container/heap"
	"sync"
	"time"

	"github.com/dgraph-io/badger/v4"

	"shoal/channel"
	"shoal/channel/lease"
	pb "shoal/manager/archive/archivepb"
)

// keyed is a lock for each key, with a value that lives as long as somebody holds or waits for it, or as it is pinned.
type keyed[K comparable, V any] struct {
	mu sync.Mutex
	m  map[K]*held[V]
}

type held[V any] struct {
	mu     sync.Mutex
	refs   int
	pinned bool // kept without holders; guarded by keyed.mu
	v      V
}

// lock waits for the key.
func (k *keyed[K, V]) lock(key K) *held[V] {
	k.mu.Lock()
	if k.m == nil {
		k.m = make(map[K]*held[V])
	}
	h := k.m[key]
	if h == nil {
		h = new(held[V])
		k.m[key] = h
	}
	h.refs++
	k.mu.Unlock()
	h.mu.Lock()
	return h
}

// unlock gives the key back; pin keeps its value in memory.
func (k *keyed[K, V]) unlock(key K, h *held[V], pin bool) {
	h.mu.Unlock()
	k.mu.Lock()
	defer k.mu.Unlock()
	h.refs--
	h.pinned = pin
	if h.refs == 0 && !pin {
		delete(k.m, key)
	}
}

// pins counts the values that are kept without holders.
func (k *keyed[K, V]) pins() (n int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, h := range k.m {
		if h.pinned {
			n++
		}
	}
	return n
}

// slot is one channel in memory: while a call is under way or a lease runs.
type slot struct {
	loaded bool
	fence  lease.Fence
	peer   string
	host   string
	latest time.Time
	inter  uint64
	near   uint64           // pages of this crawl that were told as changed and hardly are
	crawl  uint64           // sequence number from which resume states count
	soFar  soFar            // what the crawl that runs has brought
	timed  bool             // the timers know of its deadline
	scope  *channel.Matcher // of the claimed task, compiled when the first chunk comes
}

// load reads the slot unless it is there already.
func (s *slot) load(db *state, id channel.ID) error {
	if s.loaded {
		return nil
	}
	return db.View(func(txn *badger.Txn) error {
		var m pb.Channel
		ok, err := get(txn, key1(keyChannel, uint64(id)), &m)
		if err != nil {
			return err
		}
		if ok {
			if s.fence, err = lease.ParseFence(m.Fence); err != nil {
				return err
			}
			s.peer, s.host, s.latest, s.inter, s.crawl, s.near = m.Peer, m.Host, fromMicros(m.LatestUs), m.Inter, m.Crawl, m.Near
			s.soFar.parse(m.SoFar)
		}
		s.loaded = true
		return nil
	})
}

// value is what is stored of the slot.
func (s *slot) value() ([]byte, error) {
	return encode(&pb.Channel{Fence: s.fence.Append(nil), Peer: s.peer, Host: s.host, LatestUs: micros(s.latest), Inter: s.inter, Crawl: s.crawl, Near: s.near, SoFar: s.soFar.pb()})
}

// timers is when leases end. Entries are not removed but found stale when their time comes.
type timers struct {
	mu   sync.Mutex
	heap timerHeap
	wake chan struct{}
}

type timer struct {
	at int64
	id channel.ID
}

type timerHeap []timer

func (h timerHeap) Len() int           { return len(h) }
func (h timerHeap) Less(i, j int) bool { return h[i].at < h[j].at }
func (h timerHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *timerHeap) Push(x any)        { *h = append(*h, x.(timer)) }
func (h *timerHeap) Pop() any {
	old := *h
	x := old[len(old)-1]
	*h = old[:len(old)-1]
	return x
}

// set adds a time at which the channel is to be looked at.
func (t *timers) set(id channel.ID, at time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	first := len(t.heap) == 0 || at.UnixNano() < t.heap[0].at
	heap.Push(&t.heap, timer{at.UnixNano(), id})
	if first && t.wake != nil {
		close(t.wake)
		t.wake = nil
	}
}

// first is the earliest time.
func (t *timers) first() (time.Time, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.heap) == 0 {
		return time.Time{}, false
	}
	return time.Unix(0, t.heap[0].at), true
}

// due takes out one channel whose time has come.
func (t *timers) due(now time.Time) (channel.ID, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.heap) == 0 || t.heap[0].at > now.UnixNano() {
		return 0, false
	}
	return heap.Pop(&t.heap).(timer).id, true
}

// changed is closed when a time is set that is earlier than the first.
func (t *timers) changed() <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.wake == nil {
		t.wake = make(chan struct{})
	}
	return t.wake
}
