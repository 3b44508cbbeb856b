package manager_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"shoal/manager"
	"shoal/manager/api"
	"shoal/manager/conduct"
	"shoal/manager/desk"
)

// warnings are what a check says of members.
func warnings(t *testing.T, b *bench) (out []desk.Finding) {
	t.Helper()
	for _, f := range b.d.Check(t.Context()) {
		if strings.HasPrefix(f.What, "Peer ") || strings.Contains(f.What, "of account") || strings.HasPrefix(f.What, "And ") {
			out = append(out, f)
		}
	}
	return out
}

func has(b *bench, peer string, f conduct.Fault) bool {
	return slices.ContainsFunc(b.m.Overview().Suspects, func(m conduct.Member) bool { return m.Peer == peer && slices.Contains(m.Faults, f) })
}

// A peer that takes tasks and never claims them is named, with counts and what to do; also after a restart.
func TestSwallowingIsTold(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	b := open(t, dir, func(c *manager.Config, s *swarm) { c.Terms.Handouts, s.ignore = 100, true })
	b.add(t, "https://a.example", "https://b.example", "https://c.example")
	until(t, "the suspect", func() bool { return has(b, "peer", conduct.Swallows) })
	found := warnings(t, b)
	if len(found) != 1 || found[0].Level != desk.Warning || !strings.HasPrefix(found[0].What, "Peer peer accepted ") || !strings.Contains(found[0].What, "never claimed them; since") ||
		!strings.Contains(found[0].Mend, "shoal peer ban peer") {
		t.Errorf("%+v", found)
	}
	b.stop()
	b = open(t, dir, func(c *manager.Config, s *swarm) { s.refuse = true })
	if !has(b, "peer", conduct.Swallows) {
		t.Errorf("after a restart: %+v", b.m.Overview().Suspects)
	}
}

// So is one that claims tasks and brings nothing.
func TestStallingIsTold(t *testing.T) {
	t.Parallel()
	b := open(t, t.TempDir(), func(c *manager.Config, s *swarm) {
		c.Terms.Term, c.Terms.Handouts, s.brief, s.vanish, s.stalls = 300*time.Millisecond, 100, true, true, true
	})
	b.add(t, "https://a.example", "https://b.example")
	until(t, "the suspect", func() bool { return has(b, "peer", conduct.Stalls) })
	if found := warnings(t, b); len(found) != 1 || !strings.Contains(found[0].What, "brought nothing of them in their leases") {
		t.Errorf("%+v", found)
	}
}

// barred are members of whom some are banned.
type barred []string

func (barred) Invite(uint32) (string, error) { return "", nil }
func (barred) Ban(string, bool) error        { return nil }
func (b barred) Banned() []string            { return b }

// Who is banned is not shown as live, nor counted, although the swarm still remembers them for a while.
func TestBannedPeersAreNotLive(t *testing.T) {
	t.Parallel()
	b := open(t, t.TempDir(), func(_ *manager.Config, s *swarm) { s.others, s.members = 2, barred{"other-1"} })
	until(t, "the peers", func() bool { return b.m.Overview().Peers == 3 })
	peers, err := b.d.Peers()
	if err != nil || len(peers) != 2 || slices.ContainsFunc(peers, func(p desk.Peer) bool { return p.ID == "other-1" }) {
		t.Errorf("%+v, %v", peers, err)
	}
	if n := b.d.Overview().Peers; n != 2 {
		t.Errorf("%d peers are counted", n)
	}
}

// Honest work names nobody.
func TestHonestPeersAreNotNamed(t *testing.T) {
	t.Parallel()
	b := open(t, t.TempDir(), nil)
	b.add(t, "https://a.example", "https://b.example")
	until(t, "updates", func() bool { return b.m.Overview().Updates >= 10 })
	if found := warnings(t, b); len(found) > 0 {
		t.Errorf("%+v", found)
	}
}

// However many members misbehave, a check has ten lines and one more; each says what, since when and what to do.
func TestManySuspectsAreFewLines(t *testing.T) {
	t.Parallel()
	b := open(t, t.TempDir(), func(_ *manager.Config, s *swarm) { s.refuse = true })
	for i := range 300 {
		b.m.Deed(fmt.Sprintf("peer-%03d", i), "", conduct.Budget, 1+i)
	}
	b.m.Deed("liar", "invite-17", conduct.Forged, 40)
	b.m.Deed("liar", "invite-17", conduct.Gone, 1)
	until(t, "all suspects", func() bool { return b.m.Overview().AllSuspects == 301 })
	found := warnings(t, b)
	if len(found) != 11 || found[10].What != "And 291 more members like these." || !strings.Contains(found[10].Mend, "shoal peer conduct") {
		t.Errorf("%d lines, the last one %+v", len(found), found[len(found)-1])
	}
	first := found[0]
	if !strings.HasPrefix(first.What, "Peer liar of account invite-17 delivered 40 versions of pages that two other accounts contradict; said of a page that it is gone") ||
		first.Mend != "shoal peer ban liar, then shoal peer purge liar takes back what it delivered." {
		t.Errorf("the worst: %+v", first)
	}
	if all, more, err := b.d.Suspects(); err != nil || len(all) != 200 || more != 101 {
		t.Errorf("%d suspects and %d more, %v", len(all), more, err)
	}
}

// A name that turns text around, or hides, is no member's, and is not banned.
func TestBanOfANameThatCannotBeShown(t *testing.T) {
	t.Parallel()
	b := open(t, t.TempDir(), func(_ *manager.Config, s *swarm) { s.refuse = true })
	for _, name := range []string{"x\u202ey", "a\u200bb", "a\x1b[2Jb", "a\nb"} {
		if err := b.d.Ban(t.Context(), name, true); !errors.Is(err, manager.ErrAsk) || strings.Contains(err.Error(), name) {
			t.Errorf("%q: %v", name, err)
		}
	}
}

// A ban of a misspelt name would let the one that is meant go on, so only names of which something is known are taken without more.
func TestBanOfAMisspeltName(t *testing.T) {
	t.Parallel()
	b := open(t, t.TempDir(), nil)
	b.add(t, "https://a.example")
	b.m.Deed("liar", "invite-17", conduct.Forged, 40)
	until(t, "an update, and the suspect", func() bool { o := b.m.Overview(); return o.Updates > 0 && o.AllSuspects == 1 })
	live, _ := b.m.Peers()
	if len(live) == 0 {
		t.Fatal("no peer is live")
	}
	for _, name := range []string{string(live[0].ID), live[0].Account, "liar", "invite-17"} {
		if err := b.d.KnownMember(t.Context(), name); name != "" && err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, name := range []string{"lair", "invite-71", string(live[0].ID)[1:], ""} {
		if err := b.d.KnownMember(t.Context(), name); !errors.Is(err, manager.ErrAsk) || !strings.Contains(err.Error(), "--unknown") {
			t.Errorf("%q: %v", name, err)
		}
	}
}

// A purge from the page is counted before, done by the archive itself, and its channels are crawled next.
func TestPurgeFromTheDesk(t *testing.T) {
	t.Parallel()
	b := open(t, t.TempDir(), func(_ *manager.Config, s *swarm) { s.recalls = true })
	b.add(t, "https://a.example", "https://b.example")
	until(t, "updates", func() bool { return b.m.Overview().Updates >= 4 })
	for _, name := range []string{"", "nobody"} {
		if _, err := b.d.PurgeCount(t.Context(), name); !errors.Is(err, manager.ErrAsk) {
			t.Errorf("count of %q: %v", name, err)
		}
		if err := b.d.StartPurge(t.Context(), name); !errors.Is(err, manager.ErrAsk) {
			t.Errorf("purge of %q: %v", name, err)
		}
	}
	count, err := b.d.PurgeCount(t.Context(), "peer")
	if err != nil || count.Captures == 0 || count.Pages != 2 || count.More {
		t.Fatalf("%+v, %v", count, err)
	}
	b.swarm.mu.Lock()
	b.swarm.refuse = true
	b.swarm.mu.Unlock()
	until(t, "tasks to end", func() bool { i, err := b.m.Strategy(t.Context()); return err == nil && i.Sequencers.Sites == 0 })
	h, err := api.Handler(api.Config{Desk: b.d})
	if err != nil {
		t.Fatal(err)
	}
	c := api.Local(h)
	if err := c.Do(t.Context(), http.MethodPost, "/peers/purge", nil, api.PurgePeer{Peer: "peer", Dry: true, Start: true}, nil); err == nil || !strings.Contains(err.Error(), "want one of them") {
		t.Errorf("a count that begins: %v", err)
	}
	if err := c.Do(t.Context(), http.MethodPost, "/peers/purge", nil, api.PurgePeer{Peer: "peer", Start: true}, nil); err != nil {
		t.Fatal(err)
	}
	until(t, "nothing to be left", func() bool {
		left, err := b.d.PurgeCount(t.Context(), "peer")
		return err == nil && left.Captures == 0 && b.d.Purging() == nil
	})
	short, cancel := context.WithTimeout(t.Context(), 0)
	defer cancel()
	if count, err := b.d.PurgeCount(short, "peer"); err == nil && !count.More {
		t.Errorf("a count without time is whole: %+v", count)
	}
}
