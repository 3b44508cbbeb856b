package archive

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"shoal/channel"
	"shoal/manager/archive/pages"
	"shoal/manager/trust"
)

// judge stands for the manager: it hands deliveries to a Machine, and stores what that makes of their pages.
type judge struct {
	t *testing.T
	a *Archive
	m *trust.Machine
}

// newJudge is a judge to which all the named peers are established, each in a network of its own.
func newJudge(t *testing.T, a *Archive, enforce bool, peers ...string) *judge {
	t.Helper()
	cfg := trust.Default()
	cfg.Enforce = enforce
	m, err := trust.New(cfg, rand.New(rand.NewPCG(1, 2)))
	if err != nil {
		t.Fatal(err)
	}
	j := &judge{t, a, m}
	for i, p := range peers {
		n := trust.Peer(a.DelivererNumber(p))
		m.Join(n, trust.Account(n), trust.Prefix(i+1))
		m.Vouch(n)
	}
	return j
}

// deliver takes in what a claim of channel 1 delivered.
func (j *judge) deliver(cl *clock, gen channel.Gen) (pages.Delivery, []trust.Act) {
	j.t.Helper()
	d, acts, err := j.take(cl, gen)
	if err != nil {
		j.t.Fatal(err)
	}
	return d, acts
}

// try is deliver, of which the archive may fail.
func (j *judge) try(cl *clock, gen channel.Gen) error {
	_, _, err := j.take(cl, gen)
	return err
}

func (j *judge) take(cl *clock, gen channel.Gen) (pages.Delivery, []trust.Act, error) {
	d, err := j.a.Delivery(j.t.Context(), 1, gen)
	if err != nil {
		return d, nil, err
	}
	in := trust.Delivery{Peer: d.Deliverer, Channel: 1, Domain: 1, At: d.Claimed, Quiet: d.Quiet}
	out := make([]Judged, len(d.Pages))
	for i, p := range d.Pages {
		out[i] = Judged{Hash: p.Hash, Page: p.Record, Was: p.Record}
		in.Pages = append(in.Pages, trust.Seen{URL: p.Hash, Page: &out[i].Page, Digest: p.Digest, Raw: p.Raw, Shingle: p.Shingle, Modified: p.Modified})
	}
	acts := j.m.Deliver(cl.now, &in)
	return d, acts, j.a.Judge(j.t.Context(), 1, &d, out)
}

// record is a page's record, as "state by deliverer seen, before: state by deliverer".
func (j *judge) record(path string) string {
	j.t.Helper()
	d, err := j.a.Record(j.t.Context(), 1, channel.URLHash("http://site-1.example"+path))
	if err != nil {
		j.t.Fatal(err)
	}
	return fmt.Sprintf("%v+%d %v", d.Record.Cur.State, d.Record.Cur.Seen(), d.Record.Prev.State)
}

// A delivery can be read until it was taken in, and the records of its pages say what came of it.
func TestDeliveryIsTakenIn(t *testing.T) {
	a, cl, _ := strangers(t)
	j := newJudge(t, a, true, "alice", "bob", "mallory")
	two := func(r *runner) []channel.Page {
		return []channel.Page{r.page("/", home, channel.New), r.page("/news", news, channel.New)}
	}
	cl.crawl(t, a, "alice", 1, two)
	d, _ := j.deliver(cl, 1)
	if len(d.Pages) != 2 || d.Deliverer != trust.Peer(a.DelivererNumber("alice")) || d.Claimed.IsZero() || d.Pages[0].Digest != channel.ContentDigest([]byte(home)) || d.Pages[0].Record != (trust.Page{}) {
		t.Errorf("%+v", d)
	}
	if again, err := a.Delivery(t.Context(), 1, 1); err != nil || len(again.Pages) != 0 {
		t.Errorf("taken in, and there again: %+v, %v", again, err)
	}
	if got := j.record("/"); got != "provisional+0 none" {
		t.Error(got)
	}
	cl.crawl(t, a, "bob", 2, two)
	j.deliver(cl, 2)
	if got := j.record("/"); got != "verified+1 none" {
		t.Error(got)
	}
	cl.crawl(t, a, "mallory", 3, func(r *runner) []channel.Page { return []channel.Page{r.page("/", forge, channel.Changed)} })
	j.deliver(cl, 3)
	cl.crawl(t, a, "alice", 4, two)
	_, acts := j.deliver(cl, 4)
	if got := j.record("/"); got != "verified+1 contested" || len(acts) == 0 || acts[0].Kind != trust.Arbitrate {
		t.Error(got, acts)
	}
}

// A page that was stored before anything was said of pages begins as one provisional version.
func TestStoredBeforeIsProvisional(t *testing.T) {
	a, cl, _ := strangers(t)
	cl.crawl(t, a, "alice", 1, func(r *runner) []channel.Page { return []channel.Page{r.page("/", home, channel.New)} })
	j := newJudge(t, a, true, "alice", "bob")
	if got := j.record("/"); got != "provisional+0 none" {
		t.Error(got)
	}
	cl.crawl(t, a, "bob", 2, func(r *runner) []channel.Page { return []channel.Page{r.page("/", home, channel.New)} })
	d, _ := j.deliver(cl, 2)
	if len(d.Pages) != 1 || d.Pages[0].Record.Cur.By != trust.Peer(a.DelivererNumber("alice")) {
		t.Errorf("%+v", d)
	}
	if got := j.record("/"); got != "verified+1 none" {
		t.Error(got)
	}
}
