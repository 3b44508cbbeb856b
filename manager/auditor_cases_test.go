package manager

import (
	"context"
	"testing"
	"time"

	"shoal/channel"
	"shoal/manager/archive"
	"shoal/manager/archive/evidence"
	"shoal/manager/trust"
)

// shelf is an evidence room that notes who lost which case.
type shelf struct {
	Evidence
	losers map[uint64]trust.Peer
	sides  map[uint64]int
	closed map[uint64]bool
}

func (s *shelf) Open(_ context.Context, about trust.Case, _ string, _ *archive.EvidenceFetch) (uint64, error) {
	return evidence.Number(about), nil
}

func (s *shelf) Put(_ context.Context, number uint64, _ evidence.Side, _ *archive.EvidenceFetch) error {
	s.sides[number]++
	return nil
}

func (s *shelf) Ruled(_ context.Context, number uint64, loser trust.Peer, _, _ float64, _ string) error {
	s.losers[number] = loser
	return nil
}

func (s *shelf) Close(_ context.Context, number uint64) error {
	s.closed[number] = true
	return nil
}

// TestEachWhoIsChargedHasACase has a ruling charge the accused, and a peer that had vouched for it: each has a case that it has lost, with what the arbiter saw, so that
// each is told of it and can object.
func TestEachWhoIsChargedHasACase(t *testing.T) {
	s := &shelf{losers: map[uint64]trust.Peer{}, sides: map[uint64]int{}, closed: map[uint64]bool{}}
	c := trust.Case{Reason: trust.Reverted, URL: 7, Channel: 1, Accused: 11, Also: 12, Accuser: 13, At: 1000}
	d := &dispute{wanted: wanted{url: "https://a.example/", c: c}, number: evidence.Number(c), sides: []testimony{{evidence.Arbiter, &archive.EvidenceFetch{}}}}
	charge := func(peers ...trust.Peer) (all []trust.Act) {
		for _, p := range peers {
			all = append(all, trust.Act{Kind: trust.Charge, Peer: p, Reason: trust.Reverted, Amount: 1})
		}
		return all
	}
	if err := d.file(t.Context(), s, charge(11, 12)); err != nil {
		t.Fatal(err)
	}
	own := c
	own.Accused, own.Also = 12, 0
	for number, loser := range map[uint64]trust.Peer{d.number: 11, evidence.Number(own): 12} {
		if s.losers[number] != loser || s.sides[number] != 1 || !s.closed[number] {
			t.Errorf("case %x was lost by %d with %d sides, closed %v; want %d", number, s.losers[number], s.sides[number], s.closed[number], loser)
		}
	}
	if err := d.file(t.Context(), s, charge(12)); err != nil { // the accused is banned by now
		t.Fatal(err)
	}
	if s.losers[d.number] != 0 {
		t.Errorf("who vouched lost the case of another: %d", s.losers[d.number])
	}
}

// oneOpen is an evidence room with one open case.
type oneOpen struct{ *shelf }

func (oneOpen) Unclosed(context.Context) ([]uint64, error) { return []uint64{5}, nil }

func (oneOpen) Read(context.Context, uint64) (archive.EvidenceCase, error) {
	return archive.EvidenceCase{Number: 5, URL: "https://a.example/"}, nil
}

// pageless is an archive that does not know a page any more.
type pageless struct{ Archive }

func (pageless) Record(context.Context, channel.ID, uint64) (d archive.Delivered, err error) {
	return d, archive.ErrNotFound
}

// TestOpenCasesAreTheirHostsManagers has a manager among several find a case open: it ends it only once the host is its own, and while it is not before its court.
func TestOpenCasesAreTheirHostsManagers(t *testing.T) {
	o := &shelf{closed: map[uint64]bool{}}
	c := &core{inbox: newInbox(time.Now), cfg: Config{Evidence: oneOpen{o}, Archive: pageless{}}}
	c.tenancy = &tenancy{core: c}
	au := &auditor{core: c, courts: map[uint64]bool{}}
	ctx := t.Context()
	go func() {
		for {
			select {
			case f := <-c.requests:
				f(time.Now())
			case <-ctx.Done():
				return
			}
		}
	}()
	part := channel.KeyOf("https://a.example").Part()
	for _, x := range []struct {
		owned, court, ends bool
	}{{false, false, false}, {true, true, false}, {true, false, true}} {
		if err := au.do(ctx, func(time.Time) { c.tenancy.owned[part], au.courts[5] = x.owned, x.court }); err != nil {
			t.Fatal(err)
		}
		if err := au.reopen(ctx); err != nil || o.closed[5] != x.ends {
			t.Errorf("owned %v, before the court %v: ended %v, %v", x.owned, x.court, o.closed[5], err)
		}
	}
}
