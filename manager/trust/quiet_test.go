package trust

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"shoal/channel"
)

// TestQuietIsTheSame hands deliveries to two Machines: to one with the records of all pages, to the other, where records are settled and nothing is new, without
// them. Scores, counts and records must come out alike.
func TestQuietIsTheSame(t *testing.T) {
	const peers, pages, crawls = 6, 40, 400
	machine := func() *Machine {
		m, err := New(Default(), rand.New(rand.NewPCG(1, 1)))
		if err != nil {
			t.Fatal(err)
		}
		for n := range Peer(peers) {
			m.Join(n+1, Account(n/2+1), Prefix(n/2+1)) // two of each account
			m.Vouch(n + 1)
			m.peers[n+1].score[Forging] = 50 // for credit to lower
		}
		return m
	}
	whole, short := machine(), machine()
	var a, b [pages]Page
	rng, now, quiet := rand.New(rand.NewPCG(3, 3)), time.Unix(1_800_000_000, 0), 0
	words := [pages]int{}
	for range crawls {
		now = now.Add(time.Hour)
		by := Peer(rng.IntN(peers) + 1)
		d, e := &Delivery{Peer: by, Channel: 1, Domain: 1, At: now}, &Delivery{Peer: by, Channel: 1, Domain: 1, At: now}
		var rest []int
		for i := range pages {
			if rng.IntN(50) == 0 {
				words[i] = rng.IntN(4)
			}
			word := fmt.Sprint("page ", i, words[i])
			s := Seen{URL: url(1, i), Digest: channel.ContentDigest([]byte(word)), Shingle: shingle(word)}
			if rng.IntN(3) == 0 && a[i].Cur.Digest == s.Digest {
				s.Digest, s.Shingle = 0, 0
			}
			s.Page = &a[i]
			d.Pages = append(d.Pages, s)
			if b[i].Settled() && (s.Digest == 0 || s.Digest == b[i].Cur.Digest) {
				e.Quiet = append(e.Quiet, Quiet{b[i].LastBy, []uint64{s.URL}})
				rest = append(rest, i)
				continue
			}
			s.Page = &b[i]
			e.Pages = append(e.Pages, s)
		}
		whole.Deliver(now, d)
		short.Deliver(now, e)
		for _, i := range rest { // as the archive keeps it with the page
			b[i].LastBy, b[i].LastAt, b[i].Same = by, now.Unix(), true
		}
		quiet += len(rest)
		if a != b {
			t.Fatalf("the records differ at %v", now)
		}
	}
	for n := range Peer(peers) { // credits come in another order, so that they are rounded otherwise
		x, _ := whole.Peer(n + 1)
		y, _ := short.Peer(n + 1)
		if d := x.Scores[Forging] - y.Scores[Forging]; d > .01 || d < -.01 || x.Tasks != y.Tasks || x.Standing != y.Standing {
			t.Errorf("%+v, and without records %+v", x, y)
		}
	}
	for _, s := range AllShards() {
		if s.Sites && !bytes.Equal(whole.Append(nil, s), short.Append(nil, s)) {
			t.Errorf("%s differs", s.Name())
		}
	}
	if quiet < pages*crawls/10 {
		t.Errorf("%d of %d visits needed no record", quiet, pages*crawls)
	}
}

// TestQuietPagesAreAudited has a delivery of which nothing is new: one of its pages is audited all the same.
func TestQuietPagesAreAudited(t *testing.T) {
	m, err := New(Default(), rand.New(rand.NewPCG(1, 1)))
	if err != nil {
		t.Fatal(err)
	}
	m.Join(1, 1, 1)
	m.Vouch(1)
	asked := map[uint64]int{}
	for n := range 300 {
		acts := m.Deliver(time.Unix(int64(n), 0), &Delivery{Peer: 1, Channel: 1, At: time.Unix(int64(n), 0), Quiet: []Quiet{{2, []uint64{10, 11}}, {3, []uint64{12}}}})
		if len(acts) == 0 || acts[0].Kind != Audit || !acts[0].Case.Same {
			t.Fatalf("%+v", acts)
		}
		asked[acts[0].URL]++
	}
	if len(asked) != 3 || asked[10] < 60 || asked[11] < 60 || asked[12] < 60 {
		t.Errorf("audited: %v", asked)
	}
}
