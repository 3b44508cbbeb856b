package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"sync"
	"time"

	"shoal/internal/datafile"
	"shoal/internal/lab/pond"
	"shoal/internal/plan"
	"shoal/manager/api"
	"shoal/manager/desk"
	"shoal/recrawl/allocate"
)

type planCmd struct {
	plan.Command
	target
	Tick     *time.Duration `help:"The tick of a stopped manager; a running one tells its own; default 1m, 1s in the pond." placeholder:"TIME"`
	Pages    string         `help:"Plan for the pages of a CSV instead, as shoal-sim allocate reads them: id, model, parameters, weight, min, max." placeholder:"FILE" type:"existingfile"`
	Span     float64        `help:"With --pages: length of the scheduling interval." default:"1"`
	Crawlers int            `help:"With --pages: crawlers of the timetable." default:"1"`
	Phases   bool           `help:"With --pages: begin each page's crawls at a time of its own, so that the timetable moves them little."`
}

func (c *planCmd) Run(ctx context.Context, s streams) (err error) {
	c.Command.JSON = c.target.JSON
	if c.Pages != "" {
		f, err := datafile.Open(c.Pages)
		if err != nil {
			return fmt.Errorf("plan: %w", err)
		}
		defer f.Close()
		ids, pages, err := allocate.ReadPages(f, c.Pages, c.Span)
		if err != nil {
			return err
		}
		return c.Command.Run(ctx, &plan.File{IDs: ids, Pages: pages, Span: c.Span, Crawlers: c.Crawlers, Phases: c.Phases}, s.out, s.err)
	}
	if isTerminal(s.err) {
		p := &steps{w: s.err}
		defer p.end()
		c.Progress = p.show
	}
	var src *plan.Channels
	err = c.client(ctx, false, func(a *api.Client) (err error) {
		src, err = c.channels(ctx, a)
		return err
	})
	if err != nil {
		return err
	}
	return c.Command.Run(ctx, src, s.out, s.err)
}

// channels asks the manager, running or stopped, for all channels with what is known of how they change.
func (c *planCmd) channels(ctx context.Context, a *api.Client) (*plan.Channels, error) {
	if c.Tick != nil && *c.Tick <= 0 {
		return nil, fmt.Errorf("--tick: a tick of %v, want a positive time", *c.Tick)
	}
	r, err := a.Open(ctx, http.MethodGet, "/plan/channels", c.pace(), nil)
	if err != nil {
		return nil, err
	}
	defer r.Body.Close()
	d := json.NewDecoder(r.Body)
	var basis desk.PlanBasis
	if err := d.Decode(&basis); err != nil {
		return nil, fmt.Errorf("read what to plan for: %w", err)
	}
	src := &plan.Channels{Thorough: c.Thorough, Progress: c.Progress, Now: basis.Now, Every: basis.Every, Cap: basis.Cap, Least: basis.MinTicks, Measured: basis.Capacity}
	src.TickS = basis.Tick.Duration().Seconds()
	if tick := basis.Tick.Duration(); tick != time.Minute {
		src.Time = "ticks of " + tick.String()
	}
	for {
		var ch struct {
			desk.PlanChannel
			api.Problem
		}
		if err := d.Decode(&ch); errors.Is(err, io.EOF) {
			return src, nil
		} else if err != nil {
			return nil, fmt.Errorf("read the channels to plan for: %w", err)
		} else if ch.Error != "" {
			return nil, fmt.Errorf("read the channels to plan for: %s", ch.Error)
		}
		it := plan.Channel{ID: ch.Name, Pages: ch.Pages, History: ch.History}
		if err := it.Facts.Restore(ch.Facts); err != nil {
			return nil, fmt.Errorf("channel %d: %w", ch.ID, err)
		}
		src.All = append(src.All, it)
		if c.Progress != nil {
			c.Progress("channels read", len(src.All), max(basis.Channels, len(src.All)))
		}
	}
}

// pace is what a stopped manager does not tell.
func (c *planCmd) pace() url.Values {
	tick, q := time.Minute, url.Values{}
	if data, err := dataOf(c.Data); c.target.Manager == "" && err == nil && crawlsPond(data) {
		tick = pond.Tick
		q.Set("every", fmt.Sprint(pond.PlanEvery))
		q.Set("min_ticks", fmt.Sprint(pond.MinTicks))
	}
	if c.Tick != nil {
		tick = *c.Tick
	}
	q.Set("tick", tick.String())
	return q
}

// steps shows how far a work of several steps is, on one line of a terminal.
type steps struct {
	w     io.Writer
	mu    sync.Mutex
	last  time.Time
	width int
}

func (p *steps) show(what string, done, of int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if now := time.Now(); done == of || now.Sub(p.last) >= progressEvery {
		p.last = now
		line := fmt.Sprintf("%s: %d of %d", what, done, of)
		fmt.Fprintf(p.w, "\r%-*s", p.width, line)
		p.width = len(line)
	}
}

// end clears the line, for what is printed next.
func (p *steps) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.width > 0 {
		fmt.Fprintf(p.w, "\r%*s\r", p.width, "")
		p.width = 0
	}
}
