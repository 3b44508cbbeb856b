package manager

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"shoal/channel"
	"shoal/manager/archive"
	"shoal/manager/trust"
	"shoal/overlay"
)

// prison is an archive that suspends and pardons.
type prison struct {
	register
	held []archive.Suspension
	did  []string
}

func (p *prison) Suspensions(context.Context) ([]archive.Suspension, error) { return p.held, nil }

func (p *prison) Suspend(_ context.Context, by trust.Peer) error {
	p.did = append(p.did, "suspend "+archive.DelivererName(uint64(by)))
	return nil
}

func (p *prison) Pardon(_ context.Context, by trust.Peer) error {
	p.did = append(p.did, "pardon "+archive.DelivererName(uint64(by)))
	return nil
}

// drawer is a database that keeps states.
type drawer struct {
	Store
	states map[string][]byte
}

func (d *drawer) State(_ context.Context, name string) ([]byte, error) { return d.states[name], nil }

func (d *drawer) PutState(_ context.Context, _ channel.Epoch, name string, state []byte) error {
	d.states[name] = slices.Clone(state)
	return nil
}

// judging is an auditor with an archive and a database.
func judging(t *testing.T) (*auditor, *prison, *drawer) {
	t.Helper()
	p, d := &prison{}, &drawer{states: map[string][]byte{}}
	swarm := &passers{view: overlay.ViewOf(time.Now(), nil)}
	c := &core{inbox: newInbox(time.Now), cfg: Config{Swarm: swarm, Archive: p, Evidence: &docket{}, Store: d, Bar: func(string, bool) error { return nil }}, log: slog.New(slog.DiscardHandler)}
	c.inbox.after = func(time.Time) {}
	au := newAuditor(c, nil, &errands{core: c})
	rules := trust.Default()
	rules.Enforce = true
	var err error
	if au.trust, err = trust.New(rules, rand.New(rand.NewPCG(1, 2))); err != nil {
		t.Fatal(err)
	}
	return au, p, d
}

// kept is how a peer stands by what the database holds, as a manager that starts after a kill sees it.
func (d *drawer) kept(t *testing.T, n trust.Peer) trust.Info {
	t.Helper()
	m, err := trust.New(trust.Default(), rand.New(rand.NewPCG(1, 2)))
	if err != nil {
		t.Fatal(err)
	}
	s := trust.ShardOf(n)
	if err := m.Restore(s, d.states[s.Name()]); err != nil {
		t.Fatal(err)
	}
	i, _ := m.Peer(n)
	return i
}

// TestSuspendedInTheArchiveAlone has a manager start whose state knows less than the archive, as after a kill or from an older backup: whoever is suspended there can
// be decided about, also who was pardoned once before; a pardon that was not carried out is, and one that is under way stays.
func TestSuspendedInTheArchiveAlone(t *testing.T) {
	au, a, _ := judging(t)
	n := map[string]trust.Peer{}
	for _, name := range []string{"lost", "pardoned", "again", "rebuilt", "leaving", "unheard"} {
		n[name] = au.number(name)
		if name != "unheard" {
			au.trust.Join(n[name], trust.Account(n[name]), trust.Prefix(n[name]))
			au.trust.Vouch(n[name])
		}
		if name == "pardoned" || name == "again" || name == "rebuilt" {
			au.trust.Convict(n[name])
		}
		if name != "rebuilt" {
			a.held = append(a.held, archive.Suspension{Deliverer: archive.DelivererName(uint64(n[name])), Pardon: name == "leaving"})
		}
	}
	au.trust.Pardon(n["again"])
	au.trust.Pardon(n["pardoned"])
	au.sentences.note(time.Now(), sentence{Peer: n["pardoned"], Pages: true})
	au.sentences = sentences{au: au}
	a.rows = []archive.Deliverer{{Number: uint64(n["unheard"]), Peer: "unheard", Account: "its account"}}
	if err := errors.Join(au.agree(t.Context()), au.sentences.restore(t.Context(), time.Now())); err != nil {
		t.Fatal(err)
	}
	for job := au.clerks.next(0); job != nil; job = au.clerks.next(0) {
		job(t.Context())
	}
	for name, want := range map[string]trust.Standing{"lost": trust.Suspended, "again": trust.Suspended, "unheard": trust.Suspended, "rebuilt": trust.Suspended, "pardoned": trust.Established, "leaving": trust.Established} {
		if i, _ := au.trust.Peer(n[name]); i.Standing != want {
			t.Errorf("%s is %v, want %v", name, i.Standing, want)
		}
	}
	if i, _ := au.trust.Peer(n["unheard"]); i.Account != trust.Account(au.number("its account")) {
		t.Errorf("of another account: %+v", i)
	}
	if want := []string{"suspend " + archive.DelivererName(uint64(n["rebuilt"])), "pardon " + archive.DelivererName(uint64(n["pardoned"]))}; !slices.Equal(a.did, want) {
		t.Errorf("the archive was told %q, want %q", a.did, want)
	}
	if _, err := au.Pardon(t.Context(), archive.DelivererName(uint64(n["lost"]))); err != nil {
		t.Errorf("it cannot be pardoned: %v", err)
	}
	if !au.strict {
		t.Error("suspended peers get tasks")
	}
}

// colleague is another manager's state.
type colleague struct {
	Shared
	*drawer
}

func (c colleague) State(ctx context.Context, name string) ([]byte, error) {
	return c.drawer.State(ctx, name)
}

func (c colleague) PutState(ctx context.Context, e channel.Epoch, name string, state []byte) error {
	return c.drawer.PutState(ctx, e, name, state)
}

func (c colleague) Others(_ context.Context, name string) ([][]byte, error) {
	return [][]byte{c.states[name]}, nil
}

func (c colleague) OthersOf(_ context.Context, names []string) (map[string][][]byte, error) {
	out := map[string][][]byte{}
	for _, name := range names {
		out[name] = [][]byte{c.states[name]}
	}
	return out, nil
}

// TestPardonedWhileAway has a manager of several start that was away while another one pardoned a peer: it does not suspend it again, whether that pardon is carried out by
// then or not, and suspends whom the other one has suspended.
func TestPardonedWhileAway(t *testing.T) {
	other, _, kept := judging(t)
	au, a, _ := judging(t)
	au.tenancy = &tenancy{core: au.core, Several: &Several{Shared: colleague{drawer: kept}}}
	n := map[string]trust.Peer{}
	for _, name := range []string{"pardoned", "waiting", "caught"} {
		n[name] = au.number(name)
		for _, m := range []*trust.Machine{other.trust, au.trust} {
			m.Join(n[name], trust.Account(n[name]), trust.Prefix(n[name]))
			m.Vouch(n[name])
			if m == other.trust || name != "caught" {
				m.Convict(n[name])
			}
		}
		if name != "pardoned" {
			a.held = append(a.held, archive.Suspension{Deliverer: archive.DelivererName(uint64(n[name]))})
		}
	}
	for _, name := range []string{"pardoned", "waiting"} {
		if _, err := other.Pardon(t.Context(), archive.DelivererName(uint64(n[name]))); err != nil {
			t.Fatal(err)
		}
	}
	other.sentences.tried(time.Now(), other.sentences.open[sentenceKey{n["pardoned"], true}], nil)
	other.sentences.tick(time.Now())
	if err := other.keepPeer(n["caught"]); err != nil {
		t.Fatal(err)
	}
	if err := au.agree(t.Context()); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]trust.Standing{"pardoned": trust.Established, "waiting": trust.Established, "caught": trust.Suspended} {
		if i, _ := au.trust.Peer(n[name]); i.Standing != want {
			t.Errorf("%s is %v, want %v", name, i.Standing, want)
		}
	}
	if want := []string{"suspend " + archive.DelivererName(uint64(n["caught"]))}; !slices.Equal(a.did, want) {
		t.Errorf("the archive was told %q, want %q", a.did, want)
	}
}

// TestDecisionsOutliveAKill has what was decided about a peer written before anything follows from it.
func TestDecisionsOutliveAKill(t *testing.T) {
	au, _, d := judging(t)
	n := au.number("mallory")
	name := archive.DelivererName(uint64(n))
	if err := au.Vouch(t.Context(), "mallory"); err != nil {
		t.Fatal(err)
	}
	if i := d.kept(t, n); i.Standing != trust.Established {
		t.Errorf("vouched for: %+v", i)
	}
	au.trust.Convict(n)
	au.follow(time.Now(), []trust.Act{{Kind: trust.Suspend, Peer: n}, {Kind: trust.Withdraw, Peer: n}}, delivered{})
	if i := d.kept(t, n); i.Standing != trust.Suspended {
		t.Errorf("suspended: %+v", i)
	}
	if _, err := au.Uphold(t.Context(), name); err != nil {
		t.Fatal(err)
	}
	if i := d.kept(t, n); i.Standing != trust.Banned {
		t.Errorf("upheld: %+v", i)
	}
	if _, err := au.Pardon(t.Context(), name); err != nil {
		t.Fatal(err)
	}
	if i := d.kept(t, n); i.Standing != trust.Established || i.Pardons != 1 {
		t.Errorf("pardoned: %+v", i)
	}
}
