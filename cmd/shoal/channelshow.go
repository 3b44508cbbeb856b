package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"shoal/channel"
	"shoal/internal/plain"
	"shoal/manager"
	"shoal/manager/api"
	"shoal/manager/desk"
)

type channelListCmd struct {
	target
	Query string `arg:"" optional:"" help:"Part of the host's name."`
	State string `help:"In this state only: ${states}." placeholder:"STATE"`
	Sort  string `help:"Order: ${sorts}; by default as they come." placeholder:"ORDER"`
	From  int    `help:"Skip so many." placeholder:"N"`
	N     int    `short:"n" help:"At most so many." default:"50" placeholder:"N"`
}

func (c *channelListCmd) Run(ctx context.Context, s streams) error {
	if err := errors.Join(atLeast("--from", c.From, 0), atLeast("-n", c.N, 1)); err != nil {
		return err
	}
	q := url.Values{"q": {c.Query}, "state": {c.State}, "sort": {c.Sort}, "from": {strconv.Itoa(c.From)}, "n": {strconv.Itoa(c.N)}}
	return c.with(ctx, false, func(a *api.Client) error {
		var rows api.Rows
		if err := a.Do(ctx, http.MethodGet, "/channels", q, nil, &rows); err != nil {
			return err
		}
		w := tabwriter.NewWriter(s.out, 0, 8, 2, ' ', 0)
		fmt.Fprintln(w, "ID\tSTATE\tCHANNEL\tLAST RESULT\tREASON\tPAGES\tUPDATES\tUPDATED\tNEXT")
		for _, r := range rows.Channels {
			fmt.Fprintf(w, "%d\t%s\t%s\t%s\t%s\t%d\t%d\t%s\t%s\n", r.ID, r.State, strings.TrimSpace(r.Host+" "+r.Scope), lastResult(r), plain.Printable(r.Reason), r.Pages, r.Visits, when(r.Updated), nextCrawl(r))
		}
		if err := w.Flush(); err != nil {
			return err
		}
		switch more := rows.Total - rows.From - len(rows.Channels); {
		case more > 0:
			fmt.Fprintf(s.err, "%d more: --from %d\n", more, rows.From+len(rows.Channels))
		case rows.Total == 0 && c.State != "":
			fmt.Fprintf(s.err, "No such channel is %s.\n", c.State)
		case rows.Total == 0 && c.Query != "":
			fmt.Fprintf(s.err, "No channel's host has %q in its name.\n", c.Query)
		case rows.Total == 0:
			fmt.Fprintln(s.err, "There are no channels yet: shoal channel add https://example.org/")
		case len(rows.Channels) == 0:
			fmt.Fprintf(s.err, "There are only %d.\n", rows.Total)
		}
		return nil
	})
}

func when(t time.Time) string {
	if t.IsZero() {
		return "never"
	}
	return t.Local().Format(time.DateTime)
}

type channelShowCmd struct {
	target
	ids
}

func (c *channelShowCmd) Run(ctx context.Context, s streams) error {
	return c.with(ctx, false, func(a *api.Client) error {
		return c.each(ctx, a, func(id channel.ID) error {
			path := fmt.Sprintf("/channels/%d", id)
			var d api.Detail
			if err := a.Do(ctx, http.MethodGet, path, nil, nil, &d); err != nil {
				return err
			}
			return showChannel(s.out, d)
		})
	})
}

func showChannel(out io.Writer, d api.Detail) error {
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	line := func(name string, v any) { fmt.Fprintf(w, "%s\t%v\n", name, v) }
	r := d.Row
	line("channel", d.Channel.ID)
	line("host", d.Channel.Host)
	if len(d.Channel.Dirs) > 0 {
		line("directories", strings.Join(d.Channel.Dirs, " "))
	}
	state := r.State
	if r.Reason != "" {
		state += ": " + plain.Printable(r.Reason)
	}
	line("state", state)
	line("seeds", strings.Join(append([]string{d.Channel.URL}, d.Channel.Seeds...), "\n\t"))
	for name, v := range map[string][]string{"filters": d.Channel.Filters, "exclude": d.Channel.Exclude} {
		if len(v) > 0 {
			line(name, strings.Join(v, "\n\t"))
		}
	}
	if d.Channel.Weight != 0 {
		line("weight", d.Channel.Weight)
	}
	if d.Channel.Order != "" {
		line("order", d.Channel.Order)
	}
	if d.Channel.Pages != 0 {
		line("pages of a task", d.Channel.Pages)
	}
	line("pages stored", r.Pages)
	line("updates", fmt.Sprintf("%d, of which %d found changes", r.Visits, r.Changes))
	line("updated", when(r.Updated))
	if next := nextCrawl(r); next != "" {
		line("next", next)
	}
	if r.Out && !r.Awaited.IsZero() {
		line("", fmt.Sprintf("a peer has the task; if none begins in time, another one gets it (at once with shoal channel crawl-now %d)", r.ID))
	}
	if r.Every > 0 {
		line("changes every", plain.Span(r.Every.Duration()))
	}
	if r.Model != "" {
		line("update model", r.Model)
	}
	if r.Last != "" {
		line("last result", lastResult(r))
	}
	if why := r.Doubted(); why != "" {
		line("in doubt", why)
	}
	if r.Left > 0 {
		line("given up", fmt.Sprintf("after %d more failed crawls in a row", r.Left))
	}
	for i, by := range r.Delivered {
		name := ""
		if i == 0 {
			name = "delivered by"
		}
		line(name, deliveredBy(by))
	}
	for _, e := range d.Events {
		fmt.Fprintf(w, "%s\tgeneration %d %s %s\n", e.At.Local().Format(time.DateTime), e.Gen, e.What, plain.Printable(e.Note))
	}
	return w.Flush()
}

// deliveredBy says what one peer has delivered of a channel.
func deliveredBy(c manager.Credit) string {
	who := c.Deliverer
	if who == "" {
		who = "someone before that was kept"
	}
	if c.Peer != "" {
		who += " (" + plain.Printable(c.Peer) + ")"
	}
	text := fmt.Sprintf("%s: %s, last %s", who, plain.Count(c.Pages, "page"), when(c.Last))
	if c.Verified > 0 {
		text += fmt.Sprintf("; %d verified", c.Verified)
	}
	if c.Shows > 0 {
		text += fmt.Sprintf("; %d show the address of a volunteer", c.Shows)
	}
	return text
}

// lastResult says how the last task ended, and how often in a row.
func lastResult(r desk.Row) string {
	if r.Failed > 1 {
		return fmt.Sprintf("%s %d times in a row", r.Last, r.Failed)
	}
	return r.Last
}

// nextCrawl says when a channel is crawled; empty: not before an operator wants it.
func nextCrawl(r desk.Row) string {
	switch {
	case r.Out && !r.Awaited.IsZero():
		return "begins by " + when(r.Awaited)
	case r.Out:
		return "out now"
	case r.Rests() || r.State == desk.Blocked:
		return ""
	case r.Due.IsZero():
		return "when there is room"
	}
	return when(r.Due)
}
