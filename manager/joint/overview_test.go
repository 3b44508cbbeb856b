package joint

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"shoal/channel"
	"shoal/manager"
	"shoal/manager/conduct"
	"shoal/manager/desk"
)

// telling is a manager with an overview, and nothing else.
type telling struct {
	desk.Running
	o manager.Overview
}

func (m *telling) Epoch() channel.Epoch { return 1 }

func (m *telling) Overview() manager.Overview { return m.o }

// suspect is a member with a fault, counted by so many misdeeds.
func suspect(peer string, last time.Time, n int, faults ...conduct.Fault) conduct.Member {
	return conduct.Member{Peer: peer, Since: last, Last: last, Counts: map[conduct.Deed]int{conduct.Gone: n}, Faults: faults}
}

// TestGoneManagersAreNotForgotten: errors by kind, and members to look at, that managers have counted which have gone are shown with those of the others, each once,
// whether a manager went before this one's start or later.
func TestGoneManagersAreNotForgotten(t *testing.T) {
	now := time.Now()
	own := &telling{o: manager.Overview{Errors: map[string]int64{"timeout": 1}, Suspects: []conduct.Member{suspect("p", now, 1, conduct.Contradicted)}, AllSuspects: 1}}
	there := &telling{o: manager.Overview{Errors: map[string]int64{"timeout": 20, "tls": 7}, Suspects: []conduct.Member{suspect("p", now, 20, conduct.Contradicted, conduct.Attracts), suspect("q", now, 5, conduct.Attracts)}, AllSuspects: 2}}
	other := New(Config{Own: there, Me: "other"})
	others, reads, broken := []Other{{Peer: "other"}}, 0, true
	kept := map[string]manager.Overview{
		"other":     {Errors: map[string]int64{"timeout": 19, "tls": 7}, Suspects: []conduct.Member{suspect("p", now, 19, conduct.Contradicted)}, AllSuspects: 1}, // half a minute ago
		"long gone": {Errors: map[string]int64{"timeout": 300}, Suspects: []conduct.Member{suspect("p", now, 300, conduct.Contradicted), suspect("r", now.Add(-30*24*time.Hour), 9, conduct.Contradicted)}, AllSuspects: 2},
	}
	r := New(Config{Own: own, Me: "own", Others: func() []Other { return others },
		Ask: func(ctx context.Context, _ string, req []byte) ([]byte, error) { return other.Answer(ctx, req) },
		Kept: func(context.Context) (map[string]manager.Overview, error) {
			if reads++; broken {
				return nil, errors.New("the database is away")
			}
			return kept, nil
		}})
	shows := func(when string, timeouts, tls int64, misdeeds int, names ...string) {
		t.Helper()
		o := r.Overview()
		var have []string
		for _, m := range o.Suspects {
			have = append(have, m.Name())
		}
		if o.Errors["timeout"] != timeouts || o.Errors["tls"] != tls || !slices.Equal(have, names) || o.Suspects[0].Counts[conduct.Gone] != misdeeds || o.AllSuspects != len(names) {
			t.Errorf("%s: errors %v, %d members to look at: %+v; want %d and %d errors, %v, the first with %d misdeeds", when, o.Errors, o.AllSuspects, o.Suspects, timeouts, tls, names, misdeeds)
		}
	}
	r.look(t.Context())
	shows("while the database is away", 21, 7, 21, "p", "q")
	broken = false
	r.look(t.Context())
	r.look(t.Context())
	shows("with one that went before", 321, 7, 321, "p", "q")
	if reads != 2 {
		t.Errorf("the database was read %d times, though no manager came or went", reads)
	}
	others = nil
	r.look(t.Context())
	shows("when the other is gone too", 321, 7, 320, "p")
	if reads != 3 {
		t.Errorf("the database was read %d times; what a manager that has gone wrote last counts", reads)
	}
	if len(own.o.Errors) != 1 || own.o.Errors["timeout"] != 1 || own.o.Suspects[0].Counts[conduct.Gone] != 1 {
		t.Errorf("this manager's own counts were changed: %+v", own.o)
	}
}

// TestWhatHoldsAllManagersBack says what holds the crawl back of all managers that share a network: at each the same.
func TestWhatHoldsAllManagersBack(t *testing.T) {
	held := func(blocking []string, idle int, h manager.Holds) *telling {
		h.MinInterval = time.Minute
		return &telling{o: manager.Overview{Channels: 50, Threads: 48, Idle: idle, Holds: h, Blocking: blocking}}
	}
	free := manager.Holds{Stale: 5, Under: 2, Free: 3}
	for _, c := range []struct {
		name       string
		a, b       *telling
		kind, want string
	}{
		{"threads of both", held(nil, 28, free), held(nil, 30, manager.Holds{Stale: 24, Under: 4, Soon: 20}), "interval", "10 of 48 threads are idle: of 23 channels missing or probably stale and not being crawled, 20 wait for the minimum interval between two crawls, 1 m"},
		{"an archive alone", held(nil, 28, free), &telling{o: manager.Overview{Threads: 48, Idle: 48}}, "placing", "28 of 48 threads are idle: of 3 channels"},
		{"all work", held(nil, 24, free), held(nil, 24, free), "capacity", "All 48 threads work, and 6 channels wait for one"},
		{"more at some peers than they have threads", held(nil, 4, free), held(nil, 20, free), "capacity", "All 48 threads work"},
		{"one hands nothing out", held(nil, 28, free), held([]string{"disk full"}, 48, manager.Holds{Stale: 9, Halted: 9}), "notice", "9 are with a manager that hands nothing out"},
		{"none hands anything out", held([]string{"disk full"}, 48, manager.Holds{Stale: 3, Halted: 3}), held([]string{"disk full"}, 48, manager.Holds{Stale: 9, Halted: 9}), "", ""},
	} {
		for _, at := range []struct{ own, other *telling }{{c.a, c.b}, {c.b, c.a}} {
			other := New(Config{Own: at.other, Me: "other"})
			r := New(Config{Own: at.own, Me: "own", Others: func() []Other { return []Other{{Peer: "other"}} },
				Ask: func(ctx context.Context, _ string, req []byte) ([]byte, error) { return other.Answer(ctx, req) }})
			r.look(t.Context())
			d, err := desk.Open(t.Context(), desk.Config{Store: struct{ manager.Store }{}, Running: r, Managers: func() ([]desk.Manager, desk.Figures) {
				return []desk.Manager{{Here: true}, {Figures: desk.FiguresOf(at.other.o)}}, desk.Figures{}
			}})
			if err != nil {
				t.Fatal(err)
			}
			if o := d.Overview(); o.Held != c.kind || !strings.Contains(o.HeldBack, c.want) || c.want == "" && o.HeldBack != "" {
				t.Errorf("%s: %s: %q, want %s with %q", c.name, o.Held, o.HeldBack, c.kind, c.want)
			}
		}
	}
}
