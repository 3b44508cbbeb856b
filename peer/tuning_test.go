package peer

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"shoal/peer/crawl"
	"shoal/peer/queue"
)

// TestGiveRefused refuses hosts while tasks of them run and wait: what runs ends, with what was fetched, what waits is given back, and tasks of
// other hosts go on.
func TestGiveRefused(t *testing.T) {
	s := open(t, plain(60))
	v := newValve(12)
	var denied atomic.Value
	denied.Store("nothing")
	a, _ := s.agent(t.TempDir(), func(c *Config) {
		c.Threads, c.Queue = 1, 3
		c.Refuse = func(host string) error {
			if strings.Contains(denied.Load().(string), host) {
				return errors.New("this volunteer does not fetch it")
			}
			return nil
		}
		v.on(c)
	})
	hosts := s.world.Hosts()
	first, second, third := s.place(0), s.place(1), s.place(2)
	s.until("some pages", func() bool { return a.Status().Counters.Pages >= 10 && len(a.Status().Waiting) == 2 })
	denied.Store("http://" + hosts[0].Name + " http://" + hosts[1].Name)
	a.GiveRefused(t.Context())
	v.open()
	s.until("the third is crawled", s.look(third, reported))
	s.until("the others are gone", func() bool {
		c := a.Status().Counters
		return a.tasks.empty() && c.GivenBack == 1 && c.Stopped == 1
	})
	if !s.look(first, func(c *stored) bool { return c.released == 1 && len(c.pages) >= 5 && len(c.reports) == 0 })() {
		t.Error("what ran was not released with its pages")
	}
	if !s.look(second, func(c *stored) bool { return c.released == 1 && len(c.pages) == 0 })() {
		t.Error("what waited was not given back")
	}
}

// TestTune changes what counts for crawls that begin afterwards.
func TestTune(t *testing.T) {
	s := open(t, plain(5))
	a, _ := s.agent(t.TempDir(), nil)
	was := *a.tuned.Load()
	was.MinGap, was.Grace = 5*time.Millisecond, 3*time.Second
	a.Tune(was)
	if err := a.SetLimits(2, 1); err != nil || a.tasks.threads() != 2 {
		t.Error(err, a.tasks.threads())
	}
	s.until("a report", s.look(s.place(0), reported))
	if d := a.ClockOffset(); d.Abs() > time.Minute {
		t.Error(d)
	}
}

// TestSites adds up the record of fetches by site, and finds words of titles in any case.
func TestSites(t *testing.T) {
	j, err := OpenJournal(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	at := time.Now().Add(-time.Hour).Truncate(time.Second)
	for i, x := range []struct {
		url, title string
		status     int
	}{{"https://A.example/1", "Über <Fische> & Netze", 200}, {"https://a.example/2", "Other", 404}, {"https://a.example/3", "", 0}, {"http://b.example:8080/", "fish", 200}} {
		j.visit("net", visitOf(x.url, x.title, x.status, at.Add(time.Duration(i)*time.Minute)))
	}
	list, all, err := j.Sites(Want{})
	if err != nil || all != 2 || len(list) != 2 || list[0].Site != "a.example" || list[0].Pages != 2 || list[0].Failed != 1 || list[0].Bytes != 30 || !list[0].First.Equal(at) || list[1].Site != "b.example:8080" {
		t.Errorf("%+v %d %v", list, all, err)
	}
	if list, all, _ := j.Sites(Want{Newest: 1}); len(list) != 1 || all != 2 {
		t.Errorf("%+v %d", list, all)
	}
	for match, want := range map[string]int{"über": 1, "<FISCHE> &": 1, "FISH": 1, "a.EXAMPLE": 3, "none": 0, "": 4} {
		if got, err := j.Log(Want{Match: match}); len(got) != want || err != nil {
			t.Errorf("%q: %d lines, want %d, %v", match, len(got), want, err)
		}
	}
	if got, _ := j.Log(Want{Site: "a.example", Since: at.Add(time.Minute), Until: at.Add(2 * time.Minute)}); len(got) != 1 || got[0].Status != 404 {
		t.Errorf("%+v", got)
	}
}

func visitOf(url, title string, status int, at time.Time) crawl.Visit {
	return crawl.Visit{URL: url, Title: title, Status: status, At: at, Bytes: 10}
}

// TestModeIsWhatItsVolunteerWants: while a limit holds an agent, its status says what its volunteer wants: else there would be a pause to end that nobody has asked for.
func TestModeIsWhatItsVolunteerWants(t *testing.T) {
	a, err := New(Config{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	is := func(when, mode, hold string) {
		t.Helper()
		if st := a.Status(); st.Mode != mode || st.Hold != hold {
			t.Errorf("%s: mode %s, held by %q, want %s, %q", when, st.Mode, st.Hold, mode, hold)
		}
	}
	a.Hold("on battery")
	is("held", "open", "on battery")
	a.SetMode(queue.Paused, time.Time{})
	is("paused too", "paused", "on battery")
	a.SetMode(queue.Paused, time.Now().Add(-time.Second))
	is("the pause is over", "open", "on battery")
	a.SetMode(queue.Drain, time.Time{})
	is("drained", "drain", "on battery")
	a.SetMode(queue.Open, time.Time{})
	a.Hold("")
	is("in the end", "open", "")
}
