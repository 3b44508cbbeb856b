// Package trustsim is `shoal-sim trust`: peers that lie, in eleven ways, against the product's own package manager/trust and its comparison of pages. Pages,
// peers and times are simulated; every score, audit, state and withdrawal is the product's.
//
// The simulated Web says nothing about how often real pages change or fail: its rates are stated in world.go and peers.go, and --trouble multiplies what
// honest peers suffer.
package trustsim

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"sync"
	"text/tabwriter"

	"shoal/cmd/shoal-sim/figure"
	"shoal/cmd/shoal-sim/tidy"
	"shoal/manager/trust"
)

// ErrFlags says that the flags cannot be used.
var ErrFlags = errors.New("trustsim: unusable flags")

// Command is `shoal-sim trust`.
type Command struct {
	Attack  []string  `help:"Ways to lie, or all: lazy, fabricating, subtle-0.1, subtle-1, subtle-10, sleeping, colluding, slandering, one-host, hiding, sybils." default:"all"`
	Defence []string  `help:"What the network does: none, next-crawl, audits, all; or every, for all four." default:"all"`
	F       []float64 `name:"f" help:"Shares of the established peers that lie." default:"0.1"`
	Seeds   int       `help:"Runs of each case, with seeds from 1 on." default:"1"`
	Days    int       `help:"Simulated days. 0: 30, or 60 with --full." default:"0"`
	Peers   int       `help:"Established peers at the beginning. 0: 300, or 1000 with --full." default:"0"`
	Full    bool      `help:"The size of the published figures: 1,000 peers, 5,000 channels, 310,000 pages, 60 days. Eight times the time."`
	Trouble float64   `help:"Times the trouble that honest peers have with captchas." default:"1"`
	Learn   bool      `help:"Learn T from a run in shadow, with the same liars in it, before the run that counts. Without it T is 18."`
	Storm   int       `help:"New lying peers a day in the attack sybils. 0: a fifth of --peers." default:"0"`
	Cores   int       `help:"Runs at a time. 0: as many as there are processors." default:"0"`
	JSON    bool      `name:"json" xor:"form" help:"Print one array of rows and nothing else."`
	CSV     bool      `name:"csv" xor:"form" help:"Print CSV, a figure a line: mean and standard deviation over the seeds."`
	Plot    string    `help:"Folder for the figures, as SVG and PNG." placeholder:"DIR" type:"path"`
}

// Sizes of the simulated network for each peer.
const (
	sitesPerPeer = 5
	pagesPerPeer = 310
)

// Run does the simulations.
func (c *Command) Run(ctx context.Context, out, errw io.Writer) error {
	all, err := c.setups()
	if err != nil {
		return err
	}
	if err := figure.CanWrite(c.Plot); err != nil {
		return err
	}
	rows, err := c.simulate(ctx, all, errw)
	if err != nil {
		return err
	}
	if c.Plot != "" {
		if err := draw(rows, c.Plot); err != nil {
			return err
		}
		fmt.Fprintf(errw, "figures written to %s\n", c.Plot)
	}
	switch {
	case c.JSON:
		e := json.NewEncoder(out)
		e.SetIndent("", " ")
		return e.Encode(rows)
	case c.CSV:
		all := make([]wide, len(rows))
		for i, r := range rows {
			all[i] = wide{r, r.honest, r.credit}
		}
		return tidy.Write(out, all, "f")
	}
	if err := table(out, rows); err != nil {
		return err
	}
	return intervals(out, rows)
}

// setups are the simulations that the flags ask for.
func (c *Command) setups() (all []setup, err error) {
	peers, days := c.Peers, c.Days
	if peers == 0 {
		peers = map[bool]int{false: 300, true: 1000}[c.Full]
	}
	if days == 0 {
		days = map[bool]int{false: 30, true: 60}[c.Full]
	}
	switch {
	case peers < 50 || peers > 100_000:
		return nil, fmt.Errorf("%w: %d peers; want 50 to 100000", ErrFlags, peers)
	case days < 1 || days > 3650:
		return nil, fmt.Errorf("%w: %d days; want 1 to 3650", ErrFlags, days)
	case c.Seeds < 1 || c.Seeds > 1000:
		return nil, fmt.Errorf("%w: %d seeds; want 1 to 1000", ErrFlags, c.Seeds)
	case !(c.Trouble >= 0 && c.Trouble <= 100):
		return nil, fmt.Errorf("%w: trouble %v; want 0 to 100", ErrFlags, c.Trouble)
	case c.Storm < 0:
		return nil, fmt.Errorf("%w: --storm %d: want 0 or more new liars a day", ErrFlags, c.Storm)
	}
	if err := errors.Join(once("attack", c.Attack), once("defence", c.Defence), once("f", c.F)); err != nil {
		return nil, err
	}
	names := c.Attack
	if slices.Contains(names, "all") {
		names = Attacks()
	}
	kinds := c.Defence
	if slices.Contains(kinds, "every") {
		kinds = Defences()
	}
	for _, name := range names {
		a, err := attackOf(name)
		if err != nil {
			return nil, err
		}
		for _, kind := range kinds {
			d, err := defenceOf(kind)
			if err != nil {
				return nil, err
			}
			for _, f := range c.F {
				if !(f >= 0 && f <= .9) {
					return nil, fmt.Errorf("%w: share %v of liars; want 0 to 0.9", ErrFlags, f)
				}
				for seed := range c.Seeds {
					all = append(all, setup{attack: a, defence: d, f: f, seed: uint64(seed + 1), peers: peers, sites: peers * sitesPerPeer, pages: peers * pagesPerPeer, days: days, trouble: c.Trouble})
				}
			}
		}
	}
	return all, nil
}

// once refuses what stands twice in a list.
func once[T comparable](flag string, list []T) error {
	for i, v := range list {
		if slices.Contains(list[:i], v) {
			return fmt.Errorf("%w: --%s: %v is named twice", ErrFlags, flag, v)
		}
	}
	return nil
}

// simulate runs the setups, several at a time. The order of the rows is that of the setups.
func (c *Command) simulate(ctx context.Context, all []setup, errw io.Writer) ([]Row, error) {
	cores := c.Cores
	if cores <= 0 {
		cores = runtime.NumCPU()
	}
	rows, errs := make([]Row, len(all)), make([]error, len(all))
	var wait sync.WaitGroup
	var mu sync.Mutex // of errw
	next := make(chan int)
	for range min(cores, len(all)) {
		wait.Go(func() {
			for i := range next {
				s := all[i]
				mu.Lock()
				fmt.Fprintf(errw, "%s, %s, f %g, seed %d\n", s.attack.name, s.defence.name, s.f, s.seed)
				mu.Unlock()
				rows[i], errs[i] = simulated(ctx, s, c.Storm, c.Learn)
			}
		})
	}
	for i := range all {
		next <- i
	}
	close(next)
	wait.Wait()
	return rows, errors.Join(errs...)
}

func simulated(ctx context.Context, s setup, storm int, learn bool) (Row, error) {
	if storm == 0 {
		storm = s.peers / 5
	}
	if learn {
		shadow := s
		shadow.rules = func(c *trust.Config) { c.Enforce = false }
		r, err := newRun(shadow)
		if err != nil {
			return Row{}, err
		}
		if err := r.simulate(ctx, storm); err != nil {
			return Row{}, err
		}
		if p := r.machine.Propose(); p.T > 0 {
			s.rules = func(c *trust.Config) { c.T = p.T }
		}
	}
	r, err := newRun(s)
	if err != nil {
		return Row{}, err
	}
	if err := r.simulate(ctx, storm); err != nil {
		return Row{}, err
	}
	return r.row(s), nil
}

// table prints the rows for people, in percent.
func table(out io.Writer, rows []Row) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "attack\tf\tdefence\tseed\tpoison %\tof verified %\tof target %\textra %\tarbiter %\thonest a 1,000 years\ttasks p50\tp90\tprovisional %\thonest lose %\tanywhere %\tcredit forged %\tof a liar %\t")
	for _, r := range rows {
		fmt.Fprintf(w, "%s\t%g\t%s\t%d\t%.4f\t%.4f\t%.3f\t%.2f\t%.3f\t%.2f\t%s\t%s\t%.1f\t%.2f\t%.2f\t%.4f\t%.1f\t\n", r.Attack, r.F, r.Defence, r.Seed, 100*r.Poison, 100*r.Verified, 100*r.Target, 100*r.Extra, 100*r.Arbiter,
			r.Honest, tasks(r.P50), tasks(r.P90), 100*r.Provisional, 100*r.lost, 100*r.honest.Anywhere, 100*r.credit.Forged, 100*r.credit.Liars)
	}
	return w.Flush()
}

func tasks(n float64) string {
	if n < 0 {
		return "never"
	}
	return fmt.Sprintf("%.0f", n)
}
