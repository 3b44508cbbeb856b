package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"shoal/channel"
	"shoal/channel/badgerdb"
	"shoal/internal/member"
	"shoal/internal/plan"
	"shoal/manager"
	"shoal/recrawl"
	"shoal/recrawl/allocate"
)

type planCmd struct {
	plan.Command
	Data     string        `help:"The manager's data folder. The manager must not be running: its database has one user at a time." default:"${data}" type:"path" placeholder:"DIR"`
	Tick     time.Duration `help:"The manager's tick." default:"1m"`
	Pages    string        `help:"Plan for the pages of a CSV instead: id, model, parameters, weight, min, max." placeholder:"FILE" type:"existingfile"`
	Span     float64       `help:"With --pages: length of the scheduling interval." default:"1"`
	Crawlers int           `help:"With --pages: crawlers of the timetable." default:"1"`
}

func (c *planCmd) Run(ctx context.Context, s streams) (err error) {
	if c.Pages != "" {
		f, err := os.Open(c.Pages)
		if err != nil {
			return fmt.Errorf("plan: %w", err)
		}
		defer f.Close()
		ids, pages, err := allocate.ReadPages(f, c.Pages, c.Span)
		if err != nil {
			return err
		}
		return c.Command.Run(ctx, &plan.File{IDs: ids, Pages: pages, Span: c.Span, Crawlers: c.Crawlers}, s.out, s.err)
	}
	src, err := c.channels(ctx)
	if err != nil {
		return err
	}
	return c.Command.Run(ctx, src, s.out, s.err)
}

// channels reads the database of a manager that is not running.
func (c *planCmd) channels(ctx context.Context) (src *plan.Channels, err error) {
	dir := filepath.Join(c.Data, "channels")
	if _, err := os.Stat(dir); errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("there is no channel database in %s: name the manager's data folder with --data, or plan for a file with --pages", c.Data)
	}
	keys, err := member.LoadOrCreate(filepath.Join(c.Data, "keys"), time.Now())
	if err != nil {
		return nil, err
	}
	cfg := badgerdb.Default(dir)
	cfg.Network = keys.Network
	db, err := badgerdb.Open(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("open the channel database (is the manager still running?): %w", err)
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	src = &plan.Channels{}
	if c.Tick != time.Minute {
		src.Time = "ticks of " + c.Tick.String()
	}
	err = manager.ReadFacts(ctx, db, c.Tick, time.Now(), func(tick recrawl.Tick, ch channel.Channel, f recrawl.Facts) error {
		id := ch.Scope.Host
		if len(ch.Scope.Dirs) > 0 {
			id += ch.Scope.Dirs[0]
		}
		src.Now = tick
		src.All = append(src.All, plan.Channel{ID: id, Pages: ch.Learnt.Pages, Facts: f})
		return nil
	})
	return src, err
}
