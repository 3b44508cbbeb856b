// Command shoal-sim runs the experiments: recrawl strategies, the overlay, page orderings, crawl frequencies, timetables, the cycle model and liars,
// in simulated time and on the product's own packages. It draws their figures too. Neither operators nor volunteers need it.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/alecthomas/kong"

	"shoal/cmd/shoal-sim/allocsim"
	"shoal/cmd/shoal-sim/cyclesim"
	"shoal/cmd/shoal-sim/livesim"
	"shoal/cmd/shoal-sim/measurements"
	"shoal/cmd/shoal-sim/ordersim"
	"shoal/cmd/shoal-sim/ordertrial"
	"shoal/cmd/shoal-sim/overlaysim"
	"shoal/cmd/shoal-sim/recrawlsim"
	"shoal/cmd/shoal-sim/scalesim"
	"shoal/cmd/shoal-sim/trustsim"
	"shoal/internal/plain"
	"shoal/internal/version"
)

// streams are what a command may write to; tests hand in their own.
type streams struct {
	out, err io.Writer
}

type cli struct {
	Recrawl  recrawlCmd  `cmd:"" help:"Recrawl strategies over 100,000 minutes: the tables and figures of the paper, and ours."`
	Sweep    sweepCmd    `cmd:"" help:"Recrawl strategies over offered load, crawlers, lifetimes or channels."`
	Ordering orderingCmd `cmd:"" help:"Page orderings on Web graphs."`

	Overlay overlayCmd `cmd:"" help:"The overlay among thousands of peers: where tasks land, hops, queries, recall, beside CAN, greedy forwarding and full membership."`

	Scale scaleCmd `cmd:"" help:"What 64 managers and 1,000,000 peers cost: tasks placed, gossip, the load of database and archive."`

	Allocate  allocateCmd  `cmd:"" help:"Optimal crawl frequencies against uniform and proportional ones; the paper's figures 3, 4 and 6 to 9."`
	Timetable timetableCmd `cmd:"" help:"The exact timetable of millions of crawls; the paper's figure 10."`
	Cycle     cycleCmd     `cmd:"" help:"The bucket model of a crawl cycle; the paper's tables 3 and 4, figures 3 to 6."`

	Live liveCmd `cmd:"" help:"The real network under every recrawl strategy, with pond and peers as processes on loopback, judged by what the pond knows."`

	Trust trustCmd `cmd:"" help:"Peers that lie, against what finds them: forged pages that are kept, what the defence costs, and honest peers that are suspended."`

	OrderingPond orderingPondCmd `cmd:"" help:"Two orders of sites on a pond, by real crawls."`

	Measurements measurementsCmd `cmd:"" help:"What was measured on Shoal, version by version: docs/measurements.csv as a table or as drawings."`

	Version versionCmd `cmd:"" help:"Say which build this is."`
}

type overlayCmd struct{ overlaysim.Command }

func (c *overlayCmd) Run(ctx context.Context, s streams) error { return c.Command.Run(ctx, s.out) }

type scaleCmd struct{ scalesim.Command }

func (c *scaleCmd) Run(ctx context.Context, s streams) error { return c.Command.Run(ctx, s.out, s.err) }

type liveCmd struct{ livesim.Command }

func (c *liveCmd) Run(ctx context.Context, s streams) error { return c.Command.Run(ctx, s.out, s.err) }

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

type trustCmd struct{ trustsim.Command }

func (c *trustCmd) Run(ctx context.Context, s streams) error { return c.Command.Run(ctx, s.out, s.err) }

type measurementsCmd struct{ measurements.Cmd }

func (c *measurementsCmd) Run(ctx context.Context, s streams) error { return c.Cmd.Run(ctx, s.out) }

type versionCmd struct{}

func (versionCmd) Run(s streams) error {
	_, err := fmt.Fprintln(s.out, "shoal-sim", version.String())
	return err
}

func main() {
	ctx, _ := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	os.Exit(run(ctx, os.Args[1:], streams{os.Stdout, os.Stderr}))
}

// run is the program without its process. It returns the exit status: 0 for success, 1 for a failure, 2 for a command line that it does not understand.
func run(ctx context.Context, args []string, s streams) int {
	out := plain.NewOutput(s.out)
	s.out = out
	return out.Exit("shoal-sim", command(ctx, args, s), s.err)
}

// command parses a command line and runs what it says.
func command(ctx context.Context, args []string, s streams) int {
	var c cli
	exited := -1
	parser, err := kong.New(&c,
		kong.Name("shoal-sim"),
		kong.Description("Experiments on Shoal's own packages, in simulated time.\n\nStart with: shoal-sim recrawl --steps 20000"),
		kong.Writers(s.out, s.err),
		kong.WithHyphenPrefixedParameters(true),
		plain.Paths(),
		kong.Exit(func(code int) { exited = code }),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, WrapUpperBound: 110}),
		kong.ValueFormatter(plain.Defaults(nil)),
		kong.BindTo(ctx, (*context.Context)(nil)),
		kong.Bind(s),
	)
	if err != nil {
		fmt.Fprintf(s.err, "shoal-sim: %v\n", err)
		return 1
	}
	if len(args) == 0 {
		args = []string{"--help"}
	}
	k, err := plain.Parse(parser, args)
	if exited >= 0 { // the user asked for help and got it
		return exited
	}
	if err != nil {
		text, help := plain.Usage("shoal-sim", err)
		fmt.Fprintf(s.err, "shoal-sim: %s\nTry: %s\n", text, help)
		return 2
	}
	if err := k.Run(); err != nil && !errors.Is(err, context.Canceled) {
		fmt.Fprintf(s.err, "shoal-sim: %s\n", plain.Error(err))
		return 1
	}
	return 0
}
