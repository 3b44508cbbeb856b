package joint

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"shoal/manager"
	"shoal/manager/conduct"
	"shoal/manager/desk"
)

// telling is a manager with an overview, and nothing else.
type telling struct {
	desk.Running
	o manager.Overview
}

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
