package joint

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"shoal/channel"
	"shoal/manager"
	"shoal/manager/desk"
)

// taker is a manager that notes which channels it is told to crawl.
type taker struct {
	desk.Running
	crawled []channel.ID
}

func (m *taker) CrawlNow(_ context.Context, id channel.ID) error {
	m.crawled = append(m.crawled, id)
	return nil
}

func (m *taker) Overview() manager.Overview { return manager.Overview{} }

// oneHost has channels of one host.
type oneHost struct{ Channels }

func (oneHost) Channel(_ context.Context, id channel.ID) (channel.Channel, error) {
	return channel.Channel{ID: id, Scope: channel.Scope{Host: "http://a.example"}}, nil
}

func (m *taker) Events(context.Context, channel.ID) ([]manager.Event, error) {
	return []manager.Event{{Gen: 3, What: "claimed"}}, nil
}

// TestSilentManagersEvents: what happened to a channel at a manager that does not answer is not shown as if it were nothing.
func TestSilentManagersEvents(t *testing.T) {
	silent := true
	r := New(Config{Own: &taker{}, Store: oneHost{}, Me: "own", Owner: func(channel.HostKey) string { return "other" }, Others: func() []Other { return []Other{{Peer: "other", Machine: "m2"}} },
		Ask: func(context.Context, string, []byte) ([]byte, error) {
			if silent {
				return nil, errors.New("it does not answer")
			}
			return json.Marshal(told{Value: json.RawMessage(`[{"Gen":4,"What":"updated"}]`)})
		}})
	got, err := r.Events(t.Context(), 7)
	if err != nil || len(got) != 2 || got[0].What != "claimed" || got[1].What != Unheard || !strings.Contains(got[1].Note, "the manager at m2,") || got[1].At.IsZero() {
		t.Errorf("%+v, %v", got, err)
	}
	silent = false
	if got, err = r.Events(t.Context(), 7); err != nil || len(got) != 1 || got[0].What != "updated" || got[0].Gen != 4 {
		t.Errorf("when it answers: %+v, %v", got, err)
	}
}

// TestOrdersDoNotWaitForTheSilent gives orders for channels of a manager that does not answer: as soon as that is known, none waits for it, and the database has
// them. When it answers again it gets them itself.
func TestOrdersDoNotWaitForTheSilent(t *testing.T) {
	own, asked, silent := &taker{}, 0, true
	r := New(Config{Own: own, Store: oneHost{}, Me: "own", Owner: func(channel.HostKey) string { return "other" }, Others: func() []Other { return []Other{{Peer: "other"}} },
		Ask: func(_ context.Context, _ string, req []byte) ([]byte, error) {
			asked++
			if silent {
				return nil, errors.New("it does not answer")
			}
			return json.Marshal(told{Value: json.RawMessage("{}")})
		}})
	for i, step := range []struct{ asked, here int }{{1, 1}, {0, 2}, {0, 3}} {
		if i == 1 {
			r.look(t.Context())
		}
		asked = 0
		if err := r.CrawlNow(t.Context(), 7); err != nil || asked != step.asked || len(own.crawled) != step.here {
			t.Errorf("order %d: the silent manager was asked %d times, %d orders are in the database; %v", i, asked, len(own.crawled), err)
		}
	}
	silent = false
	r.look(t.Context())
	asked = 0
	if err := r.CrawlNow(t.Context(), 7); err != nil || asked != 1 || len(own.crawled) != 3 {
		t.Errorf("it answers again: asked %d times, %d orders in the database; %v", asked, len(own.crawled), err)
	}
}
