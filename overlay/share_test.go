package overlay

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"shoal/coords"
)

// crowded is a table that heard of some honest peers all over and of three times as many that crowd around its owner.
func crowded(mark func(p *PeerRecord, i int)) (t table) {
	rng := rand.New(rand.NewPCG(3, 3))
	now := time.Unix(1_700_000_000, 0)
	own := coords.Coord{Err: .1}
	t = newTable(&own, time.Hour, 0)
	hear := func(p PeerRecord) {
		p.Seq, p.Issued, p.Coord.Err, p.Coord.Height = 1, now, .1, .1
		t.hear(now, &p)
		t.trim(rng)
	}
	const all = 400
	for i := range all {
		var p PeerRecord
		p.ID = ID(fmt.Sprint("p", i))
		if i%4 == 0 {
			p.Coord.Vec[0], p.Coord.Vec[1] = 60*rng.NormFloat64(), 60*rng.NormFloat64()
		} else {
			p.Coord.Vec[0] = 1 + 40*rng.Float64()
			mark(&p, i)
		}
		hear(p)
	}
	return t
}

// TestOneGroupHasItsShare checks that members of one network or account around a node get no more than their share of
// the table: in each ring no more than any other group, and a few of the nearest.
func TestOneGroupHasItsShare(t *testing.T) {
	for name, mark := range map[string]func(p *PeerRecord, i int){
		"one prefix": func(p *PeerRecord, i int) { p.Addrs = []string{fmt.Sprintf("/ip4/8.8.4.%d/tcp/1", i%250)} },
		"one prefix, whatever they say": func(p *PeerRecord, i int) {
			p.Addrs, p.Prefix = []string{fmt.Sprintf("/ip4/8.8.%d.1/tcp/1", i%250)}, "203.0.113.0/24"
		},
		"one account": func(p *PeerRecord, i int) { p.Account = "mallory" },
	} {
		tab := crowded(mark)
		crowd := 0
		for i := range tab.entries {
			if tab.entries[i].of(0) != "" || tab.entries[i].of(1) != "" {
				crowd++
			}
		}
		if most := nearShare + ringShare*rings; crowd > most {
			t.Errorf("%s: %d of %d entries are the crowd's, want at most %d", name, crowd, len(tab.entries), most)
		}
	}
	free, crowd := crowded(func(p *PeerRecord, _ int) { p.Load.Slots = 1 }), 0
	for _, e := range free.entries {
		crowd += int(e.rec.Load.Slots)
	}
	if crowd <= nearShare+ringShare*rings {
		t.Errorf("the bound is not what keeps the crowd out: without it there are %d", crowd)
	}
}

// Where all have one account, as a company's volunteers do, the nearest are kept all the same.
func TestOneAccountForAll(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	now := time.Unix(1_700_000_000, 0)
	own := coords.Coord{Err: .1}
	tab := newTable(&own, time.Hour, 0)
	for _, i := range rng.Perm(300) {
		p := PeerRecord{ID: ID(fmt.Sprint("p", i)), Seq: 1, Issued: now, Account: "ada", Coord: coords.Coord{Err: .1}}
		p.Coord.Vec[0] = float64(i + 1)
		tab.hear(now, &p)
		tab.trim(rng)
	}
	for i := range nearestKept {
		if tab.find(ID(fmt.Sprint("p", i))) < 0 {
			t.Errorf("the nearest but %d is not kept", i)
		}
	}
}

// A record by hearsay tells no account; what was learnt from the peer itself stays.
func TestHearsayKeepsTheAccount(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	own := coords.Coord{Err: .1}
	tab := newTable(&own, time.Hour, 0)
	p := PeerRecord{ID: "p", Seq: 1, Issued: now, Account: "ada", Coord: coords.Coord{Err: .1}}
	tab.hear(now, &p)
	hearsay := p
	hearsay.Seq, hearsay.Account = 2, ""
	tab.hear(now, &hearsay)
	if e := tab.entries[0]; e.known().account != "ada" || e.rec.Seq != 2 {
		t.Errorf("%+v", e.rec)
	}
}

// Where a member was seen counts, not where it says that it is, be it in its own record or by hearsay.
func TestPrefixIsWhereAPeerWasSeen(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	own := coords.Coord{Err: .1}
	n := Node{table: newTable(&own, time.Hour, 0)}
	tab := &n.table
	p := PeerRecord{ID: "p", Seq: 1, Issued: now, Addrs: []string{"/ip4/8.8.4.4/tcp/1"}, Coord: coords.Coord{Err: .1}}
	tab.hear(now, &p)
	prefix := func() string { v := n.View(now); return v.Prefix(v.Index("p")) }
	if got := prefix(); got != "8.8.4.0/24" {
		t.Errorf("by hearsay alone it is %q", got)
	}
	n.Located("p", "")
	n.Located("stranger", "203.0.113.0/24")
	if got := prefix(); got != "8.8.4.0/24" {
		t.Errorf("seen at no public address: %q", got)
	}
	n.Located("p", "203.0.113.0/24")
	for _, lie := range []string{"/ip4/9.9.9.9/tcp/1", "/ip4/192.168.1.1/tcp/1"} {
		hearsay := p
		hearsay.Seq, hearsay.Addrs = tab.entries[0].rec.Seq+1, []string{lie}
		tab.hear(now, &hearsay)
		if got := prefix(); got != "203.0.113.0/24" || tab.entries[0].rec.Seq != hearsay.Seq {
			t.Errorf("where it says %s it is %q", lie, got)
		}
	}
	moved := p
	moved.Seq, moved.Prefix = 9, "198.51.100.0/24"
	tab.hear(now, &moved)
	if got := prefix(); got != "198.51.100.0/24" {
		t.Errorf("after a move it is %q", got)
	}
}
