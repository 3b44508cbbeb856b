package archive

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"shoal/channel"
	"shoal/manager/archive/ledger"
	"shoal/manager/trust"
)

// suspects fills an archive with what mallory delivered among others: a version that bob has seen too, a version that nobody else has, a page that never was,
// and a word for alice's page, which verified it.
func suspects(t *testing.T, a *Archive, cl *clock) *judge {
	j := newJudge(t, a, true, "alice", "bob", "mallory")
	say := func(peer string, gen channel.Gen, all map[string]string) {
		cl.crawl(t, a, peer, gen, func(r *runner) (out []channel.Page) {
			for _, path := range []string{"/", "/a", "/b", "/c"} {
				if body := all[path]; body != "" {
					out = append(out, r.page(path, body, channel.Changed))
				}
			}
			return out
		})
		j.deliver(cl, gen)
	}
	say("alice", 1, map[string]string{"/": home, "/a": news, "/b": home + news})
	say("mallory", 2, map[string]string{"/": home + "2", "/a": forge, "/b": home + news, "/c": forge + "c"})
	say("bob", 3, map[string]string{"/": home + "2"})
	return j
}

// told are the events of the page feed, oldest first.
func told(t *testing.T, a *Archive) (out []string) {
	t.Helper()
	changes, _, err := a.Changes(t.Context(), "", 1000)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range changes {
		out = append(out, c.Event.String()+" "+strings.TrimPrefix(c.URL, "http://site-1.example"))
	}
	return out
}

const beforeSuspension = "/ shows 2, verified; /a shows forged, provisional; /b shows both, verified; /c shows forged, provisional"

// standing says what an archive shows of suspects' pages.
func standing(t *testing.T, a *Archive) string {
	t.Helper()
	names := map[string]string{home: "home", home + "2": "2", news: "news", forge: "forged", forge + "c": "forged", home + news: "both", "nothing": "nothing"}
	var out []string
	for _, path := range []string{"/", "/a", "/b", "/c"} {
		url := "http://site-1.example" + path
		d, err := a.Record(t.Context(), 1, channel.URLHash(url))
		if err != nil {
			t.Fatal(err)
		}
		state := "withdrawn"
		if v := d.Record.Shown(); v != nil {
			state = v.State.String()
		}
		out = append(out, fmt.Sprintf("%s shows %s, %s", path, names[shown(t, a, url)], state))
	}
	return strings.Join(out, "; ")
}

// A suspension withdraws what a peer alone has seen: earlier versions return, what others saw too stays, and a pardon gives everything back.
func TestSuspendAndPardon(t *testing.T) {
	a, cl, _ := strangers(t)
	suspects(t, a, cl)
	mallory := trust.Peer(a.DelivererNumber("mallory"))
	if got := standing(t, a); got != beforeSuspension {
		t.Fatal(got)
	}
	seen := len(told(t, a))
	if err := a.Suspend(t.Context(), mallory); err != nil {
		t.Fatal(err)
	}
	if err := a.Settle(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := standing(t, a); got != "/ shows 2, verified; /a shows news, provisional; /b shows both, provisional; /c shows nothing, withdrawn" {
		t.Error(got)
	}
	got := told(t, a)[seen:]
	if slices.Sort(got); strings.Join(got, ", ") != "unverified /b, withdrawn /a, withdrawn /c" {
		t.Error(got)
	}
	if all, err := a.Suspensions(t.Context()); err != nil || len(all) != 1 || !all[0].Done || all[0].Pages != 3 {
		t.Errorf("%+v, %v", all, err)
	}
	seen = len(told(t, a))
	if err := a.Pardon(t.Context(), mallory); err != nil {
		t.Fatal(err)
	}
	if err := a.Settle(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := standing(t, a); got != beforeSuspension {
		t.Error(got)
	}
	for _, want := range []string{"changed /a", "created /c", "verified /b"} {
		if got := strings.Join(told(t, a)[seen:], ", "); !strings.Contains(got, want) {
			t.Errorf("%s: no %s", got, want)
		}
	}
	if all, err := a.Suspensions(t.Context()); err != nil || len(all) != 0 {
		t.Errorf("%+v, %v", all, err)
	}
}

// What was stored before anything was said of pages is withdrawn too, and older captures of others return.
func TestSuspendWithoutRecords(t *testing.T) {
	a, cl, _ := strangers(t)
	forgeries(t, a, cl)
	mallory := trust.Peer(a.DelivererNumber("mallory"))
	if err := a.Suspend(t.Context(), mallory); err != nil {
		t.Fatal(err)
	}
	if err := a.Settle(t.Context()); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{"/": home, "/news": news + " and more", "/invented": "nothing"} {
		if got := shown(t, a, "http://site-1.example"+path); got != want {
			t.Errorf("%s shows %q, want %q", path, got, want)
		}
	}
	if err := a.Pardon(t.Context(), mallory); err != nil {
		t.Fatal(err)
	}
	if err := a.Settle(t.Context()); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{"/": forge, "/news": news + " and more", "/invented": forge + "!"} {
		if got := shown(t, a, "http://site-1.example"+path); got != want {
			t.Errorf("after the pardon %s shows %q, want %q", path, got, want)
		}
	}
}

// A suspension, and its pardon, that are cut off at any of their steps are gone on with after a restart.
func TestSuspensionGoesOnAfterARestart(t *testing.T) {
	t.Parallel()
	for _, pardon := range []bool{false, true} {
		want := "/ shows 2, verified; /a shows news, provisional; /b shows both, provisional; /c shows nothing, withdrawn"
		if pardon {
			want = beforeSuspension
		}
		for cut := 1; ; cut++ {
			a, cl, cfg := strangers(t)
			suspects(t, a, cl)
			mallory := trust.Peer(a.DelivererNumber("mallory"))
			if err := a.Suspend(t.Context(), mallory); err != nil {
				t.Fatal(err)
			}
			if pardon {
				if err := a.Settle(t.Context()); err != nil {
					t.Fatal(err)
				}
				if err := a.Pardon(t.Context(), mallory); err != nil {
					t.Fatal(err)
				}
			}
			err := a.Settle(&cutOff{t.Context(), cut})
			if err := a.Close(); err != nil {
				t.Fatal(err)
			}
			a = open(t, cfg)
			if err := a.Settle(context.WithoutCancel(t.Context())); err != nil {
				t.Fatal(err)
			}
			if got := standing(t, a); got != want {
				t.Errorf("cut at %d, pardon %v: %s", cut, pardon, got)
			}
			if err == nil {
				if cut < 5 {
					t.Errorf("only %d steps were cut", cut)
				}
				break
			}
		}
	}
}

// A verdict that was on its way when a deliverer was suspended does not bring its versions back.
func TestLateVerdict(t *testing.T) {
	a, cl, _ := strangers(t)
	j := newJudge(t, a, true, "alice", "mallory")
	cl.crawl(t, a, "alice", 1, func(r *runner) []channel.Page { return []channel.Page{r.page("/", home, channel.New)} })
	j.deliver(cl, 1)
	cl.crawl(t, a, "mallory", 2, func(r *runner) []channel.Page { return []channel.Page{r.page("/", forge, channel.Changed)} })
	mallory := trust.Peer(a.DelivererNumber("mallory"))
	if err := a.Suspend(t.Context(), mallory); err != nil {
		t.Fatal(err)
	}
	if err := a.Settle(t.Context()); err != nil {
		t.Fatal(err)
	}
	j.deliver(cl, 2)
	if got := shown(t, a, "http://site-1.example/"); got != home {
		t.Errorf("shows %q", got)
	}
	if err := a.Pardon(t.Context(), mallory); err != nil {
		t.Fatal(err)
	}
	if err := a.Settle(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := shown(t, a, "http://site-1.example/"); got != forge {
		t.Errorf("after the pardon it shows %q", got)
	}
}

// Retention keeps what a page returns to when its last version is withdrawn.
func TestRetentionKeepsWhatIsShown(t *testing.T) {
	a, cl, _ := strangers(t)
	j := newJudge(t, a, true, "alice", "bob", "mallory")
	for i, c := range []struct{ peer, body string }{{"alice", home}, {"bob", home}, {"alice", home}, {"mallory", forge}, {"mallory", forge}} {
		cl.crawl(t, a, c.peer, channel.Gen(i+1), func(r *runner) []channel.Page { return []channel.Page{r.page("/", c.body, channel.Changed)} })
		j.deliver(cl, channel.Gen(i+1))
	}
	if out, err := a.Retain(t.Context(), Retention{Captures: 1}); err != nil || out.Captures != 2 {
		t.Errorf("%+v, %v", out, err)
	}
	if _, err := a.Compact(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	if err := a.Suspend(t.Context(), trust.Peer(a.DelivererNumber("mallory"))); err != nil {
		t.Fatal(err)
	}
	if err := a.Settle(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := shown(t, a, "http://site-1.example/"); got != home {
		t.Errorf("shows %q", got)
	}
}

// A suspended peer that claims again stays suspended.
func TestSuspensionOutlivesClaims(t *testing.T) {
	a, cl, _ := strangers(t)
	suspects(t, a, cl)
	if err := a.Suspend(t.Context(), trust.Peer(a.DelivererNumber("mallory"))); err != nil {
		t.Fatal(err)
	}
	cl.now = cl.now.Add(25 * time.Hour) // its last claim is noted anew
	cl.crawl(t, a, "mallory", 4, func(r *runner) []channel.Page { return []channel.Page{r.page("/new", forge+"n", channel.New)} })
	if err := a.Settle(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/c", "/new"} {
		if got := shown(t, a, "http://site-1.example"+path); got != "nothing" {
			t.Errorf("%s shows %q", path, got)
		}
	}
}

// That a page is gone is withdrawn with who said so, and given back with a pardon, unless it was crawled again meanwhile. What others found gone, too, stays gone.
func TestSuspensionWithdrawsThatAPageIsGone(t *testing.T) {
	for _, judged := range []bool{true, false} {
		for _, again := range []bool{false, true} {
			goneBy(t, judged, again)
		}
	}
}

// goneBy has mallory say twice of three pages that they are gone; bob finds one of them gone, too.
func goneBy(t *testing.T, judged, again bool) {
	a, cl, _ := strangers(t)
	j := newJudge(t, a, true, "alice", "bob", "mallory")
	gen := channel.Gen(0)
	say := func(peer string, body string, paths ...string) {
		gen++
		cl.crawl(t, a, peer, gen, func(r *runner) (out []channel.Page) {
			for _, path := range paths {
				p := r.page(path, body+path, channel.Changed)
				if body == "" {
					p = channel.Page{URL: r.url(path), Status: 404, Change: channel.Gone, Fetched: cl.now, Header: []byte("HTTP/1.1 404 Not Found\r\n\r\n")}
				}
				out = append(out, p)
			}
			return out
		})
		if judged {
			j.deliver(cl, gen)
		}
	}
	is := func(path string) string {
		p, err := a.Page(t.Context(), "http://site-1.example"+path)
		if err != nil {
			t.Fatal(err)
		}
		c, err := a.Get(t.Context(), p.URL, time.Time{})
		if err != nil {
			t.Fatal(err)
		}
		if p.Gone != (c.Status == 404) {
			t.Errorf("%s: gone %v, and what is shown has the status %d", path, p.Gone, c.Status)
		}
		return fmt.Sprint(p.Gone, " ", p.Deliverer == ledger.DelivererName(a.DelivererNumber("mallory")), " ", strings.HasPrefix(string(c.Body), home))
	}
	say("alice", home, "/a", "/b", "/c")
	say("mallory", "", "/a", "/b", "/c")
	cl.now = cl.now.Add(25 * time.Hour)
	say("mallory", "", "/a", "/b", "/c")
	say("bob", "", "/c")
	if got := is("/a"); got != "true true false" {
		t.Fatal(got)
	}
	mallory := trust.Peer(a.DelivererNumber("mallory"))
	seen := len(told(t, a))
	if err := a.Suspend(t.Context(), mallory); err != nil {
		t.Fatal(err)
	}
	if err := a.Settle(t.Context()); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{"/a": "false false true", "/b": "false false true", "/c": "true false false"} {
		if got := is(path); got != want {
			t.Errorf("judged %v, suspended: %s is %s, want %s", judged, path, got, want)
		}
	}
	news := told(t, a)[seen:]
	if slices.Sort(news); strings.Join(news, ", ") != "withdrawn /a, withdrawn /b" {
		t.Errorf("judged %v, suspended: told %v", judged, news)
	}
	if changes, _, err := a.ChangesOf(t.Context(), "", 100, Filter{}); err != nil || changes[len(changes)-1].Status != 200 {
		t.Errorf("%+v, %v", changes[len(changes)-1], err)
	}
	want := map[string]string{"/a": "true true false", "/b": "true true false", "/c": "true false false"}
	if again {
		say("bob", home, "/a")
		want["/a"] = "false false true"
	}
	if err := a.Pardon(t.Context(), mallory); err != nil {
		t.Fatal(err)
	}
	if err := a.Settle(t.Context()); err != nil {
		t.Fatal(err)
	}
	for path, want := range want {
		if got := is(path); got != want {
			t.Errorf("judged %v, crawled again %v, pardoned: %s is %s, want %s", judged, again, path, got, want)
		}
	}
	if all, err := a.Suspensions(t.Context()); err != nil || len(all) != 0 {
		t.Errorf("%+v, %v", all, err)
	}
}

// A pardon has a page be gone again of which the pardoned peer had also said that it saw the version before, as others had.
func TestPardonGivesGoneBackToWhoVouchedBefore(t *testing.T) {
	vouched(t, "verified+2 none", "alice", "bob", "mallory", "mallory", "mallory")
	vouched(t, "verified+1 none", "alice", "mallory", "mallory", "mallory")
}

// vouched has peers see a page, of whom the last one is mallory, which says then twice that it is gone.
func vouched(t *testing.T, record string, peers ...string) {
	t.Helper()
	a, cl, _ := strangers(t)
	j := newJudge(t, a, true, "alice", "bob", "carol", "mallory")
	for i, peer := range peers {
		if i == len(peers)-1 {
			cl.now = cl.now.Add(25 * time.Hour)
		}
		cl.crawl(t, a, peer, channel.Gen(i+1), func(r *runner) []channel.Page {
			if i < len(peers)-2 {
				return []channel.Page{r.page("/", home, channel.Changed)}
			}
			return []channel.Page{{URL: r.url("/"), Status: 404, Change: channel.Gone, Fetched: cl.now, Header: []byte("HTTP/1.1 404 Not Found\r\n\r\n")}}
		})
		j.deliver(cl, channel.Gen(i+1))
	}
	if got := j.record("/"); got != record {
		t.Fatal(got)
	}
	mallory := trust.Peer(a.DelivererNumber("mallory"))
	seen := len(told(t, a))
	for i, do := range []func(context.Context, trust.Peer) error{a.Suspend, a.Pardon} {
		if err := do(t.Context(), mallory); err != nil {
			t.Fatal(err)
		}
		if err := a.Settle(t.Context()); err != nil {
			t.Fatal(err)
		}
		p, err := a.Page(t.Context(), "http://site-1.example/")
		if err != nil || p.Gone != (i == 1) {
			t.Errorf("step %d: %+v, %v", i, p, err)
		}
	}
	if got := j.record("/"); got != record {
		t.Errorf("after the pardon the record is %s", got)
	}
	news := slices.DeleteFunc(told(t, a)[seen:], func(s string) bool { return strings.HasSuffix(s, "verified /") })
	if got := strings.Join(news, ", "); got != "withdrawn /, gone /" {
		t.Error(got)
	}
}

// Others have moved a redirect of a suspended peer on, and verified where it leads now: nothing of the page is withdrawn, though the peer was the first to find it moved.
func TestSuspensionLeavesTheRedirectsOfOthers(t *testing.T) {
	a, cl, _ := strangers(t)
	j := newJudge(t, a, true, "alice", "bob", "mallory")
	gen := channel.Gen(0)
	say := func(peer, to string) {
		gen++
		cl.crawl(t, a, peer, gen, func(r *runner) []channel.Page {
			p := r.page("/moves", home, channel.Changed)
			if to != "" {
				p.Body, p.Status, p.Header = nil, 301, []byte("HTTP/1.1 301 Moved Permanently\r\nLocation: http://site-1.example/"+to+"\r\n\r\n")
			}
			return []channel.Page{p}
		})
		j.deliver(cl, gen)
	}
	say("alice", "")
	say("mallory", "a")
	cl.now = cl.now.Add(25 * time.Hour)
	say("mallory", "a")
	for _, to := range []string{"b", "c"} {
		say("alice", to)
		say("bob", to)
	}
	mallory := trust.Peer(a.DelivererNumber("mallory"))
	before, err := a.Page(t.Context(), "http://site-1.example/moves")
	if err != nil || !before.Gone || before.Deliverer != ledger.DelivererName(uint64(mallory)) {
		t.Fatalf("%+v, %v", before, err)
	}
	seen := len(told(t, a))
	if err := a.Suspend(t.Context(), mallory); err != nil {
		t.Fatal(err)
	}
	if err := a.Settle(t.Context()); err != nil {
		t.Fatal(err)
	}
	if all, err := a.Suspensions(t.Context()); err != nil || len(all) != 1 || all[0].Pages != 0 {
		t.Errorf("%+v, %v", all, err)
	}
	if got, err := a.Page(t.Context(), "http://site-1.example/moves"); err != nil || !reflect.DeepEqual(got, before) {
		t.Errorf("%+v, %v; before %+v", got, err, before)
	}
	if news := told(t, a)[seen:]; len(news) > 0 {
		t.Error(news)
	}
}

// TestToldStatusIsThePages has a version return of which only a visit is known that said nothing has changed, and a redirect that a pardon gives back.
func TestToldStatusIsThePages(t *testing.T) {
	a, cl, _ := strangers(t)
	cl.crawl(t, a, "alice", 1, func(r *runner) []channel.Page {
		return []channel.Page{r.page("/", home, channel.New), r.page("/moves", news, channel.New)}
	})
	cl.crawl(t, a, "alice", 2, func(r *runner) []channel.Page {
		return []channel.Page{{URL: r.url("/"), Status: 304, Change: channel.Unchanged, Fetched: cl.now}}
	})
	j := newJudge(t, a, true, "alice", "mallory")
	cl.crawl(t, a, "mallory", 3, func(r *runner) []channel.Page {
		to := r.page("/moves", "", channel.Changed)
		to.Status, to.Header = 301, []byte("HTTP/1.1 301 Moved Permanently\r\nLocation: http://site-1.example/there\r\n\r\n")
		return []channel.Page{r.page("/", forge, channel.Changed), to}
	})
	cl.now = cl.now.Add(25 * time.Hour)
	cl.crawl(t, a, "mallory", 4, func(r *runner) []channel.Page {
		to := r.page("/moves", "", channel.Changed)
		to.Status, to.Header = 301, []byte("HTTP/1.1 301 Moved Permanently\r\nLocation: http://site-1.example/there\r\n\r\n")
		return []channel.Page{to}
	})
	j.deliver(cl, 3)
	j.deliver(cl, 4)
	mallory := trust.Peer(a.DelivererNumber("mallory"))
	seen := len(told(t, a))
	for _, do := range []func(context.Context, trust.Peer) error{a.Suspend, a.Pardon} {
		if err := do(t.Context(), mallory); err != nil {
			t.Fatal(err)
		}
		if err := a.Settle(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	changes, _, err := a.Changes(t.Context(), "", 100)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, c := range changes[seen:] {
		got = append(got, fmt.Sprintf("%v %s %d", c.Event, strings.TrimPrefix(c.URL, "http://site-1.example"), c.Status))
	}
	if slices.Sort(got); strings.Join(got, ", ") != "changed / 200, gone /moves 301, withdrawn / 200, withdrawn /moves 200" {
		t.Error(got)
	}
	if p, err := a.Page(t.Context(), "http://site-1.example/moves"); err != nil || !p.Gone || p.Status != 301 {
		t.Errorf("%+v, %v", p, err)
	}
}
