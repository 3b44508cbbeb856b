package archive

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"shoal/channel"
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
	if got := strings.Join(told(t, a)[seen:], ", "); got != "withdrawn /a, withdrawn /c" && got != "withdrawn /c, withdrawn /a" {
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
	for _, want := range []string{"changed /a", "created /c"} {
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
