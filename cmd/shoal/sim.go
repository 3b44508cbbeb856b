package main

import (
	"context"

	"shoal/internal/pond/ordertrial"
	"shoal/internal/sim/allocsim"
	"shoal/internal/sim/cyclesim"
	"shoal/internal/sim/ordersim"
	"shoal/internal/sim/overlaysim"
	"shoal/internal/sim/recrawlsim"
)

type simCmd struct {
	Recrawl  recrawlCmd  `cmd:"" help:"Recrawl strategies over 100,000 minutes: the tables and figures of the paper, and ours."`
	Sweep    sweepCmd    `cmd:"" help:"Recrawl strategies over offered load, crawlers, lifetimes or channels."`
	Ordering orderingCmd `cmd:"" help:"Page orderings on Web graphs."`

	Overlay overlayCmd `cmd:"" help:"The overlay among thousands of peers: where tasks land, hops, queries, recall, beside CAN, greedy forwarding and full membership."`

	Allocate  allocateCmd  `cmd:"" help:"Optimal crawl frequencies against uniform and proportional ones; the paper's figures 3, 4 and 6 to 9."`
	Timetable timetableCmd `cmd:"" help:"The exact timetable of millions of crawls; the paper's figure 10."`
	Cycle     cycleCmd     `cmd:"" help:"The bucket model of a crawl cycle; the paper's tables 3 and 4, figures 3 to 6."`

	OrderingPond orderingPondCmd `cmd:"" help:"Two orders of sites on a pond, by real crawls."`
}

type overlayCmd struct{ overlaysim.Command }

func (c *overlayCmd) Run(ctx context.Context, s streams) error { return c.Command.Run(ctx, s.out) }

type recrawlCmd struct{ recrawlsim.Command }

func (c *recrawlCmd) Run(ctx context.Context, s streams) error {
	return c.Command.Run(ctx, s.out, s.err)
}

type sweepCmd struct{ recrawlsim.Sweep }

func (c *sweepCmd) Run(ctx context.Context, s streams) error { return c.Sweep.Run(ctx, s.out, s.err) }

type orderingCmd struct{ ordersim.Cmd }

func (c *orderingCmd) Run(ctx context.Context, s streams) error { return c.Cmd.Run(ctx, s.out, s.err) }

type orderingPondCmd struct{ ordertrial.Cmd }

func (c *orderingPondCmd) Run(ctx context.Context, s streams) error {
	return c.Cmd.Run(ctx, s.out, s.err)
}

type allocateCmd struct{ allocsim.Allocate }

func (c *allocateCmd) Run(ctx context.Context, s streams) error {
	return c.Allocate.Run(ctx, s.out, s.err)
}

type timetableCmd struct{ allocsim.Timetable }

func (c *timetableCmd) Run(ctx context.Context, s streams) error {
	return c.Timetable.Run(ctx, s.out, s.err)
}

type cycleCmd struct{ cyclesim.Cmd }

func (c *cycleCmd) Run(ctx context.Context, s streams) error { return c.Cmd.Run(ctx, s.out, s.err) }
