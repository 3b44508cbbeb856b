package trust

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// TestForget has an account join under many names: those of which nothing is known go, with their places. What was delivered, said by the operator, or
// charged stays, and so does that an account is barred.
func TestForget(t *testing.T) {
	cfg := Default()
	cfg.Enforce = true
	m, err := New(cfg, rand.New(rand.NewPCG(1, 2)))
	if err != nil {
		t.Fatal(err)
	}
	const worked, vouched, liar, friend, here, many = 1, 2, 3, 4, 5, 1000
	join := func(n Peer, a Account, x Prefix) { m.Join(n, a, x) }
	join(worked, 10, 1)
	join(vouched, 20, 2)
	join(liar, 30, 3)
	join(friend, 30, 4)
	join(here, 50, 5)
	m.Vouch(vouched)
	for _, n := range []Peer{worked, liar} {
		m.place(m.peers[n])
		m.Deliver(time.Now(), &Delivery{Peer: n, Channel: 1, At: time.Now()})
	}
	m.suspend(m.peers[liar], 20)
	m.take()
	m.handed = 1000
	if !m.MayTake(here, false) {
		t.Error("a newcomer gets no task")
	}
	for n := range Peer(many) {
		join(1000+n, 60, Prefix(100+n))
		m.place(m.peers[1000+n])
	}
	m.Changed()
	m.Forget(func(n Peer) bool { return n == here })
	var left []Peer
	for _, i := range m.Peers() {
		left = append(left, i.Peer)
	}
	slices.Sort(left)
	if want := []Peer{worked, vouched, liar, here}; !slices.Equal(left, want) || len(m.places) != 3 || m.newcomers != 2 {
		t.Errorf("left are %v, %d places, %d newcomers; want %v, 3, 2", left, len(m.places), m.newcomers, want)
	}
	if len(m.Changed()) == 0 {
		t.Error("what was forgotten stays stored")
	}
	join(friend, 30, 4)
	if m.MayTake(friend, false) || !slices.Equal(m.Convicted(30), []Peer{liar}) || m.Convicted(60) != nil {
		t.Errorf("another peer of a barred account gets tasks; barred by %v", m.Convicted(30))
	}
}

// TestSuspendedStaysWithItsAccount has a suspended peer be seen in another account: the one that it lied for is barred until the pardon, and no other.
func TestSuspendedStaysWithItsAccount(t *testing.T) {
	m, err := New(Default(), rand.New(rand.NewPCG(1, 2)))
	if err != nil {
		t.Fatal(err)
	}
	m.Join(1, 10, 1)
	m.Join(2, 10, 2)
	m.Join(3, 20, 3)
	m.suspend(m.peers[1], 20)
	m.Join(1, 20, 1)
	if m.MayTake(2, false) || !m.MayTake(3, false) {
		t.Error("the account of a suspended peer gets tasks, or another one gets none")
	}
	m.Pardon(1)
	m.Join(1, 20, 1)
	if i, _ := m.Peer(1); !m.MayTake(1, false) || !m.MayTake(2, false) || !m.MayTake(3, false) || i.Account != 20 {
		t.Errorf("after a pardon an account gets no tasks: %+v", i)
	}
}
