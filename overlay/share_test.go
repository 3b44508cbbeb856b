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
		"one prefix":  func(p *PeerRecord, i int) { p.Addrs = []string{fmt.Sprintf("/ip4/8.8.4.%d/tcp/1", i%250)} },
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
