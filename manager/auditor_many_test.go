package manager

import (
	"context"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"log/slog"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"shoal/manager/archive"
	"shoal/manager/trust"
	"shoal/overlay"
)

// passers is an overlay whose members come and go, with an archive that has written down who claimed tasks.
type passers struct {
	Swarm
	view *overlay.View
}

func (c *passers) View() *overlay.View { return c.view }

type register struct {
	Archive
	rows []archive.Deliverer
}

func (r *register) DelivererNumber(name string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(name))
	return h.Sum64()>>16 | 1
}

func (r *register) PrefixNumber(prefix string) uint64 { return r.DelivererNumber("prefix " + prefix) }

func (r *register) Deliverers(_ context.Context, name string) (out []archive.Deliverer, _ error) {
	for _, d := range r.rows {
		if name == "" || name == archive.DelivererName(d.Number) {
			out = append(out, d)
		}
	}
	return out, nil
}

// suspended is the stored form of a suspended peer.
func suspended(n trust.Peer, account trust.Account) (trust.Shard, []byte) {
	b := []byte{1}
	b = binary.BigEndian.AppendUint64(b, uint64(n))
	b = binary.BigEndian.AppendUint64(b, uint64(account))
	b = binary.BigEndian.AppendUint64(b, 1)
	b = append(b, make([]byte, 4*7)...)
	return trust.Shard{N: uint8(n % trust.Shards)}, append(b, byte(trust.Suspended), 0, 0, 0, 0)
}

// TestManyIdentities has an account join under ever new names, beside peers of it that are suspended. What is kept of them has a bound, and whoever is barred stays
// so until all its account's peers are pardoned.
func TestManyIdentities(t *testing.T) {
	reg, swarm := &register{}, &passers{}
	var bars []string
	bar := func(name string, barred bool) error {
		bars = append(bars, fmt.Sprint(name, " ", barred))
		return nil
	}
	au := newAuditor(&core{inbox: newInbox(time.Now), cfg: Config{Swarm: swarm, Archive: reg, Store: &drawer{states: map[string][]byte{}}, Bar: bar}, log: slog.New(slog.DiscardHandler)}, nil, &errands{})
	rules := trust.Default()
	rules.Enforce = true
	var err error
	if au.trust, err = trust.New(rules, rand.New(rand.NewPCG(1, 2))); err != nil {
		t.Fatal(err)
	}
	liars := []string{"liar", "other liar"}
	for _, l := range liars {
		n := au.number(l)
		shard, b := suspended(n, trust.Account(au.number("mallory")))
		if err := au.trust.Restore(shard, b); err != nil {
			t.Fatal(err)
		}
		reg.rows = append(reg.rows, archive.Deliverer{Number: uint64(n), Peer: l, Account: "mallory"})
	}
	au.mostMet = 50
	const rounds, each = 100, 20
	for i := range rounds {
		peers := []overlay.PeerRecord{{ID: "honest", Account: "honest account"}, {ID: "liar", Account: "another account"}}
		for j := range each {
			peers = append(peers, overlay.PeerRecord{ID: overlay.ID(fmt.Sprintf("name %d of round %d", j, i)), Account: "mallory"})
		}
		swarm.view = overlay.ViewOf(time.Now(), peers)
		for k, p := range peers {
			if n := au.meet(p.ID); au.trust.MayTake(n, false) != (k == 0) {
				t.Fatalf("round %d: whether %s gets tasks: %v", i, p.ID, k != 0)
			}
		}
	}
	if len(au.met) > au.mostMet || len(au.named) > au.mostMet || len(au.trust.Peers()) > au.mostMet+len(liars) {
		t.Errorf("of %d names %d are known, %d by number, %d to the rules; want at most %d", rounds*each, len(au.met), len(au.named), len(au.trust.Peers()), au.mostMet)
	}
	for _, l := range liars {
		p := au.one(au.number(l))
		if err := au.identify(t.Context(), &p); err != nil || p.ID != l || p.Account != "mallory" || len(p.Others) != 1 {
			t.Errorf("%s is known as %+v, %v", l, p, err)
		}
	}
	decide := func(name string, barred bool) []string {
		t.Helper()
		bars = nil
		if !barred && au.trust.Pardon(au.number(name)) == nil {
			t.Errorf("%s cannot be pardoned", name)
		}
		au.bar(time.Now(), au.number(name), barred)
		for job := au.clerks.next(0); job != nil; job = au.clerks.next(0) {
			job(t.Context())
		}
		return bars
	}
	for _, d := range []struct {
		who    string
		barred bool
		want   []string
	}{
		{"liar", true, []string{"liar true", "mallory true"}},
		{"other liar", true, []string{"other liar true", "mallory true"}},
		{"liar", false, []string{"liar false"}},
		{"other liar", false, []string{"other liar false", "mallory false"}},
	} {
		if got := decide(d.who, d.barred); !slices.Equal(got, d.want) {
			t.Errorf("%s, barred %v: %q; want %q", d.who, d.barred, got, d.want)
		}
	}
	bars = nil
	au.bar(time.Now(), au.number("liar"), false, 99) // which another manager has suspended
	for job := au.clerks.next(0); job != nil; job = au.clerks.next(0) {
		job(t.Context())
	}
	if want := []string{"liar false"}; !slices.Equal(bars, want) {
		t.Errorf("while another manager has a peer of the account suspended: %q; want %q", bars, want)
	}
	n := au.meet("name 0 of round 99")
	if au.trust.Vouch(n); !au.trust.MayTake(n, false) {
		t.Error("the account gets no tasks after its peers were pardoned")
	}
}
