package desk

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"shoal/channel"
	"shoal/manager"
	"shoal/manager/archive"
)

// Those who see only the banner's first line see an error, or else why nothing at all is crawled, before advice on backups.
func TestTheBannerBeginsWithWhatStandsStill(t *testing.T) {
	keys, still := Finding{Level: Warning, What: "The keys were never backed up.", Mend: "Do it."}, Finding{Level: Warning, What: "No peer has joined: nothing is crawled.", Mend: "Invite some."}
	broken, failing := Finding{Level: Error, What: "The archive failed to write.", Mend: ""}, Finding{Level: Warning, What: "4 channels are failing.", Mend: ""}
	found := []Finding{keys, still, failing, broken}
	pressing(found, still)
	if want := []Finding{broken, still, keys, failing}; !slices.Equal(found, want) {
		t.Errorf("the order is %v, want %v", found, want)
	}
	asked := Finding{Level: Warning, What: "3 peers suspended.", Waits: true}
	found = []Finding{keys, asked, still}
	if pressing(found, still); !slices.Equal(found, []Finding{still, asked, keys}) {
		t.Errorf("what waits for a decision is not before advice: %v", found)
	}
	found = []Finding{keys, failing}
	pressing(found, Finding{})
	if want := []Finding{keys, failing}; !slices.Equal(found, want) {
		t.Errorf("while all is crawled the order is %v, want %v", found, want)
	}
}

// That everything fails is most likely the operator's own trouble: it is said, and comes before advice on backups.
func TestTheBannerSaysThatAllSitesFail(t *testing.T) {
	for _, x := range []struct {
		t    Tally
		want string
	}{
		{Tally{Failing: 2}, "No channel can be crawled: 2 failing."},
		{Tally{Failing: 2, GivenUp: 1, Blocked: 4, Paused: 1}, "No channel that is not paused can be crawled: 2 failing, 1 given up, 4 blocked."},
		{Tally{Failing: 2, New: 1}, ""}, {Tally{Failing: 2, Active: 1}, ""}, {Tally{Paused: 3}, ""}, {Tally{}, ""},
	} {
		f, is := allFail(x.t)
		if f.What != x.want || is != (x.want != "") {
			t.Errorf("%v: %q, want %q", x.t, f.What, x.want)
		}
		if found := tallied(x.t, 0); is && (len(found) < 2 || found[0] != f) {
			t.Errorf("%v: a check says %v", x.t, found)
		}
		if found := tallied(x.t, 250_000); slices.Contains(found, f) {
			t.Errorf("%v of very many that are still being counted: %v", x.t, found)
		}
	}
	keys, fail := Finding{Level: Warning, What: "The keys were never backed up."}, Finding{Level: Warning, What: "No channel can be crawled: 2 failing."}
	found := []Finding{keys, fail}
	if pressing(found, fail); found[0] != fail {
		t.Errorf("the order is %v", found)
	}
}

// A word without a dot is no host on the page either, nor for shoal up.
func TestParseSitesTakesWhatListsTake(t *testing.T) {
	for _, url := range []string{"foo", "foo/bar", "foo bar", "ftp://example.org/", "a..example"} {
		if chs, err := ParseSites([]string{"https://example.org/", url}); err == nil {
			t.Errorf("%q is taken for %+v", url, chs[1].Scope)
		}
	}
	chs, err := ParseSites([]string{"example.org/news", "https://intranet-like", "example.org:8080"})
	if err != nil || chs[0].Scope.Host != "https://example.org" || chs[0].Scope.Dirs[0] != "/news/" || chs[2].Scope.Host != "https://example.org:8080" {
		t.Errorf("channels %+v, %v", chs, err)
	}
}

// What was just added counts before the manager has counted it; a peer that was there once has not failed to join.
func TestStandstill(t *testing.T) {
	for _, x := range []struct {
		o        manager.Overview
		channels bool
		want     string
	}{
		{manager.Overview{}, false, "There are no channels."},
		{manager.Overview{}, true, "No peer has joined: nothing is crawled."},
		{manager.Overview{Channels: 2, Accepted: 3}, true, "No peer is there now: nothing is crawled."},
		{manager.Overview{Channels: 2, Peers: 1}, true, ""},
	} {
		if f, _ := standstill(&x.o, x.channels); f.What != x.want {
			t.Errorf("%+v: %q, want %q", x.o, f.What, x.want)
		}
	}
	one := []channel.Channel{{State: channel.Removed}, {State: channel.Active}}
	for n, want := range []bool{false, false, true} {
		if got := anyChannel(t.Context(), func(context.Context, channel.ID, int) ([]channel.Channel, error) { return one[:n], nil }); got != want {
			t.Errorf("of %d: %v", n, got)
		}
	}
}

// While the database is away a check says so at once, and does not wait for it.
func TestCheckWithoutDatabase(t *testing.T) {
	d := &Desk{cfg: Config{
		Checks: func(context.Context) []Finding { return []Finding{{Level: OK, What: "the disk"}} },
		Database: func(ctx context.Context) error {
			if _, bounded := ctx.Deadline(); !bounded {
				t.Error("the question has no bound")
			}
			return errors.New("no PostgreSQL answers")
		},
	}}
	if found := d.Check(t.Context()); len(found) != 2 || found[1].Level != Error || !strings.Contains(found[1].What, "no PostgreSQL answers") {
		t.Errorf("found %v", found)
	}
}

// An archive that cannot store, or waits for what it stores in, is told of before all else of it.
func TestStores(t *testing.T) {
	now := time.Now()
	for _, x := range []struct {
		of    archive.Stats
		level string
		says  string
	}{
		{archive.Stats{Pages: 3, Files: 1, TextLag: 1}, OK, "archive: 3 versions of pages stored ever, 1 WARC file; 1 change without text yet"},
		{archive.Stats{Writing: now.Add(time.Hour), Failures: 1, LastFailed: now, LastFailure: "full"}, Warning, "has written since: full."},
		{archive.Stats{Writing: now.Add(-20 * time.Second), Failures: 1, LastFailed: now}, Error, ": a disk, a database or a bucket is slow, or does not answer."},
		{archive.Stats{Writing: now.Add(-20 * time.Second), Failing: true, LastFailure: "full"}, Error, "cannot store what peers bring: full."},
		{archive.Stats{TextDelay: time.Hour, TextLag: 7}, Warning, "(7 changes)"},
	} {
		if f := stores(&x.of); f.Level != x.level || !strings.Contains(f.What, x.says) {
			t.Errorf("%+v: %+v", x.of, f)
		}
	}
}

// Before the first count nobody knows how many pages there are: neither the check nor the archive's figures call that none.
func TestPagesAreNotCountedYet(t *testing.T) {
	now := time.Now()
	for _, x := range []struct {
		of   archive.Stats
		says string
		keys bool
	}{
		{archive.Stats{Pages: 3}, "the stored pages are not counted yet: the first count since the start goes on", false},
		{archive.Stats{Pages: 3, Provisional: 2, Counted: now.Add(-time.Second)}, "2 pages stored when they were counted, 1 s ago, all provisional", true},
		{archive.Stats{}, "", false},
	} {
		if f, is := believed(now, &x.of); is != (x.says != "") || !strings.HasPrefix(f.What, x.says) {
			t.Errorf("%+v: %+v, %v", x.of, f, is)
		}
		b, err := json.Marshal(x.of)
		if err != nil {
			t.Fatal(err)
		}
		var got map[string]any
		if err := json.Unmarshal(b, &got); err != nil {
			t.Fatal(err)
		}
		for _, key := range []string{"pages_provisional", "pages_verified", "pages_withdrawn", "pages_held", "pages_counted"} {
			if _, is := got[key]; is != x.keys {
				t.Errorf("%s has %s: %v", b, key, is)
			}
		}
	}
}
