package manager

import (
	"shoal/manager/dispatch"
	"shoal/manager/trust"
	"shoal/recrawl"
)

// roll has the peers that have delivered, by the numbers that a table of channels notes. Peers come and go under ever new names, so that only those are kept
// which are the last of some channel. The loop owns it.
type roll struct {
	peers []trust.Peer          // the first is nobody
	place map[trust.Peer]uint32 // where in peers
	most  int                   // of peers, before those are left out that are no channel's last
}

// leastRoll is how many peers a roll has before it is thinned.
const leastRoll = 1 << 14

func newRoll() roll {
	return roll{peers: []trust.Peer{0}, place: map[trust.Peer]uint32{}, most: leastRoll}
}

// last is the peer that crawled the channel at a slot last; 0: it is not known.
func (r *roll) last(t *dispatch.Table, s recrawl.Slot) trust.Peer { return r.peers[t.Last(s)] }

// delivered notes who crawled the channel at a slot last.
func (r *roll) delivered(t *dispatch.Table, s recrawl.Slot, n trust.Peer) {
	at, ok := r.place[n]
	if !ok {
		if len(r.peers) > r.most {
			r.thin(t)
		}
		at = uint32(len(r.peers))
		r.peers, r.place[n] = append(r.peers, n), at
	}
	t.SetLast(s, at)
}

// thin leaves out who is no channel's last. It looks at all slots, and so waits until there are twice as many peers as it has kept.
func (r *roll) thin(t *dispatch.Table) {
	kept := newRoll()
	for s := range recrawl.Slot(t.Len()) {
		n := r.last(t, s)
		if n == 0 {
			continue
		}
		at, ok := kept.place[n]
		if !ok {
			at = uint32(len(kept.peers))
			kept.peers, kept.place[n] = append(kept.peers, n), at
		}
		t.SetLast(s, at)
	}
	kept.most = max(leastRoll, 2*len(kept.peers))
	*r = kept
}
