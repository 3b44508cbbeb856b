package desk

import (
	"context"
	"fmt"
	"strings"
	"time"

	"shoal/channel"
	"shoal/manager"
	"shoal/recrawl"
)

// Row is one channel in a list.
type Row struct {
	ID      channel.ID `json:"id"`
	Host    string     `json:"host"`
	Scope   string     `json:"scope,omitempty"` // its directory, or how many it has; empty: the whole host
	State   string     `json:"state"`
	Reason  string     `json:"reason,omitempty"`
	Out     bool       `json:"out"` // a peer crawls it, or is about to
	Last    string     `json:"last_result,omitempty"`
	Error   string     `json:"last_error,omitempty"`
	Failed  int        `json:"failed_in_a_row,omitempty"`
	Left    int        `json:"failures_left,omitempty"` // failed crawls more, and it is given up; 0: it is not going to be
	Pages   int        `json:"pages"`
	Visits  int        `json:"updates"`
	Changes int        `json:"updates_with_changes"`
	Updated time.Time  `json:"updated"`
	Due     time.Time  `json:"next"` // zero: as soon as there is room, or never
	Group   int        `json:"group"`
	Every   Seconds    `json:"changes_every_s,omitempty"`
	Model   string     `json:"update_model,omitempty"` // how it changes, and why the manager thinks so
}

// The states of a Row.
const (
	Active  = "active"
	Paused  = "paused"
	GivenUp = "given up"
	Blocked = "blocked" // its host is
	Removed = "removed"
)

// Rests tells whether an operator has to resume it before it is crawled again.
func (r Row) Rests() bool { return r.State == Paused || r.State == GivenUp }

// Event is one thing that happened to a channel.
type Event struct {
	At   time.Time   `json:"at"`
	Gen  channel.Gen `json:"generation"`
	What string      `json:"what"`
	Peer string      `json:"peer,omitempty"`
	Note string      `json:"note,omitempty"`
}

const viewTimeout = 20 * time.Second // names of millions of hosts are looked through

// Each calls f for the channels whose host, with or without scheme, holds the query, in the order of their ids, until it returns an error.
func (d *Desk) Each(ctx context.Context, query string, f func(*channel.Channel) error) error {
	after := channel.ID(0)
	for {
		chs, err := d.store.List(ctx, after, batch)
		if err != nil || len(chs) == 0 {
			return err
		}
		for i := range chs {
			after = chs[i].ID
			if chs[i].State == channel.Removed || !strings.Contains(chs[i].Scope.Host, query) {
				continue
			}
			if err := f(&chs[i]); err != nil {
				return err
			}
		}
	}
}

// Rows lists channels whose host holds the query: n from the from-th on, and how many there are.
func (d *Desk) Rows(ctx context.Context, query string, from, n int) (rows []Row, total int, err error) {
	ctx, cancel := context.WithTimeout(ctx, viewTimeout)
	defer cancel()
	rows = []Row{}
	if d.m == nil {
		err = d.Each(ctx, query, func(ch *channel.Channel) error {
			if total >= from && len(rows) < n {
				rows = append(rows, rowOf(ch))
			}
			total++
			return nil
		})
		return rows, total, err
	}
	var ids []channel.ID
	if query != "" {
		ids, total, err = d.store.Matching(ctx, query, from, n)
	} else {
		ids, total, err = d.m.IDs(ctx, from, n)
	}
	if err != nil {
		return nil, 0, err
	}
	for _, id := range ids {
		if r, _, err := d.Row(ctx, id); err == nil { // else it was removed meanwhile
			rows = append(rows, r)
		}
	}
	return rows, total, nil
}

// Row is one channel with what happened to it, the latest first.
func (d *Desk) Row(ctx context.Context, id channel.ID) (Row, []Event, error) {
	ch, err := d.store.Channel(ctx, id)
	if err != nil {
		return Row{}, nil, err
	}
	r := rowOf(&ch)
	if d.m == nil {
		var f recrawl.Facts
		if len(ch.Learnt.EstimatorBlob) > 0 && f.Restore(ch.Learnt.EstimatorBlob) == nil { // the manager tells of a damaged record when it starts
			r.Model = recrawl.DescribeModel(ch.Learnt.History, &f, recrawl.PlanDay)
		}
		return r, []Event{}, nil
	}
	in, ok, err := d.m.Inspect(ctx, &ch)
	if err == nil && !ok {
		err = fmt.Errorf("%w: %d", channel.ErrUnknown, id)
	}
	if err != nil {
		return Row{}, nil, err
	}
	r.live(&in)
	events := make([]Event, len(in.Events))
	for i, e := range in.Events {
		events[i] = Event(e)
	}
	return r, events, nil
}

// rowOf is what the database alone tells of a channel.
func rowOf(ch *channel.Channel) Row {
	l := &ch.Learnt
	r := Row{ID: ch.ID, Host: ch.Scope.Host, Scope: scopeWords(ch.Scope), State: stateWord(ch.State), Reason: ch.Reason,
		Pages: l.Pages, Visits: l.Visits, Changes: l.Changes, Updated: l.Updated, Out: l.Out, Error: l.LastError, Failed: l.Failed}
	if l.LastOutcome != 0 {
		r.Last = manager.OutcomeWord(l.LastOutcome)
	}
	return r
}

// live adds what a running manager knows better.
func (r *Row) live(in *manager.Inspection) {
	r.Group, r.Every, r.Model, r.Updated, r.Due, r.Out = in.Group, Seconds(in.Every), in.Model, in.Updated, in.Due, in.Out
	r.State, r.Reason = Active, ""
	switch {
	case in.State == channel.Marked:
		r.State, r.Reason = GivenUp, in.Reason
	case in.Blocked != "":
		r.State, r.Reason = Blocked, in.Blocked
	case in.Paused:
		r.State, r.Reason = Paused, in.Reason
	}
	if r.Failed > 0 && r.State == Active && in.Limit > 0 {
		r.Left = in.Limit - r.Failed%in.Limit
	}
}

func stateWord(s channel.State) string {
	switch s {
	case channel.Paused:
		return Paused
	case channel.Marked:
		return GivenUp
	case channel.Removed:
		return Removed
	}
	return Active
}

func scopeWords(s channel.Scope) string {
	switch s.Kind {
	case channel.WholeHost:
		return ""
	case channel.Directory:
		return s.Dirs[0]
	default:
		return fmt.Sprintf("%d directories", len(s.Dirs))
	}
}
