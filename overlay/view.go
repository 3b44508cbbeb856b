package overlay

import (
	"bytes"
	"time"
)

// View is what a node knows of the other members at one moment. It never changes, so that many may read it at once without copying.
type View struct {
	At       time.Time
	Peers    []PeerRecord // in no particular order; Seen and Account are set
	stands   []standing   // of each peer; nil: all as usual
	prefixes []string     // of each peer, the network that it was seen in, else that of the first public address that it names; nil: none is known
	fresh    []bool       // of each peer, that it has delivered nothing to the node; nil: all have
	hashes   []uint32     // of each peer's id
	tags     []byte       // their last bytes
}

// View is the node's table as it is now.
func (n *Node) View(now time.Time) *View {
	t := &n.table
	v := &View{At: now, Peers: n.Known(), hashes: append([]uint32(nil), t.hashes...), tags: append([]byte(nil), t.tags...)}
	for i := range t.entries {
		s := n.standing(now, &t.entries[i])
		if s != usual && v.stands == nil {
			v.stands = make([]standing, len(t.entries))
		}
		if s != usual {
			v.stands[i] = s
		}
		if t.entries[i].known().delivered.IsZero() {
			if v.fresh == nil {
				v.fresh = make([]bool, len(t.entries))
			}
			v.fresh[i] = true
		}
		if p := t.entries[i].known().prefix; p != "" {
			if v.prefixes == nil {
				v.prefixes = make([]string, len(t.entries))
			}
			v.prefixes[i] = p
		}
	}
	return v
}

// ViewOf is a view of some peers, for who knows them without a node.
func ViewOf(now time.Time, peers []PeerRecord) *View {
	v := &View{At: now, Peers: peers}
	for i := range peers {
		h := hashOf(peers[i].ID)
		v.hashes, v.tags = append(v.hashes, h), append(v.tags, byte(h))
	}
	return v
}

// Find is the record of a peer; nil: it is not known.
func (v *View) Find(id ID) *PeerRecord {
	if i := v.Index(id); i >= 0 {
		return &v.Peers[i]
	}
	return nil
}

// Prefix is the network in which Peers[i] was seen; if it was not, that of the first public address that it names; empty: none is known.
func (v *View) Prefix(i int) string {
	if v.prefixes == nil {
		return ""
	}
	return v.prefixes[i]
}

// Fresh reports whether Peers[i] has delivered no pages yet.
func (v *View) Fresh(i int) bool { return v.fresh != nil && v.fresh[i] }

// Index is where a peer is among Peers; -1: it is not known.
func (v *View) Index(id ID) int {
	hash := hashOf(id)
	for from := 0; ; from++ {
		i := bytes.IndexByte(v.tags[from:], byte(hash))
		if i < 0 {
			return -1
		}
		if from += i; v.hashes[from] == hash && v.Peers[from].ID == id {
			return from
		}
	}
}
