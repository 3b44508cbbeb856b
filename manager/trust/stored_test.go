package trust

import (
	"bytes"
	"errors"
	"math"
	"math/rand/v2"
	"testing"
	"time"
	"unsafe"

	"shoal/channel"
)

func TestSizes(t *testing.T) {
	if n := unsafe.Sizeof(peer{}); n > 200 {
		t.Errorf("a peer takes %d bytes in memory, want at most 200", n)
	}
	if PeerBytes > 200 {
		t.Errorf("a peer takes %d bytes as stored, want at most 200", PeerBytes)
	}
	if n := unsafe.Sizeof(site{}); n > 16 {
		t.Errorf("a channel takes %d bytes in memory, want at most 16", n)
	}
	if SiteBytes > 8+16 {
		t.Errorf("a channel takes %d bytes beside its number as stored, want at most 16", SiteBytes-8)
	}
}

// full is a Machine with all that can be stored of a peer.
func full(t testing.TB) *Machine {
	w := newStage(t, 9)
	for n := range Peer(300) {
		w.m.Join(n+1, Account(n/2), Prefix(n))
		if n%3 > 0 {
			w.m.Vouch(n + 1)
		}
		for i := range n % 40 {
			w.m.charge(w.now.Add(time.Duration(i)*time.Hour), charge{reason: Reason(1 + i%7), peer: n + 1, channel: channel.ID(i), domain: uint64(i) << 33, task: int64(i), amount: .3 + float64(i%5), strong: i%11 == 0})
		}
	}
	w.m.Pardon(30)
	w.m.Uphold(31)
	w.m.Worked(math.Pi)
	return w.m
}

func TestRoundTrip(t *testing.T) {
	m := full(t)
	again, err := New(m.cfg, rand.New(rand.NewPCG(1, 1)))
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range AllShards() {
		b := m.Append(nil, s)
		if err := again.Restore(s, b); err != nil {
			t.Fatalf("%s: %v", s.Name(), err)
		}
		if got := again.Append(nil, s); !bytes.Equal(got, b) {
			t.Errorf("%s is stored as %x, restored as %x", s.Name(), b, got)
		}
	}
	if again.newcomers != m.newcomers || again.established != m.established || len(again.convicted) == 0 {
		t.Errorf("restored %d newcomers, %d established, %d accounts convicted; had %d, %d, %d", again.newcomers, again.established, len(again.convicted), m.newcomers, m.established, len(m.convicted))
	}
	for _, i := range m.Peers() {
		if got, _ := again.Peer(i.Peer); got != i {
			t.Errorf("restored %+v, want %+v", got, i)
		}
	}
}

// TestChanged follows what is to be stored: only shards of peers and channels that changed.
func TestChanged(t *testing.T) {
	m := full(t)
	m.Changed()
	if again := m.Changed(); len(again) != 0 {
		t.Errorf("nothing changed, and %v is to be stored", again)
	}
	m.Join(5, 99, 99)
	if got := m.Changed(); len(got) != 2 || got[0] != (Shard{N: 5}) || got[1] != (Shard{Tail: true}) {
		t.Errorf("peer 5 changed, and %v is to be stored", got)
	}
	names := map[string]bool{}
	for _, s := range AllShards() {
		names[s.Name()] = true
	}
	if len(names) != 2*Shards+1 {
		t.Errorf("%d names for %d shards", len(names), 2*Shards+1)
	}
}

func TestMalformed(t *testing.T) {
	m := full(t)
	for _, s := range []Shard{{N: 7}, {N: 7, Sites: true}, {Tail: true}} {
		b := m.Append(nil, s)
		fresh := func() *Machine {
			n, err := New(m.cfg, rand.New(rand.NewPCG(1, 1)))
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
		version := append([]byte{99}, b[1:]...)
		for _, bad := range [][]byte{b[:len(b)-1], append(bytes.Clone(b), 1), version} {
			if err := fresh().Restore(s, bad); !errors.Is(err, ErrMalformed) {
				t.Errorf("%s of %d bytes, version %d: %v", s.Name(), len(bad), bad[0], err)
			}
		}
		if other := (Shard{N: 6, Sites: s.Sites}); !s.Tail {
			if err := fresh().Restore(other, b); !errors.Is(err, ErrMalformed) {
				t.Errorf("%s is taken for %s: %v", s.Name(), other.Name(), err)
			}
		}
	}
}

// FuzzRestore restores foreign bytes. What is taken is stored as it was read.
func FuzzRestore(f *testing.F) {
	m := full(f)
	for _, s := range []Shard{{N: 1}, {N: 7}, {N: 7, Sites: true}, {Tail: true}} {
		f.Add(s.N, s.Sites, s.Tail, m.Append(nil, s))
	}
	f.Add(uint8(0), false, false, []byte{peersV1})
	f.Fuzz(func(t *testing.T, n uint8, sites, tail bool, b []byte) {
		s := Shard{N: n % Shards, Sites: sites, Tail: tail}
		m, err := New(Default(), rand.New(rand.NewPCG(1, 1)))
		if err != nil {
			t.Fatal(err)
		}
		if err := m.Restore(s, b); err != nil {
			if !errors.Is(err, ErrMalformed) {
				t.Errorf("%v", err)
			}
			return
		}
		if got := m.Append(nil, s); len(b) > 0 && !bytes.Equal(got, b) {
			t.Errorf("%x is restored as %x", b, got)
		}
		for _, i := range m.Peers() {
			m.MayTake(i.Peer, false)
			m.MayCheck(i.Peer)
		}
		m.Propose()
	})
}

// BenchmarkDeliver takes in tasks of 62 pages that say nothing new, as nearly all do.
func BenchmarkDeliver(b *testing.B) {
	w := newStage(b, 1)
	w.m.Join(1, 1, 1)
	w.m.Join(2, 2, 2)
	w.m.Vouch(1)
	w.m.Vouch(2)
	d := &Delivery{Channel: 7, Domain: 7}
	for n := range 62 {
		d.Pages = append(d.Pages, Seen{URL: uint64(n + 1), Page: &Page{}, Digest: uint64(n + 1), Shingle: uint64(n + 1)})
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		d.Peer, d.At = Peer(1+i%2), w.now.Add(time.Duration(i)*time.Hour)
		w.m.Deliver(d.At, d)
	}
}

// A Machine that takes another one's work over knows what that one knew: whom it suspended, who was past its probation, what was held against whom. Its own
// knowledge stays, and doing it twice changes nothing.
// TestAdoptPardoned has two Machines know of a suspension, and one of the pardon that followed. Whichever takes in what the other knows, the pardon stays.
func TestAdoptPardoned(t *testing.T) {
	state := full(t)
	load := func() *Machine {
		m, err := New(state.cfg, rand.New(rand.NewPCG(1, 1)))
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range AllShards() {
			if err := m.Adopt(s, state.Append(nil, s)); err != nil {
				t.Fatal(err)
			}
		}
		return m
	}
	var guilty Info
	for _, i := range state.Peers() {
		if i.Standing == Suspended {
			guilty = i
		}
	}
	if guilty.Peer == 0 {
		t.Fatal("no peer is suspended")
	}
	s := Shard{N: uint8(guilty.Peer % Shards)}
	pardoned, other := load(), load()
	pardoned.Pardon(guilty.Peer)
	want, _ := pardoned.Peer(guilty.Peer)
	established := pardoned.established
	check := func(what string, m *Machine) {
		t.Helper()
		if is, _ := m.Peer(guilty.Peer); is != want || m.established != established || m.convicted[guilty.Account] != pardoned.convicted[guilty.Account] {
			t.Errorf("%s: %+v of %d established, want %+v of %d", what, is, m.established, want, established)
		}
	}
	for _, step := range []struct {
		what     string
		to, from *Machine
	}{{"who pardoned it", pardoned, other}, {"who had not heard of it", other, pardoned}, {"who pardoned it, again", pardoned, other}} {
		if err := step.to.Adopt(s, step.from.Append(nil, s)); err != nil {
			t.Fatal(err)
		}
		check(step.what, step.to)
	}
}

func TestAdopt(t *testing.T) {
	gone := full(t)
	heir, err := New(gone.cfg, rand.New(rand.NewPCG(1, 1)))
	if err != nil {
		t.Fatal(err)
	}
	heir.Join(2, 1, 1) // a newcomer, which the other one has established
	heir.Join(1000, 7, 7)
	heir.Vouch(1000)
	adopt := func() {
		t.Helper()
		for _, s := range AllShards() {
			if err := heir.Adopt(s, gone.Append(nil, s)); err != nil {
				t.Fatal(err)
			}
		}
	}
	adopt()
	for _, was := range gone.Peers() {
		is, known := heir.Peer(was.Peer)
		if !known || is.Standing != was.Standing || is.Scores != was.Scores || is.Tasks != was.Tasks || is.Suspect != was.Suspect {
			t.Errorf("%+v is %+v, %v", was, is, known)
		}
		if heir.MayTake(was.Peer, false) != gone.MayTake(was.Peer, false) {
			t.Errorf("whether %+v may take a task differs", was)
		}
	}
	if own, known := heir.Peer(1000); !known || own.Standing != Established {
		t.Errorf("its own peer is %+v", own)
	}
	before, established, newcomers := heir.Peers(), heir.established, heir.newcomers
	adopt()
	if after := heir.Peers(); len(after) != len(before) || heir.established != established || heir.newcomers != newcomers {
		t.Errorf("twice it knows %d peers, %d established, %d newcomers; want %d, %d, %d", len(after), heir.established, heir.newcomers, len(before), established, newcomers)
	}
	if err := heir.Adopt(Shard{N: 3}, []byte{99}); !errors.Is(err, ErrMalformed) {
		t.Errorf("what cannot be read: %v", err)
	}
}

// TestAdoptedCaps has a Machine take in what another one knows of a peer: one domain adds no more to its score than it may, though the trouble that its owner makes was seen by
// both, and so it stays below a suspension.
func TestAdoptedCaps(t *testing.T) {
	gone, heir := newStage(t, 1).m, newStage(t, 2).m
	now := time.Unix(1_800_000_000, 0)
	for _, m := range []*Machine{gone, heir} {
		m.Join(1, 1, 1)
		m.Vouch(1)
	}
	lose := func(m *Machine, domain uint64) {
		for task := range int64(6) {
			m.charge(now, charge{reason: LostAudit, peer: 1, channel: channel.ID(domain), domain: domain, task: task, amount: 3})
		}
	}
	lose(gone, 7)
	for n := range uint64(domainsKept) { // as many as there is room for, each with less
		heir.charge(now, charge{reason: LostAudit, peer: 1, channel: 9, domain: 100 + n, task: int64(n), amount: .01 * float64(n+1)})
	}
	s := ShardOf(1)
	if err := heir.Adopt(s, gone.Append(nil, s)); err != nil {
		t.Fatal(err)
	}
	lose(heir, 7)
	if i, _ := heir.Peer(1); i.Scores[Forging] > heir.cfg.DomainCap+.1 {
		t.Errorf("one domain has brought the score to %v, at two managers together", i.Scores[Forging])
	}
	if p := heir.peers[1]; p.looked != gone.peers[1].looked {
		t.Error("that its older pages were looked at is forgotten")
	}
	kept := heir.peers[1].domains
	if adoptSums(heir.peers[1].domains[:], []sum{{key: 1, by: .001}}); heir.peers[1].domains != kept {
		t.Error("the least of what another one knows takes the place of more")
	}
}

// TestAdoptSites has a Machine take over channels of another: those on watch stay so, as long as with the other, and those who lost there are kept away. Channels that
// it does not take over, it leaves out, and doing it twice changes nothing.
func TestAdoptSites(t *testing.T) {
	machine := func() *Machine {
		m, err := New(Default(), rand.New(rand.NewPCG(1, 1)))
		if err != nil {
			t.Fatal(err)
		}
		for n := range Peer(6) {
			m.Join(n+1, Account(n+1), Prefix(n+1))
			m.Vouch(n + 1)
		}
		return m
	}
	now := time.Unix(1_800_000_000, 0)
	gone, heir := machine(), machine()
	gone.loser(now, 7, 1, false)
	gone.loser(now.Add(24*time.Hour), 7, 2, false) // the second puts it on watch
	gone.loser(now, 71, 1, true)
	gone.loser(now, 8, 1, true)
	heir.loser(now.Add(-24*time.Hour), 7, 3, false)
	heir.loser(now, 7, 1, false)
	if !gone.Watched(now, 7) || !gone.Watched(now, 8) || heir.Watched(now.Add(25*time.Hour), 70) {
		t.Fatal("no channel is on watch")
	}
	mine := func(c channel.ID) bool { return c != 8 }
	heir.Changed()
	for round := range 2 {
		for _, s := range SiteShards() {
			if err := heir.AdoptSites(s, gone.Append(nil, s), mine); err != nil {
				t.Fatal(err)
			}
		}
		if changed := heir.Changed(); (len(changed) > 0) != (round == 0) {
			t.Errorf("round %d: shards changed: %v", round, changed)
		}
	}
	at := now.Add(25 * time.Hour)
	if heir.Doubt(at, 7).Until != gone.Doubt(at, 7).Until || heir.Doubt(at, 71).Until != gone.Doubt(at, 71).Until || heir.Watched(at, 8) {
		t.Errorf("on watch are %v, with the one before %v", heir.Doubts(at), gone.Doubts(at))
	}
	for n := Peer(1); n <= 4; n++ {
		if is, want := heir.lostHere(at, 7, n), n < 4; is != want {
			t.Errorf("peer %d has lost there: %v, want %v", n, is, want)
		}
	}
	one := machine()
	if err := one.AdoptSites(SiteShardOf(8), gone.AppendSite(nil, 8), func(channel.ID) bool { return true }); err != nil || !one.Watched(now, 8) || one.Watched(now, 7) {
		t.Errorf("of one channel that is told: on watch are %v, %v", one.Doubts(now), err)
	}
	if b := gone.AppendSite(nil, 9); b != nil {
		t.Errorf("of a channel without trouble is told %v", b)
	}
	if err := heir.AdoptSites(SiteShardOf(3), []byte{99}, mine); !errors.Is(err, ErrMalformed) {
		t.Errorf("what cannot be read: %v", err)
	}
}
