package archive

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"shoal/channel"
	"shoal/internal/lab/waiting"
	"shoal/manager/archive/ledger"
	"shoal/manager/archive/pages"
)

// strangers is an archive to which each peer delivers under an account of its own.
func strangers(t *testing.T) (*Archive, *clock, Config) {
	cfg := testConfig(t.TempDir())
	cfg.AccountOf = nil
	cl := &clock{now: time.Now().Truncate(time.Microsecond)}
	cfg.Clock = cl.Now
	return open(t, cfg), cl, cfg
}

// crawl has a peer deliver pages of channel 1, and report.
func (c *clock) crawl(t *testing.T, a *Archive, peer string, gen channel.Gen, make func(r *runner) []channel.Page) {
	t.Helper()
	c.now = c.now.Add(time.Minute)
	r, _ := start(t, a, peer, 1, gen)
	c.now = c.now.Add(time.Second)
	r.put(channel.ChunkBody{Pages: make(r), Report: r.report(channel.Updated)})
}

func shown(t *testing.T, a *Archive, url string) string {
	t.Helper()
	c, err := a.Get(t.Context(), url, time.Time{})
	if errors.Is(err, ErrNotFound) {
		return "nothing"
	}
	if err != nil {
		t.Fatal(err)
	}
	return string(c.Body)
}

const (
	home  = "the true home page, which is long enough to be shared between captures, and then some"
	news  = "the true news page, which is long enough to be shared between captures, and then some"
	forge = "forged, and long enough to be shared between captures as well, and then some more of it"
)

// A body under another page's digest is found changed by the next honest peer, and never confirmed by it.
func TestForgedBodyIsNotConfirmed(t *testing.T) {
	a, cl, _ := strangers(t)
	cl.crawl(t, a, "alice", 1, func(r *runner) []channel.Page { return []channel.Page{r.page("/", home, channel.New)} })
	cl.crawl(t, a, "mallory", 2, func(r *runner) []channel.Page {
		p := r.page("/", forge, channel.Changed)
		p.Digest = channel.ContentDigest([]byte(home)) // which its task told it
		return []channel.Page{p}
	})
	k, err := a.Known(t.Context(), 1, time.Time{})
	if err != nil || len(k.Digests)+len(k.Validators) > 0 {
		t.Errorf("one account's version is told on: %+v, %v", k, err)
	}
	cl.crawl(t, a, "bob", 3, func(r *runner) []channel.Page { // which an old task of bob's still has
		return []channel.Page{{URL: r.url("/"), Status: 304, Change: channel.Unchanged, Digest: channel.ContentDigest([]byte(home)), Fetched: cl.now}}
	})
	cl.crawl(t, a, "carol", 4, func(r *runner) []channel.Page { return []channel.Page{r.page("/", home, channel.Changed)} })
	if got := shown(t, a, "http://site-1.example/"); got != home {
		t.Errorf("shows %q", got)
	}
	cl.crawl(t, a, "bob", 5, func(r *runner) []channel.Page { return []channel.Page{r.page("/", home, channel.Changed)} })
	if k, err = a.Known(t.Context(), 1, time.Time{}); err != nil || len(k.Digests) != 1 || len(k.Validators) != 1 {
		t.Errorf("a version of two accounts is not told on: %+v, %v", k, err)
	}
}

// One account's 404 removes nothing; a second one's does.
func TestOneAccountCannotRemoveAPage(t *testing.T) {
	a, cl, _ := strangers(t)
	gone := func(r *runner) []channel.Page {
		return []channel.Page{{URL: r.url("/"), Status: 404, Change: channel.Gone, Fetched: cl.now}}
	}
	told := func() (s string) {
		changes, _, err := a.Changes(t.Context(), "", 100)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range changes {
			s += c.Event.String() + " "
		}
		return strings.TrimSpace(s)
	}
	cl.crawl(t, a, "alice", 1, func(r *runner) []channel.Page { return []channel.Page{r.page("/", home, channel.New)} })
	cl.crawl(t, a, "mallory", 2, gone)
	cl.crawl(t, a, "mallory", 3, gone)
	if got := told(); got != "created" || shown(t, a, "http://site-1.example/") != home {
		t.Errorf("after one account's word: %s, %q", got, shown(t, a, "http://site-1.example/"))
	}
	cl.crawl(t, a, "bob", 4, gone)
	if got := told(); got != "created gone" {
		t.Errorf("after a second account's word: %s", got)
	}
	// where a page came back in between, the count begins anew
	cl.crawl(t, a, "alice", 5, func(r *runner) []channel.Page { return []channel.Page{r.page("/", home, channel.New)} })
	cl.crawl(t, a, "mallory", 6, gone)
	cl.now = cl.now.Add(25 * time.Hour)
	cl.crawl(t, a, "mallory", 7, gone)
	if got := told(); got != "created gone created gone" {
		t.Errorf("a day later: %s", got)
	}
}

// forgeries fills an archive: two true pages, then mallory's versions of them and a page that never was, which bob half confirms.
func forgeries(t *testing.T, a *Archive, cl *clock) {
	cl.crawl(t, a, "alice", 1, func(r *runner) []channel.Page {
		return []channel.Page{r.page("/", home, channel.New), r.page("/news", news, channel.New)}
	})
	cl.crawl(t, a, "mallory", 2, func(r *runner) []channel.Page {
		return []channel.Page{r.page("/", forge, channel.Changed), r.page("/news", news, channel.Changed), r.page("/invented", forge+"!", channel.New)}
	})
	cl.crawl(t, a, "bob", 3, func(r *runner) []channel.Page {
		return []channel.Page{
			{URL: r.url("/"), Status: 304, Change: channel.Unchanged, Fetched: cl.now},
			{URL: r.url("/invented"), Status: 304, Change: channel.Unchanged, Fetched: cl.now},
			r.page("/news", news+" and more", channel.Changed),
		}
	})
}

func checkWithdrawn(t *testing.T, a *Archive) {
	t.Helper()
	for path, want := range map[string]string{"/": home, "/news": news + " and more", "/invented": "nothing"} {
		if got := shown(t, a, "http://site-1.example"+path); got != want {
			t.Errorf("%s shows %q, want %q", path, got, want)
		}
	}
	var out bytes.Buffer
	if _, err := a.Export(t.Context(), &out, ExportOptions{Format: FormatJSON, Body: true}); err != nil {
		t.Fatal(err)
	}
	if s := out.String(); strings.Contains(s, "forged") {
		t.Errorf("the export has it still:\n%s", s)
	}
	out.Reset()
	if err := a.CDXJ(t.Context(), &out, pages.Index{}); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(out.String(), "\n"); n != 3 { // of five visits by others, two only said of forgeries that they are unchanged
		t.Errorf("%d captures are left, want 3:\n%s", n, out.String())
	}
	k, err := a.Known(t.Context(), 1, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range k.Digests {
		if d.URL == channel.URLHash("http://site-1.example/") {
			t.Error("a restored page's digest is told on")
		}
	}
	if v, err := a.Verify(t.Context(), nil); err != nil || len(v.Problems) > 0 {
		t.Errorf("verify: %v, %v", v.Problems, err)
	}
}

// All that a peer delivered is taken back, to the last page and every visit that leant on it; earlier versions return.
func TestWithdraw(t *testing.T) {
	a, cl, _ := strangers(t)
	forgeries(t, a, cl)
	if got := shown(t, a, "http://site-1.example/"); got != forge {
		t.Fatalf("before the purge it shows %q", got)
	}
	out, err := a.Withdraw(t.Context(), "mallory")
	if err != nil || out.Deliverers != 1 || out.Pages != 3 || out.Captures != 5 || len(out.Channels) != 1 || out.Channels[0] != 1 {
		t.Errorf("%+v, %v", out, err)
	}
	checkWithdrawn(t, a)
	changes, _, err := a.Changes(t.Context(), "", 100)
	if err != nil {
		t.Fatal(err)
	}
	withdrawn := map[string]int{}
	for _, c := range changes {
		if c.Event == pages.Withdrawn {
			withdrawn[c.URL]++
		}
	}
	if fmt.Sprint(withdrawn) != "map[http://site-1.example/:1 http://site-1.example/invented:1 http://site-1.example/news:1]" {
		t.Errorf("the feed says withdrawn of %v", withdrawn)
	}
	// the next crawls go on as ever
	cl.crawl(t, a, "carol", 4, func(r *runner) []channel.Page {
		return []channel.Page{r.page("/", home, channel.Changed), r.page("/news", news+" and more", channel.Changed)}
	})
	if got := shown(t, a, "http://site-1.example/"); got != home {
		t.Errorf("after another crawl it shows %q", got)
	}
	if again, err := a.Withdraw(t.Context(), "mallory"); err != nil || again.Pages != 0 || again.Captures != 0 {
		t.Errorf("a second time: %+v, %v", again, err)
	}
	if none, err := a.Withdraw(t.Context(), "nobody"); err != nil || none.Deliverers != 0 {
		t.Errorf("of one who never was: %+v, %v", none, err)
	}
	const unheard = "d-0123456789ab" // well-formed, and of no deliverer
	if ledger.DelivererOf(unheard) == 0 {
		t.Fatalf("%s is no name of a deliverer", unheard)
	}
	if none, err := a.WouldWithdraw(t.Context(), unheard); err != nil || none.Deliverers != 0 {
		t.Errorf("of a number that stands for nothing: %+v, %v", none, err)
	}
	if none, err := a.Withdraw(t.Context(), unheard); err != nil || none.Deliverers != 0 {
		t.Errorf("took back of a number that stands for nothing: %+v, %v", none, err)
	}
}

// cutOff is a context that is cancelled when it was asked so many times.
type cutOff struct {
	context.Context
	left int
}

func (c *cutOff) Err() error {
	if c.left--; c.left <= 0 {
		return context.Canceled
	}
	return nil
}

// A purge that is cut off at any of its steps is gone on with after a restart.
func TestWithdrawGoesOnAfterARestart(t *testing.T) {
	t.Parallel()
	const found = 4 // times that it is asked until the deliverer is found and the purge noted
	for cut := found; ; cut++ {
		a, cl, cfg := strangers(t)
		forgeries(t, a, cl)
		_, err := a.Withdraw(&cutOff{t.Context(), cut}, "mallory")
		if err == nil {
			if cut < found+3 {
				t.Errorf("only %d steps were cut", cut-found)
			}
			return
		}
		if err := a.Close(); err != nil {
			t.Fatal(err)
		}
		done := make(chan []channel.ID, 1)
		cfg.OnWithdrawn = func(ids []channel.ID) { done <- ids }
		a = open(t, cfg)
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); _ = a.Run(ctx) }()
		select {
		case ids := <-done:
			if len(ids) != 1 {
				t.Errorf("cut at %d: channels %v", cut, ids)
			}
		case <-time.After(time.Minute):
			t.Fatalf("cut at %d: not gone on with", cut)
		}
		stop()
		<-ended
		checkWithdrawn(t, a)
	}
}

// A purge whose caller has gone, as when its command is interrupted, is gone on with at once.
func TestPurgeOutlivesItsCaller(t *testing.T) {
	cfg := testConfig(t.TempDir())
	cfg.AccountOf = nil
	cl := &clock{now: time.Now().Truncate(time.Microsecond)}
	done := make(chan []channel.ID, 1)
	cfg.Clock, cfg.OnWithdrawn = cl.Now, func(ids []channel.ID) { done <- ids }
	a := open(t, cfg)
	forgeries(t, a, cl)
	cl.crawl(t, a, "dave", 4, func(r *runner) []channel.Page { return []channel.Page{r.page("/dave", news, channel.New)} })
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); _ = a.Run(ctx) }()
	defer func() { stop(); <-ended }()
	wait := func(what string) {
		t.Helper()
		waiting.Until(t, what, func() bool {
			select {
			case <-done:
				return true
			default:
				return false
			}
		})
	}
	if _, err := a.StartWithdraw(t.Context(), "dave"); err != nil {
		t.Fatal(err)
	}
	wait("a purge before, after which nothing is left to be done")
	if _, err := a.Withdraw(&cutOff{t.Context(), 6}, "mallory"); !errors.Is(err, context.Canceled) {
		t.Fatalf("not cut off: %v", err)
	}
	wait("what was cut off")
	checkWithdrawn(t, a)
}

// What is stored of a deliverer follows its account and its days, also where the ledger has both in memory.
func TestDelivererIsNotedAgain(t *testing.T) {
	cfg := testConfig(t.TempDir())
	account := "first"
	cfg.AccountOf = func(string) string { return account }
	cl := &clock{now: time.Now().Truncate(time.Microsecond)}
	cfg.Clock = cl.Now
	a := open(t, cfg)
	gen := channel.Gen(0)
	claim := func() (account string, last time.Time) {
		t.Helper()
		gen++
		cl.crawl(t, a, "alice", gen, func(r *runner) []channel.Page {
			return []channel.Page{r.page("/", fmt.Sprint(home, gen), channel.Changed)}
		})
		all, err := a.Deliverers(t.Context(), "alice")
		if err != nil || len(all) != 1 {
			t.Fatalf("%+v, %v", all, err)
		}
		return all[0].Account, all[0].Last
	}
	_, first := claim()
	for range 3 {
		if got, last := claim(); got != "first" || !last.Equal(first) {
			t.Errorf("noted as %s, last at %v; want first, %v", got, last, first)
		}
	}
	cl.now = cl.now.Add(25 * time.Hour)
	if _, last := claim(); !last.After(first.Add(24 * time.Hour)) {
		t.Errorf("a day later: last claim at %v", last)
	}
	account = "second"
	for range 2 {
		if got, _ := claim(); got != "second" {
			t.Errorf("under another account: noted as %s", got)
		}
	}
}

// What a purge would take back is counted before, and nothing is changed by that.
func TestWouldWithdraw(t *testing.T) {
	a, cl, _ := strangers(t)
	forgeries(t, a, cl)
	would, err := a.WouldWithdraw(t.Context(), "mallory")
	if err != nil || would.Pages != 3 || would.Captures != 5 || would.Deliverers != 1 {
		t.Errorf("counted %+v, %v", would, err)
	}
	if got := shown(t, a, "http://site-1.example/"); got != forge {
		t.Errorf("after counting it shows %q", got)
	}
	out, err := a.Withdraw(t.Context(), "mallory")
	if err != nil || out.Pages != would.Pages || out.Captures != would.Captures {
		t.Errorf("counted %+v, took back %+v, %v", would, out, err)
	}
	if none, err := a.WouldWithdraw(t.Context(), "nobody"); err != nil || none.Deliverers != 0 {
		t.Errorf("of one who never was: %+v, %v", none, err)
	}
	if _, err := a.WouldWithdraw(&cutOff{t.Context(), 4}, "mallory"); err == nil {
		t.Error("a count that broke off is given out as whole")
	}
}

// A purge that was started is done by the archive itself, also if it is closed before it begins; one that is asked for while another runs is not lost.
func TestStartedPurgeIsDone(t *testing.T) {
	a, cl, cfg := strangers(t)
	forgeries(t, a, cl)
	if n, err := a.StartWithdraw(t.Context(), "mallory"); err != nil || n != 1 { // nothing runs yet
		t.Fatal(n, err)
	}
	if n, err := a.StartWithdraw(t.Context(), "nobody"); err != nil || n != 0 {
		t.Error(n, err)
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	done := make(chan []channel.ID, 1)
	cfg.OnWithdrawn = func(ids []channel.ID) { done <- ids }
	a = open(t, cfg)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); _ = a.Run(ctx) }()
	wait := func(what string) {
		t.Helper()
		select {
		case <-done:
		case <-time.After(time.Minute):
			t.Fatalf("never done: %s", what)
		}
	}
	wait("what was asked for before the restart")
	checkWithdrawn(t, a)
	if a.Withdrawing() != nil {
		t.Errorf("still under way: %+v", a.Withdrawing())
	}
	if n, err := a.StartWithdraw(t.Context(), "bob"); err != nil || n != 1 {
		t.Fatal(n, err)
	}
	wait("what was asked for while it runs")
	if got := shown(t, a, "http://site-1.example/news"); got != news {
		t.Errorf("after bob's purge it shows %q", got)
	}
	stop()
	<-ended
}

// A purge takes a forged page back also when retention has forgotten visits, and others have only said since that it is unchanged.
func TestRetentionKeepsWhoDelivered(t *testing.T) {
	for name, keep := range map[string]Retention{"count": {Captures: 2}, "age": {Age: 30 * time.Minute}} {
		a, cl, _ := strangers(t)
		cl.crawl(t, a, "mallory", 1, func(r *runner) []channel.Page { return []channel.Page{r.page("/", forge, channel.New)} })
		cl.now = cl.now.Add(time.Hour)
		for gen := channel.Gen(2); gen <= 6; gen++ {
			cl.crawl(t, a, "bob", gen, func(r *runner) []channel.Page {
				return []channel.Page{{URL: r.url("/"), Status: 304, Change: channel.Unchanged, Fetched: cl.now}}
			})
		}
		if out, err := a.Retain(t.Context(), keep); err != nil || name == "count" && out.Captures != 4 {
			t.Errorf("%s: %+v, %v", name, out, err)
		}
		if _, err := a.Withdraw(t.Context(), "mallory"); err != nil {
			t.Fatal(err)
		}
		if got := shown(t, a, "http://site-1.example/"); got != "nothing" {
			t.Errorf("%s: after the purge the page shows %q", name, got)
		}
	}
}
