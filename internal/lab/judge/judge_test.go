package judge

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestBreaches shows each breach to the judge: spoil changes an honest network after the judge has looked at it once.
func TestBreaches(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(f *fake, j *Judge)
		want  Kind // empty: none
	}{
		"all is well": {func(*fake, *Judge) {}, ""},
		"all is well and goes on": {func(f *fake, _ *Judge) {
			f.fetch(0, 0, at(200), 3)
			f.rows[0].Updates++
		}, ""},
		"a change is gone from the feed":  {func(f *fake, _ *Judge) { f.feed = f.feed[:len(f.feed)-1] }, Lost},
		"a change of the feed is another": {func(f *fake, _ *Judge) { f.feed[2].Digest = "other" }, Lost},
		"a capture is gone":               {func(f *fake, _ *Judge) { f.captures = f.captures[1:] }, Lost},
		"a page is gone":                  {func(f *fake, _ *Judge) { delete(f.bodies, f.newest(pageURL(0, 1))) }, Lost},
		"a page is another, beside the few that are read": {func(f *fake, j *Judge) {
			f.bodies[f.newest(pageURL(0, 1))] = "other"
			j.cfg.Reads = 1
		}, ""},
		"a page is another, among the few that are read": {func(f *fake, j *Judge) {
			f.bodies[f.newest(pageURL(0, 0))] = "other"
			j.cfg.Reads = 1
		}, Lost},
		"a page is another": {func(f *fake, _ *Judge) { f.bodies[f.newest(pageURL(0, 1))] = "other" }, Lost},
		"a page is its older version": {func(f *fake, _ *Judge) {
			f.bodies[f.newest(pageURL(0, 1))] = content(pageURL(0, 1), 1)
		}, Lost},
		"a page is another of the same second": {func(f *fake, _ *Judge) {
			f.fetch(1, 1, at(200), 3)
			f.fetch(1, 1, at(200.5), 4)
			f.bodies[f.newest(pageURL(1, 1))] = content(pageURL(1, 1), 3)
		}, ""},
		"a page is taken down by nobody":  {func(f *fake, _ *Judge) { f.takeDown(pageURL(0, 1)) }, Lost},
		"a version that was never served": {func(f *fake, _ *Judge) { f.captures[0].Digest = digest("other") }, Unserved},
		"a version of another time":       {func(f *fake, _ *Judge) { f.captures[0].Digest = f.captures[4].Digest }, Unserved},
		"one fetch, two captures":         {func(f *fake, _ *Judge) { f.captures = append(f.captures, f.captures[0]) }, Unserved},
		"a page that the pond has not":    {func(f *fake, _ *Judge) { f.invent("http://h0.test/none") }, Unserved},
		"a host misbehaves":               {func(f *fake, _ *Judge) { f.invent("http://h2.test/0") }, ""},
		"a sitemap is no page":            {func(f *fake, _ *Judge) { f.invent("http://h0.test/sitemap.xml") }, ""},
		"an update is lost":               {func(f *fake, _ *Judge) { f.rows[0].Updates-- }, Miscounted},
		"an update is counted twice":      {func(f *fake, _ *Judge) { f.rows[0].Updates++ }, Miscounted},
		"a liar's update, told before it is counted": {func(f *fake, j *Judge) {
			f.rows[0].Updates++
			j.cfg.Hear = func() { j.LiedAbout("http://h0.test") }
		}, ""},
		"an update of a page elsewhere": {func(f *fake, j *Judge) { f.rows[0].Updates++; j.cfg.Astray = func(string) int { return 1 } }, ""},
		"a crawl that came to nothing":  {func(f *fake, _ *Judge) { f.fetch(0, 0, at(200), 3) }, ""},
		"two crawls are not counted": {func(f *fake, _ *Judge) {
			for _, when := range []float64{200, 300} {
				f.fetch(0, 0, at(when), 3)
				f.fetch(0, 1, at(when+3), 3)
			}
		}, Miscounted},
		"one crawl is not counted yet":               {func(f *fake, _ *Judge) { f.fetch(0, 0, at(200), 3); f.fetch(0, 1, at(203), 3) }, ""},
		"a page that was never crawled":              {func(_ *fake, j *Judge) { j.hosts[1].Pages++ }, Lost},
		"a large host's page that was never crawled": {func(_ *fake, j *Judge) { j.hosts[1].Pages++; j.cfg.Whole = 2 }, ""},
		"a version that the feed does not tell": {func(f *fake, _ *Judge) {
			f.fetch(1, 0, at(200), 3)
			f.feed = f.feed[:len(f.feed)-1]
		}, Lost},
		"a version as before, which the feed does not tell": {func(f *fake, _ *Judge) {
			f.fetch(1, 0, at(200), 2)
			f.feed = f.feed[:len(f.feed)-1]
		}, ""},
		"a page that the feed does not tell": {func(f *fake, _ *Judge) {
			f.hosts[1].Pages++
			f.fetch(1, 2, at(200), 3)
			f.feed = f.feed[:len(f.feed)-1]
		}, Lost},
		"a page is told to be gone": {func(f *fake, _ *Judge) {
			f.feed = append(f.feed, change{URL: pageURL(0, 1), Event: "gone", Fetched: at(180), Status: 404})
		}, Lost},
		"an older version is another": {func(f *fake, _ *Judge) {
			f.bodies[bodyAt(pageURL(0, 1), at(3))] = content(pageURL(0, 1), 2)
		}, Lost},
		"an older version is gone": {func(f *fake, _ *Judge) { delete(f.bodies, bodyAt(pageURL(1, 0), at(1))) }, Lost},
		"a channel is gone":        {func(f *fake, _ *Judge) { f.rows = f.rows[1:] }, Lost},
		"a channel is gone that was new": {func(f *fake, j *Judge) {
			delete(j.crawled, 1)
			f.rows = f.rows[1:]
		}, ""},
		"a channel is removed": {func(f *fake, j *Judge) {
			if err := j.Removing("h0.test"); err != nil {
				panic(err)
			}
			f.rows = f.rows[1:]
		}, ""},
		"a channel is removed and added": {func(f *fake, j *Judge) {
			if err := j.Removing("http://h0.test"); err != nil {
				panic(err)
			}
			f.rows[0].ID, f.rows[0].Updates = 7, 0
		}, ""},
		"two requests in flight": {func(f *fake, _ *Judge) { f.stats.MaxInFlight = 2 }, Impolite},
		"the pond saw haste":     {func(f *fake, _ *Judge) { f.violate("crawl-delay") }, Impolite},
		"haste":                  {func(f *fake, _ *Judge) { f.fetch(0, 0, at(200), 3); f.fetch(0, 1, at(201), 3) }, Impolite},
		"haste without a delay": {func(f *fake, j *Judge) {
			j.cfg.Gap = time.Second
			f.fetch(1, 0, at(200), 3)
			f.fetch(1, 1, at(200.5), 3)
		}, Impolite},
		"no haste without a delay": {func(f *fake, j *Judge) {
			j.cfg.Gap = time.Second
			f.fetch(1, 0, at(200), 3)
			f.fetch(1, 1, at(201), 3)
		}, ""},
		"no delay, no haste":                 {func(f *fake, _ *Judge) { f.fetch(1, 0, at(200), 3); f.fetch(1, 1, at(201), 3) }, ""},
		"robots.txt forbade it":              {func(f *fake, _ *Judge) { f.violate("robots") }, Forbidden},
		"the archive has what is forbidden":  {func(f *fake, _ *Judge) { f.invent("http://h1.test/private/x") }, Forbidden},
		"a blocked host is fetched":          {func(f *fake, j *Judge) { block(j, at(190), time.Time{}); f.fetch(0, 0, at(200), 3) }, Forbidden},
		"a running task may end":             {func(f *fake, j *Judge) { block(j, at(197), time.Time{}); f.fetch(0, 0, at(200), 3) }, ""},
		"a block is lifted":                  {func(f *fake, j *Judge) { block(j, at(150), at(199)); f.fetch(0, 0, at(200), 3) }, ""},
		"taken down, with all that was told": {func(f *fake, j *Judge) { f.purge(j, true) }, ""},
		"taken down, and crawled again": {func(f *fake, j *Judge) {
			f.purge(j, true)
			f.fetch(0, 0, at(300), 3)
		}, ""},
		"taken down, and it is still there": {func(f *fake, j *Judge) { f.purge(j, false) }, Undead},
		"asked to be taken down": {func(f *fake, j *Judge) {
			if err := j.Purging("h0.test"); err != nil {
				panic(err)
			}
		}, ""},
		"an error without a reason":       {func(f *fake, _ *Judge) { f.rows[0].Last = "failed" }, Mute},
		"an error that is a type":         {func(f *fake, _ *Judge) { f.rows[0].Error = "the host said %!s(<nil>)" }, Mute},
		"an error that tells what it was": {func(f *fake, _ *Judge) { f.rows[0].Error = "robots.txt was answered with status 500" }, ""},
		"a split host may have more updates": {func(f *fake, _ *Judge) {
			f.rows = append(f.rows, row{ID: 3, Host: "http://h0.test", State: "active", Updates: 3, Updated: at(110)})
		}, ""},
		"taken down by a clock that is behind": {func(f *fake, j *Judge) {
			f.purge(j, true)
			j.Stepped("its", -time.Minute, at(290))
			j.Righted("its", at(310))
			f.fetch(0, 0, at(300), 3)
			f.late(-time.Minute)
		}, ""},
		"a clock was ahead": {func(f *fake, j *Judge) {
			j.Stepped("its", time.Hour, at(195))
			f.fetch(1, 0, at(200), 3)
			f.late(time.Hour)
			j.Righted("its", at(205))
		}, ""},
		"a clock was ahead, and what comes once it is right is dated after that": {func(f *fake, j *Judge) {
			j.Stepped("its", 2*time.Minute, at(150))
			j.Righted("its", at(160))
			f.fetch(1, 0, at(200), 3)
			f.late(90 * time.Second)
		}, ""},
		"a clock was ahead, too long ago": {func(f *fake, j *Judge) {
			j.Stepped("its", 30*time.Second, at(100))
			j.Righted("its", at(110))
			f.fetch(1, 0, at(200), 3)
			f.late(30 * time.Second)
		}, Unserved},
		"a clock was not ahead then": {func(f *fake, j *Judge) {
			j.Stepped("its", time.Hour, at(300))
			f.fetch(1, 0, at(200), 3)
			f.late(time.Hour)
		}, Unserved},
		"a clock was behind, and the manager put the time right by half": {func(f *fake, j *Judge) {
			j.Stepped("its", -time.Hour, at(195))
			f.fetch(1, 0, at(200), 3)
			f.late(-time.Hour / 2)
			j.Righted("its", at(205))
		}, ""},
		"a time is further away than the clock was": {func(f *fake, j *Judge) {
			j.Stepped("its", -time.Hour, at(195))
			f.fetch(1, 0, at(200), 3)
			f.late(-2 * time.Hour)
			j.Righted("its", at(205))
		}, Unserved},
		"two requests to a host that does not end":       {func(f *fake, j *Judge) { j.StandsStill(at(40)); j.GoesOn(at(49)); f.overlap("h2.test") }, ""},
		"two requests to it, and all peers work":         {func(f *fake, j *Judge) { j.StandsStill(at(10)); j.GoesOn(at(20)); f.overlap("h2.test") }, Impolite},
		"two requests to another, and a peer is stopped": {func(f *fake, j *Judge) { j.StandsStill(at(40)); f.overlap("h1.test") }, Impolite},
		"a lie":                     {func(f *fake, j *Judge) { f.lie(j, "provisional") }, ""},
		"a lie is verified":         {func(f *fake, j *Judge) { f.lie(j, "verified") }, Believed},
		"a lie is taken back":       {func(f *fake, j *Judge) { f.lie(j, "withdrawn"); j.TakenBack() }, ""},
		"a lie is there after that": {func(f *fake, j *Judge) { f.lie(j, "provisional"); j.TakenBack() }, Believed},
		"who lies is right and verified": {func(f *fake, j *Judge) {
			f.lie(j, "verified")
			f.captures[len(f.captures)-1].Digest = f.captures[0].Digest
		}, ""},
		"a lie by one without a name": {func(f *fake, j *Judge) {
			f.lie(j, "verified")
			f.trusted.Peers[1]["peer"] = ""
		}, Believed},
		"a lie by one of many":               {func(f *fake, j *Judge) { f.lie(j, "verified"); f.trusted = trusted{More: 7} }, Believed},
		"a lie by another":                   {func(f *fake, _ *Judge) { f.invent(pageURL(0, 0)) }, Unserved},
		"a strategy that nobody chose":       {func(f *fake, _ *Judge) { f.strategy = "price" }, Forgotten},
		"likewise, where that is not judged": {func(f *fake, j *Judge) { f.strategy, j.cfg.Strategy = "price", "" }, ""},
		"another strategy is chosen":         {func(f *fake, j *Judge) { j.Choosing("price", at(150)); j.Chose(); f.strategy = "price" }, ""},
		"a choice is forgotten":              {func(_ *fake, j *Judge) { j.Choosing("price", at(150)); j.Chose() }, Forgotten},
		"a choice came to nothing":           {func(_ *fake, j *Judge) { j.Choosing("price", at(150)) }, ""},
		"a choice is done, and its answer is lost": {func(f *fake, j *Judge) {
			j.Choosing("price", at(150))
			f.strategy = "price"
		}, ""},
		"a choice is done after the next one": {func(f *fake, j *Judge) {
			j.Choosing("price", at(150))
			j.Choosing("iir", at(155))
			j.Chose()
			f.strategy = "price"
		}, ""},
		"a choice of long ago is done": {func(f *fake, j *Judge) {
			j.Choosing("price", at(150))
			j.Choosing("iir", at(170))
			j.Chose()
			f.strategy = "price"
		}, Forgotten},
		"another host is blocked": {func(f *fake, j *Judge) { block(j, at(150), at(199)); f.fetch(1, 0, at(198), 3) }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			f := honest()
			j := judgeOf(t, f)
			j.mustLook(t)
			if b := j.Breaches(); len(b) > 0 {
				t.Fatalf("an honest network: %v", b)
			}
			c.spoil(f, j)
			if _, err := j.End(t.Context()); err != nil {
				t.Fatal(err)
			}
			found := j.Breaches()
			if c.want == "" && len(found) > 0 {
				t.Errorf("found %v", found)
			}
			ok := c.want == ""
			for _, b := range found {
				ok = ok || b.Kind == c.want
			}
			if !ok {
				t.Errorf("found %v, want %s", found, c.want)
			}
		})
	}
}

// TestMiscountIsToldOnce looks twice at a channel with an update too many: repeats would hide what is found after it.
func TestMiscountIsToldOnce(t *testing.T) {
	f := honest()
	j := judgeOf(t, f)
	j.mustLook(t)
	f.rows[0].Updates++
	j.mustLook(t)
	first := len(j.Breaches())
	j.mustLook(t)
	if n := len(j.Breaches()); first != 1 || n != first {
		t.Errorf("%d breaches, and after another look %d: %v", first, n, j.Breaches())
	}
}

// A host that is crawled by another name than the pond's is judged by what the pond served of it.
func TestOtherName(t *testing.T) {
	for name, want := range map[string]Kind{"version 1": "", "version 9": Unserved} {
		f := honest()
		f.rename()
		f.rows = append(f.rows, row{ID: 9, Host: "http://h1.test", State: "blocked"})
		if want != "" {
			f.captures[1].Digest = digest(name)
		}
		j := judgeOf(t, f)
		if _, err := j.End(t.Context()); err != nil {
			t.Fatal(err)
		}
		if b := j.Breaches(); (len(b) > 0) != (want != "") || len(b) > 0 && b[0].Kind != want {
			t.Errorf("%s: %v", name, b)
		}
	}
}

// The first page of a host is fetched by crawls that come to nothing, too, and by audits. What is counted must fit the other pages.
func TestUpdatesFitTheOtherPages(t *testing.T) {
	const pages, crawls = 8, 3
	for name, c := range map[string]struct {
		updates int
		spoil   func(f *fake)
		want    Kind
	}{
		"as many as crawls":     {crawls, func(*fake) {}, ""},
		"a crawl is being told": {crawls - 1, func(*fake) {}, ""},
		"one is counted twice":  {crawls + 1, func(*fake) {}, Miscounted},
		"two are not counted":   {crawls - 2, func(*fake) {}, Miscounted},
		"one failed to get a page": {crawls, func(f *fake) {
			f.served = slices.DeleteFunc(f.served, func(a answer) bool { return a.Page == 6 && a.Version == 2 })
			f.drop(6, 2)
		}, ""},
		"one more, and it was killed": {crawls + 1, func(f *fake) {
			for p := range pages / 2 {
				f.fetch(0, p, at(float64(1000+p)), crawls+1)
			}
		}, Miscounted},
	} {
		t.Run(name, func(t *testing.T) {
			f := honest()
			f.served, f.captures, f.feed, f.bodies = nil, nil, nil, map[string]string{}
			f.hosts[0] = host{Name: "h0.test", Pages: pages}
			for n := range crawls {
				for p := range pages {
					f.fetch(0, p, at(float64(100*n+p)), uint64(n+1))
				}
			}
			f.fetch(0, 0, at(950), crawls) // an audit
			f.captures, f.feed = f.captures[:len(f.captures)-1], f.feed[:len(f.feed)-1]
			f.rows = []row{{ID: 1, Host: "http://h0.test", State: "active", Updates: c.updates, Updated: at(110)}}
			c.spoil(f)
			for i := range f.served {
				f.served[i].N = int64(i + 1)
			}
			j := judgeOf(t, f)
			if _, err := j.End(t.Context()); err != nil {
				t.Fatal(err)
			}
			if b := j.Breaches(); (len(b) > 0) != (c.want != "") || len(b) > 0 && b[0].Kind != c.want {
				t.Errorf("%v, want %s", b, c.want)
			}
		})
	}
}

// drop has a crawl not get a page.
func (f *fake) drop(p int, version uint64) {
	u := pageURL(0, p)
	f.captures = slices.DeleteFunc(f.captures, func(c capture) bool { return c.URL == u && c.Digest == digest(content(u, version)) })
	f.feed = slices.DeleteFunc(f.feed, func(c change) bool { return c.URL == u && c.Digest == strconv.Itoa(int(version)) })
}

func TestStale(t *testing.T) {
	f := honest()
	f.rows = append(f.rows, row{ID: 3, Host: "http://h1.test", State: "paused"}, row{ID: 6, Host: "http://h2.test", State: "failing"}, row{ID: 4, Host: "http://h1.test", State: "blocked"}, row{ID: 5, Host: "http://h1.test", State: "new"})
	f.rows[0].Updated = at(150)
	j := judgeOf(t, f)
	behind, err := j.Behind(t.Context(), at(140))
	if err != nil || len(behind) != 2 || !strings.Contains(behind[0], "channel 2 ") || !strings.Contains(behind[1], "channel 5 ") {
		t.Errorf("%v, %v", behind, err)
	}
	if j.NeverCameBack(behind); len(j.Breaches()) != 2 || j.Breaches()[0].Kind != Stale {
		t.Errorf("%v", j.Breaches())
	}
	j.cfg.Crawled = []string{"h0.test", "h1.test", "h2.test"}
	f.rows = f.rows[1:]
	if behind, err = j.Behind(t.Context(), at(0)); err != nil || !slices.Contains(behind, "h0.test has no channel") || len(behind) != 2 {
		t.Errorf("a host has lost its channel: %v, %v", behind, err)
	}
	f.rows = nil
	if _, err := j.Behind(t.Context(), at(0)); err == nil {
		t.Error("a manager without channels is behind with none")
	}
}

func TestLeaked(t *testing.T) {
	f := honest()
	j := judgeOf(t, f)
	before, err := j.Holdings(t.Context())
	if err != nil || before != (Holdings{1e8, 40, 300, 0, 0}) {
		t.Fatalf("%+v, %v", before, err)
	}
	if j.Returned("it", before, Holdings{1.5e8, 60, 450, 50, 1e6}); len(j.Breaches()) != 0 {
		t.Errorf("%v", j.Breaches())
	}
	for i, h := range []Holdings{{Bytes: 4e8}, {Descriptors: 400}, {Goroutines: 4000}, {Files: 51}, {Disk: 1e7}} {
		if j.Returned("it", before, h); len(j.Breaches()) != i+1 || j.Breaches()[i].Kind != Leaked {
			t.Errorf("%+v: %v", h, j.Breaches())
		}
	}
	f.metrics = "go_goroutines 3\n"
	if _, err := j.Holdings(t.Context()); err == nil {
		t.Error("metrics without memory are taken")
	}
}

// A manager that is down is no breach, and what it does meanwhile is not left out.
func TestLookGoesOn(t *testing.T) {
	f := honest()
	j := judgeOf(t, f)
	j.mustLook(t)
	f.down = true
	f.fetch(0, 0, at(200), 3)
	if err := j.Look(t.Context()); err == nil {
		t.Fatal("a manager that is down answers")
	}
	f.dropped = len(f.served) // the pond's log is bounded
	f.fetch(0, 1, at(200.5), 3)
	f.down = false
	seen, err := j.End(t.Context())
	if err != nil || seen != (Seen{Answers: 10, Changes: 10, Captures: 10, Updates: 4}) {
		t.Errorf("%+v, %v", seen, err)
	}
	if b := j.Breaches(); len(b) != 1 || b[0].Kind != Impolite {
		t.Errorf("%v", b)
	}
}

// What fell out of the pond's log cannot be judged, and the judge says so.
func TestGapsInTheLogAreErrors(t *testing.T) {
	f := honest()
	j := judgeOf(t, f)
	f.served = f.served[2:]
	if err := j.Look(t.Context()); !errors.Is(err, ErrMissed) || !strings.Contains(err.Error(), "answers 1 to 2") {
		t.Errorf("%v", err)
	}
	f.served = []answer{{N: 1, Host: 7}}
	if err := j.Look(t.Context()); err == nil || !strings.Contains(err.Error(), "host 7") {
		t.Errorf("%v", err)
	}
}

func TestManyBreachesAreCounted(t *testing.T) {
	f := honest()
	j := judgeOf(t, f)
	for range maxBreaches + 5 {
		f.violate("robots")
	}
	j.mustLook(t)
	b := j.Breaches()
	if len(b) != maxBreaches+1 || !strings.HasSuffix(b[maxBreaches].String(), "and 5 more") {
		t.Errorf("%d: %v", len(b), b[len(b)-1])
	}
	j.mustLook(t)
	if again := j.Breaches(); len(again) != len(b) {
		t.Errorf("told twice: %v", again[len(again)-1])
	}
}

// A second word about the end of a block must not make it longer.
func TestUnblockedEndsOneBlock(t *testing.T) {
	f := honest()
	j := judgeOf(t, f)
	block(j, at(150), at(160))
	if err := j.Unblocked("h0.test", at(250)); err == nil {
		t.Error("a block ended twice")
	}
	if j.Unblocked("h1.test", at(1)) == nil || j.Blocked("other.test", at(1)) == nil {
		t.Error("a block of a host that is none")
	}
	f.fetch(0, 0, at(200), 3)
	if j.mustLook(t); len(j.Breaches()) != 0 {
		t.Errorf("%v", j.Breaches())
	}
}
