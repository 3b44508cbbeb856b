package desk

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

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
	Out     bool       `json:"out"`                    // a peer crawls it, or is about to
	Awaited time.Time  `json:"awaited_until,omitzero"` // it is about to, and the channel is handed out anew unless one begins until then
	Last    string     `json:"last_result,omitempty"`
	Error   string     `json:"last_error,omitempty"`
	Failed  int        `json:"failed_in_a_row,omitempty"`
	Left    int        `json:"failures_left,omitempty"` // failed crawls more, and it is given up; 0: it is not going to be
	Pages   int        `json:"pages"`
	Visits  int        `json:"updates"`
	Changes int        `json:"updates_with_changes"`
	Updated time.Time  `json:"updated,omitzero"` // zero: never
	Due     time.Time  `json:"next,omitzero"`    // zero: as soon as there is room, or never
	Group   int        `json:"group"`            // 1 is the fastest; 0: not known, as the manager is stopped
	Every   Seconds    `json:"changes_every_s,omitempty"`
	Model   string     `json:"update_model,omitempty"` // how it changes, and why the manager thinks so
	Doubt

	// Delivered says whose deliveries the stored pages are, those with the most pages first. In a list of channels there is none.
	Delivered []manager.Credit `json:"delivered,omitempty"`
}

// Crediting is an archive that tells who delivered the pages of a channel.
type Crediting interface {
	Credits(ctx context.Context, id channel.ID, n int) ([]manager.Credit, error)
}

const mostCredited = 10 // peers that are named with a channel

// The states of a Row.
const (
	Failing = "failing"  // its last crawl failed, or its host refused it; it is tried again
	GivenUp = "given up" // too many failed; an operator may resume it
	Blocked = "blocked"  // its host is
	Paused  = "paused"   // by an operator
	New     = "new"      // never crawled
	Active  = "active"
)

// States are all of them, those first that ask for an operator.
func States() []string { return []string{Failing, GivenUp, Blocked, Paused, New, Active} }

// Rests reports whether it is not crawled until an operator resumes it.
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
	query = hostPart(query)
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

// hostPart is the part of a host's name that a search means: names are kept in lower case and as the DNS has them, and who looks for a site may have its whole URL.
func hostPart(text string) string {
	text = strings.ToLower(strings.TrimSpace(text))
	scheme, name, any := strings.Cut(text, "://")
	if !any {
		scheme, name = "", text
	}
	if name, _, _ = strings.Cut(name, "/"); name == "" {
		return text
	}
	if strings.ContainsFunc(name, func(r rune) bool { return r > unicode.MaxASCII }) {
		if u, err := channel.Canonical("https://" + name + "/"); err == nil {
			name = strings.TrimPrefix(channel.Origin(u), "https://")
		}
	}
	if any {
		return scheme + "://" + name
	}
	return name
}

// Find says which channels are listed, and in which order.
type Find struct {
	Text    string // part of the host, with or without scheme
	State   string // one of States; empty: any
	Sort    string // one of Sorts; empty: as they come
	From, N int
}

// Sorts are the orders of a list: by state, those first that ask for an operator; by host; the latest update first; the most pages first.
func Sorts() []string { return []string{"state", "host", "updated", "pages"} }

// Rows lists channels: n from the from-th on, and how many there are.
func (d *Desk) Rows(ctx context.Context, find Find) (rows []Row, total int, err error) {
	if find.State != "" && !slices.Contains(States(), find.State) {
		return nil, 0, asks("no state %q: want %s", find.State, strings.Join(States(), ", "))
	}
	if find.Sort != "" && !slices.Contains(Sorts(), find.Sort) {
		return nil, 0, asks("no order %q: want %s", find.Sort, strings.Join(Sorts(), ", "))
	}
	ctx, cancel := context.WithTimeout(ctx, viewTimeout)
	defer cancel()
	if d.m == nil || find.State != "" || find.Sort != "" {
		rows, total, err = d.search(ctx, find)
	} else {
		rows, total, err = d.page(ctx, find)
	}
	if errors.Is(err, context.DeadlineExceeded) {
		err = asks("the channels were not looked through within %v, as they are very many or the computer is busy: try again, or search for a part of the host's name", viewTimeout)
	}
	return rows, total, err
}

// page reads rows of a running manager as they come.
func (d *Desk) page(ctx context.Context, find Find) (rows []Row, total int, err error) {
	var ids []channel.ID
	if find.Text != "" {
		ids, total, err = d.store.Matching(ctx, hostPart(find.Text), find.From, find.N)
	} else {
		ids, total, err = d.m.IDs(ctx, find.From, find.N)
	}
	if err != nil {
		return nil, 0, err
	}
	rows, err = d.rows(ctx, ids)
	return rows, total, err
}

// rows reads those that are still there.
func (d *Desk) rows(ctx context.Context, ids []channel.ID) ([]Row, error) {
	var chs []channel.Channel
	for _, id := range ids {
		ch, err := d.store.Channel(ctx, id)
		switch {
		case errors.Is(err, channel.ErrUnknown): // removed meanwhile
		case err != nil:
			return nil, err
		default:
			chs = append(chs, ch)
		}
	}
	return d.rowsOf(ctx, chs)
}

// rowsOf shows channels that were read.
func (d *Desk) rowsOf(ctx context.Context, chs []channel.Channel) ([]Row, error) {
	rows := make([]Row, 0, len(chs))
	if d.m == nil {
		for i := range chs {
			why, err := manager.WhyBlocked(ctx, d.store, chs[i].Scope.Host)
			if err != nil {
				return nil, err
			}
			rows = append(rows, rowOf(&chs[i], why))
		}
		return rows, nil
	}
	ins, err := d.m.Inspect(ctx, chs)
	if err != nil {
		return nil, err
	}
	for i := range chs {
		if in := &ins[i]; in.Known {
			ch := chs[i]
			ch.State, ch.Reason, ch.Learnt.Out = in.State, in.Reason, in.Out
			r := rowOf(&ch, in.Blocked)
			r.Group, r.Every, r.Due, r.Awaited, r.Doubt = in.Group+1, Seconds(in.Every), in.Due, in.Awaited, Doubt{in.Doubt.Until, in.Doubt.Views}
			if r.State == Failing && r.Failed > 0 && in.Limit > 0 {
				r.Left = in.Limit - r.Failed%in.Limit
			}
			rows = append(rows, r)
		} else if d.cfg.Managers != nil { // another manager's
			why, err := manager.WhyBlocked(ctx, d.store, chs[i].Scope.Host)
			if err != nil {
				return nil, err
			}
			rows = append(rows, rowOf(&chs[i], why))
		}
	}
	return rows, nil
}

// search looks through all channels.
func (d *Desk) search(ctx context.Context, find Find) ([]Row, int, error) {
	type hit struct {
		id            channel.ID
		host          string
		state         string
		pages, visits int
		updated       time.Time
	}
	var hits []hit
	var part []channel.Channel
	flush := func() error {
		rows, err := d.rowsOf(ctx, part)
		for _, r := range rows {
			if find.State == "" || r.State == find.State {
				hits = append(hits, hit{r.ID, r.Host, r.State, r.Pages, r.Visits, r.Updated})
			}
		}
		part = part[:0]
		return err
	}
	err := d.Each(ctx, find.Text, func(ch *channel.Channel) error {
		if part = append(part, *ch); len(part) < batch {
			return nil
		}
		return flush()
	})
	if err = errors.Join(err, flush()); err != nil {
		return nil, 0, err
	}
	order := map[string]func(a, b hit) int{
		"state":   func(a, b hit) int { return slices.Index(States(), a.state) - slices.Index(States(), b.state) },
		"host":    func(a, b hit) int { return strings.Compare(a.host, b.host) },
		"updated": func(a, b hit) int { return b.updated.Compare(a.updated) },
		"pages":   func(a, b hit) int { return b.pages - a.pages },
	}[find.Sort]
	if order != nil {
		slices.SortStableFunc(hits, order)
	}
	from := min(find.From, len(hits))
	var ids []channel.ID
	for _, h := range hits[from:min(from+find.N, len(hits))] {
		ids = append(ids, h.id)
	}
	rows, err := d.rows(ctx, ids)
	return rows, len(hits), err
}

// Row is one channel with what happened to it, the latest first.
func (d *Desk) Row(ctx context.Context, id channel.ID) (Row, []Event, error) {
	ch, err := d.store.Channel(ctx, id)
	if err != nil {
		return Row{}, nil, err
	}
	rows, err := d.rowsOf(ctx, []channel.Channel{ch})
	if err == nil && (len(rows) == 0 || ch.State == channel.Removed) {
		err = fmt.Errorf("%w: %d", channel.ErrUnknown, id)
	}
	if err != nil {
		return Row{}, nil, err
	}
	r := rows[0]
	if a, ok := d.files.(Crediting); ok {
		if r.Delivered, err = a.Credits(ctx, id, mostCredited); err != nil {
			return r, nil, err
		}
	}
	events := []Event{}
	if d.m == nil {
		var f recrawl.Facts
		if len(ch.Learnt.EstimatorBlob) > 0 && f.Restore(ch.Learnt.EstimatorBlob) == nil { // the manager tells of a damaged record when it starts
			r.Model = recrawl.DescribeModel(ch.Learnt.History, &f, recrawl.PlanDay, func(ticks float64) string { return fmt.Sprintf("%.4g ticks", ticks) })
		}
		kept, err := manager.KeptEvents(ctx, d.store, id)
		for _, e := range kept {
			events = append(events, Event(e))
		}
		return r, events, err
	}
	if r.Model, err = d.m.Explain(ctx, &ch); err != nil {
		return r, nil, err
	}
	told, err := d.m.Events(ctx, id)
	for _, e := range told {
		events = append(events, Event(e))
	}
	return r, events, err
}

// rowOf shows a channel; blocked is why its host is.
func rowOf(ch *channel.Channel, blocked string) Row {
	l := &ch.Learnt
	r := Row{ID: ch.ID, Host: ch.Scope.Host, Scope: scopeWords(ch.Scope), State: Active, Reason: ch.Reason,
		Pages: l.Pages, Visits: l.Visits, Changes: l.Changes, Updated: l.Updated, Out: l.Out, Error: l.LastError, Failed: l.Failed}
	if l.LastOutcome != 0 {
		r.Last = manager.OutcomeWord(l.LastOutcome)
	}
	switch {
	case ch.State == channel.Marked:
		r.State = GivenUp
	case blocked != "":
		r.State, r.Reason = Blocked, blocked
	case ch.State == channel.Paused:
		r.State = Paused
	case l.Failed > 0, l.LastOutcome == channel.HostBlocked:
		r.State, r.Reason = Failing, l.LastError
	case l.Visits == 0:
		r.State = New
	}
	return r
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
