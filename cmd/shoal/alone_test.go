package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"shoal/internal/member"
	"shoal/manager"
)

// TestKeysOfEarlierManagers has a network of two managers be one manager's, whose working key is the younger one: certificates that the other one signed stay good for
// as long as they may be renewed, and no longer, unless its key is in others' hands.
func TestKeysOfEarlierManagers(t *testing.T) {
	now := time.Now()
	gone, err := member.LoadOrCreate(filepath.Join(t.TempDir(), "keys"), now.Add(-time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	backup, err := gone.Backup()
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "keys")
	if _, err := member.Join(dir, backup, now.Add(-time.Hour)); err != nil {
		t.Fatal(err)
	}
	left, err := member.Rotate(dir, now, true)
	if err != nil {
		t.Fatal(err)
	}
	serial := gone.Authority.Delegation().Serial
	if left.Authority.Delegation().Serial <= serial {
		t.Fatal("the key of the one that is left is older")
	}
	cert, err := gone.Authority.Certify(member.Certificate{Peer: "p", Account: "p", Role: member.Peer, NotBefore: now.Add(-time.Minute), NotAfter: now.Add(time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		what     string
		e        earlier
		good     bool
		document bool // it names the other one's key
	}{
		{"nothing is known of the other one", earlier{}, false, false},
		{"it was here a while ago", earlier{keys: []keyUsed{{gone.Authority.Sealed(), now.Add(-time.Hour)}}}, true, true},
		{"it was here a week ago", earlier{keys: []keyUsed{{gone.Authority.Sealed(), now.Add(-7 * 24 * time.Hour)}}}, true, false},
		{"it was here long ago", earlier{keys: []keyUsed{{gone.Authority.Sealed(), now.Add(-keyGood)}}}, false, false},
		{"its key was stolen", earlier{keys: []keyUsed{{gone.Authority.Sealed(), now.Add(-time.Hour)}}, stolen: serial}, false, false},
		{"what the database has is no key", earlier{keys: []keyUsed{{[]byte("torn"), now}}}, false, false},
	} {
		sealed, least := left.Delegations(now)
		d := member.Document{Network: left.Network, Delegations: sealed, MinSerial: least, Issued: now, NotAfter: now.Add(time.Hour)}
		c.e.addEarlier(&d, now)
		doc, err := left.Authority.SignDocument(d)
		if err != nil {
			t.Fatal(err)
		}
		v := member.NewVerifier(left.Network)
		if _, changed, err := v.Learn(now, doc); err != nil || !changed {
			t.Fatalf("%s: the document is not taken: %v", c.what, err)
		}
		_, err = v.VerifyCertificate(now, cert)
		if good := err == nil; good != c.good || !good && !errors.Is(err, member.ErrOutdated) {
			t.Errorf("%s: a certificate of its key: %v", c.what, err)
		}
		if names := slices.ContainsFunc(d.Delegations, func(b []byte) bool { return string(b) == string(gone.Authority.Sealed()) }); names != c.document {
			t.Errorf("%s: the document names its key: %v", c.what, names)
		}
	}
}

// TestVolunteersOutliveAKey lets volunteers of a closed network in again that were off while the manager's working key was rotated, or its delegation renewed, as
// after any other absence, also where the manager began to use the new key long after. What a stolen key has signed counts no more.
func TestVolunteersOutliveAKey(t *testing.T) {
	const day = 24 * time.Hour
	began := time.Now().Add(-400 * day)
	for _, c := range []struct {
		what     string
		change   func(dir string, k *member.Keys, now time.Time) (*member.Keys, error)
		used     time.Duration // from the change to the manager's start with what came of it
		away     time.Duration // how long after that a volunteer comes that was there until then
		outdated bool
	}{
		{"renewed on the way, back after three days", func(_ string, k *member.Keys, now time.Time) (*member.Keys, error) { return k, k.Refresh(now) }, 0, 3 * day, false},
		{"rotated, back after three days", nil, 0, 3 * day, false},
		{"rotated, back after a month", nil, 0, member.DefaultGrace, false},
		{"rotated, back after two months", nil, 0, 2 * member.DefaultGrace, true},
		{"rotated, the manager started anew three days later", nil, 3 * day, time.Minute, false},
		{"rotated, the manager started anew three days later, back after three more", nil, 3 * day, 3 * day, false},
		{"rotated twice", func(dir string, _ *member.Keys, now time.Time) (*member.Keys, error) {
			if _, err := member.Rotate(dir, now, false); err != nil {
				return nil, err
			}
			return member.Rotate(dir, now, false)
		}, 0, time.Minute, false},
		{"stolen", func(dir string, _ *member.Keys, now time.Time) (*member.Keys, error) {
			return member.Rotate(dir, now, true)
		}, 0, time.Minute, true},
		{"rotated, then stolen", func(dir string, _ *member.Keys, now time.Time) (*member.Keys, error) {
			if _, err := member.Rotate(dir, now, false); err != nil {
				return nil, err
			}
			return member.Rotate(dir, now, true)
		}, 0, time.Minute, true},
	} {
		dir := filepath.Join(t.TempDir(), "keys")
		k, err := member.LoadOrCreate(dir, began)
		if err != nil {
			t.Fatal(err)
		}
		v := member.NewVerifier(k.Network)
		learn := func(k *member.Keys, now time.Time) {
			t.Helper()
			sealed, least := k.Delegations(now)
			d := member.Document{Network: k.Network, Delegations: sealed, MinSerial: least, Issued: now, NotAfter: now.Add(time.Hour)}
			(earlier{}).with(k.Earlier(), now).addEarlier(&d, now)
			doc, err := k.Authority.SignDocument(d)
			if err != nil {
				t.Fatal(err)
			}
			if _, changed, err := v.Learn(now, doc); err != nil || !changed {
				t.Fatalf("%s: the document is not taken: %v", c.what, err)
			}
		}
		if err := k.Begin(began); err != nil {
			t.Fatal(err)
		}
		learn(k, began)
		now := began.Add(member.DelegationLife - 50*day)
		old := *k
		if oldAuthority, err := member.LoadOrCreate(dir, began); err != nil { // which signs still when the file has another
			t.Fatal(err)
		} else {
			old.Authority = oldAuthority.Authority
		}
		if c.change == nil {
			c.change = func(dir string, _ *member.Keys, now time.Time) (*member.Keys, error) {
				return member.Rotate(dir, now, false)
			}
		}
		next, err := c.change(dir, k, now)
		if err != nil {
			t.Fatal(err)
		}
		now = now.Add(c.used)
		cert, err := old.Authority.Certify(member.Certificate{Peer: "p", Account: "p", Role: member.Peer, NotBefore: now.Add(-time.Minute), NotAfter: now.Add(member.CertificateLife)})
		if err != nil {
			t.Fatal(err)
		}
		if err := next.Begin(now); err != nil {
			t.Fatal(err)
		}
		issuer, err := member.NewIssuer(next.Authority, member.Policy{Closed: true})
		if err != nil {
			t.Fatal(err)
		}
		for at := now; at.Before(now.Add(c.away)); at = at.Add(12 * time.Hour) { // as the manager does while it runs
			learn(next, at)
		}
		now = now.Add(c.away)
		if _, err := issuer.Renew(now, "p", cert, v); (err != nil) != c.outdated || err != nil && !errors.Is(err, member.ErrOutdated) && !errors.Is(err, member.ErrExpired) {
			t.Errorf("%s: %v", c.what, err)
		}
	}
}

// TestInvitesUsedAlone has a manager that had the network for itself grant invites of a time when there were several: when there are several again, what it granted
// is counted at all.
func TestInvitesUsedAlone(t *testing.T) {
	end := time.Now().Add(time.Hour).Truncate(time.Second)
	s := sharedInvites{Used: map[string]inviteUse{"0100000000000000": {Used: 5, NotAfter: end}, "0200000000000000": {Used: 2, NotAfter: end}, "torn": {Used: 1}}}
	if n := len(s.uses()); n != 2 {
		t.Errorf("%d invites were used", n)
	}
	s.addUses([]member.InviteUse{{ID: [8]byte{1}, Before: 3, NotAfter: end}, {ID: [8]byte{2}, Before: 4, NotAfter: end}, {ID: [8]byte{3}, Before: 1, NotAfter: end}})
	for id, want := range map[string]uint32{"0100000000000000": 5, "0200000000000000": 4, "0300000000000000": 1} {
		if got := s.Used[id]; got.Used != want || !got.NotAfter.Equal(end) {
			t.Errorf("invite %s: %+v, want %d uses", id, got, want)
		}
	}
}

// statesOnly is a database of which states alone are read.
type statesOnly struct {
	database
	of map[string]string
}

func (s statesOnly) State(_ context.Context, name string) ([]byte, error) {
	return []byte(s.of[name]), nil
}

// TestOutdatedManagerComesBack starts a manager with a working key that another one has outdated while it had the network for itself, or that was stolen: it gets a
// newer one, as members would refuse what the old one signs.
func TestOutdatedManagerComesBack(t *testing.T) {
	for name, c := range map[string]struct {
		least, stolen uint64 // above its own
		newer         bool
	}{"nothing is outdated": {0, 0, false}, "older keys are": {1, 0, false}, "its own is": {2, 0, true}, "its own was stolen": {0, 1, true}, "both": {9, 3, true}} {
		keys, err := member.LoadOrCreate(filepath.Join(t.TempDir(), "keys"), time.Now())
		if err != nil {
			t.Fatal(err)
		}
		was := keys.Authority.Delegation().Serial
		kept := map[string]string{}
		for state, above := range map[string]uint64{manager.StateLeast: c.least, manager.StateStolen: c.stolen} {
			if above > 0 {
				kept[state] = fmt.Sprint(was - 1 + above)
			}
		}
		st := &station{keys: keys, db: statesOnly{of: kept}}
		if err := st.renewStolen(t.Context()); err != nil {
			t.Fatal(err)
		}
		is := keys.Authority.Delegation().Serial
		if is > was != c.newer || c.least > 0 && is < was-1+c.least || c.stolen > 0 && is <= was-1+c.stolen {
			t.Errorf("%s: the key was number %d and is %d", name, was, is)
		}
	}
}

// TestBansOfEarlierManagers starts a manager that has a network for itself, and was away while another one banned somebody: it refuses whom that banned. Whom others
// have forgiven since they told of the ban, it takes back, and whom it has banned itself it keeps.
func TestBansOfEarlierManagers(t *testing.T) {
	t.Parallel()
	cfg := stationForTest(t)
	for _, step := range []struct {
		what   string
		folder []banned // what its folder holds of bans
		ban    string   // then bans, or forgives
		refuse bool
		want   []string // before that
	}{
		{"the other one bans", nil, "by another", true, nil},
		{"one that does not know", nil, "by another", false, []string{"by another"}},
		{"one that was told of the ban, and has one of its own", []banned{{Name: "by another", Told: true}, {Name: "its own"}}, "later", true, []string{"its own"}},
		{"one that does not know either", nil, "", false, []string{"its own", "later"}},
	} {
		keepBans(t, cfg.data, step.folder...)
		st, err := openStation(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		list := st.members.list()
		slices.Sort(list)
		if !slices.Equal(list, step.want) && len(list)+len(step.want) > 0 {
			t.Errorf("%s: banned are %q, want %q", step.what, list, step.want)
		}
		if step.ban != "" {
			if err := st.desk.Ban(t.Context(), step.ban, step.refuse); err != nil {
				t.Error(err)
			}
		}
		if err := st.close(); err != nil {
			t.Fatal(err)
		}
	}
}
