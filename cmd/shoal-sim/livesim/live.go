// Package livesim is `shoal-sim live`: the real network under every recrawl strategy, beside what the recrawl simulator foretells for the same world.
//
// A run starts the programs shoal and shoal-peer as processes: the pond, a manager and the peers, all on loopback. Every strategy works on the same
// seed: the same hosts, sizes, distances and changes, and the same comings and goings of peers. The changes go by the pond's time; a run begins when its programs
// are there, which is a few seconds sooner or later in each. The pond knows what each page showed at each moment, so
// that freshness is what it was, not what the manager thought. A tick is a second here, as in the pond; waits, sizes and links are as
// anywhere.
//
// The load is how many times the peers' threads could crawl what there is: 1 means that every host can be crawled once in the mean time between
// its changes, 2 twice as often, .5 half as often.
package livesim

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"shoal/cmd/shoal-sim/figure"
	"shoal/recrawl"
)

// Command is "shoal-sim live".
type Command struct {
	Strategies []string  `help:"Strategies to compare; all: every one." default:"fixed,iir,icr,price,optimal" placeholder:"NAME,..."`
	Peers      int       `help:"Peers, each a process." default:"8"`
	Threads    int       `help:"Threads of a peer." default:"2"`
	Load       []float64 `help:"What the threads can do, as a multiple of the need: to crawl every host once in the mean time between its changes." default:"0.5,1,2" placeholder:"X,..."`
	Minutes    float64   `help:"Length of a run." default:"5"`
	Churn      string    `help:"Peers that come and go: off, on (they live a minute on average, and two thirds are killed), or both in turn." enum:"off,on,both" default:"both"`
	Seeds      int       `help:"Seeds to run, from --seed on." default:"1"`
	Seed       uint64    `help:"The first seed." default:"1"`
	Scene      string    `help:"What is special: none; small (sites of three pages on average); half (half of the peers are killed half way, for good); weights (an operator gives channels importance from 1 to 50); burst (a third of the channels is imported half way, all at once)." enum:"none,small,half,weights,burst" default:"none"`
	Cap        float64   `help:"A channel is recrawled at most so many times as often as it changes; 0: as often as a strategy likes." default:"2"`
	Alike      int       `help:"Make so many forecasts more, in which a page takes up to half a millisecond more or less, which no run measures; the range of what they foretell is told too." default:"0" placeholder:"N"`
	Weights    string    `help:"What a channel counts for the strategies that look at weights, as an operator says by shoal strategy set --weights: by its pages, or all equal." enum:"pages,equal" default:"pages"`
	Bin        string    `help:"Folder with the programs shoal and shoal-peer; default: that of shoal-sim." type:"path" placeholder:"DIR"`
	Dir        string    `help:"Keep data and logs of the runs there; default: a temporary folder, removed at the end." type:"path" placeholder:"DIR"`
	Foretell   bool      `help:"Run no network: only say what the simulator foretells of each run. It takes seconds."`
	JSON       bool      `name:"json" help:"Print one JSON array, a row for each run."`
	Plot       string    `help:"Write figures over time there, SVG and PNG." type:"path" placeholder:"DIR"`
}

// The limits of the flags.
const (
	maxPeers   = 200
	maxThreads = 64
	maxSeeds   = 100
	maxAlike   = 100
	maxMinutes = 24 * 60
	minMinutes = .5
	minLoad    = .05
	maxLoad    = 50
	maxCap     = 1e6
)

// ErrFlags says that the flags cannot be run.
var ErrFlags = errors.New("live: bad flags")

func (c *Command) validate() error {
	switch {
	case c.Peers < 1 || c.Peers > maxPeers:
		return fmt.Errorf("%w: --peers %d: want 1 to %d", ErrFlags, c.Peers, maxPeers)
	case c.Threads < 1 || c.Threads > maxThreads:
		return fmt.Errorf("%w: --threads %d: want 1 to %d", ErrFlags, c.Threads, maxThreads)
	case c.Seeds < 1 || c.Seeds > maxSeeds:
		return fmt.Errorf("%w: --seeds %d: want 1 to %d", ErrFlags, c.Seeds, maxSeeds)
	case c.Alike < 0 || c.Alike > maxAlike:
		return fmt.Errorf("%w: --alike %d: want 0 to %d", ErrFlags, c.Alike, maxAlike)
	case !(c.Minutes >= minMinutes && c.Minutes <= maxMinutes):
		return fmt.Errorf("%w: --minutes %v: want %v to %d", ErrFlags, c.Minutes, minMinutes, maxMinutes)
	case !(c.Cap >= 0 && c.Cap <= maxCap):
		return fmt.Errorf("%w: --cap %v: want 0 to %v", ErrFlags, c.Cap, maxCap)
	case len(c.Load) == 0:
		return fmt.Errorf("%w: --load: name one or more, such as 0.5,1,2", ErrFlags)
	case len(c.Strategies) == 0:
		return fmt.Errorf("%w: --strategies: name one or more of %s", ErrFlags, strings.Join(recrawl.Names(), ", "))
	}
	for i, l := range c.Load {
		if !(l >= minLoad && l <= maxLoad) {
			return fmt.Errorf("%w: --load %v: want %v to %v", ErrFlags, l, minLoad, maxLoad)
		}
		if slices.Contains(c.Load[:i], l) {
			return fmt.Errorf("%w: --load: %v is named twice", ErrFlags, l)
		}
	}
	for i, n := range c.Strategies {
		if _, err := recrawl.New(n, recrawl.Params{}); err != nil {
			return fmt.Errorf("%w: --strategies: %w", ErrFlags, err)
		}
		if slices.Contains(c.Strategies[:i], n) {
			return fmt.Errorf("%w: --strategies: %s is named twice", ErrFlags, n)
		}
	}
	return nil
}

// programs finds shoal and shoal-peer.
func (c *Command) programs() (dir string, err error) {
	if dir = c.Bin; dir == "" {
		self, err := os.Executable()
		if err != nil {
			return "", fmt.Errorf("find the programs: %w; name their folder with --bin", err)
		}
		dir = filepath.Dir(self)
	}
	for _, name := range []string{"shoal", "shoal-peer"} {
		if runtime.GOOS == "windows" {
			name += ".exe"
		}
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.IsDir() {
			return "", fmt.Errorf("%w: there is no program %s in %s: build it with make build, or name its folder with --bin", ErrFlags, name, dir)
		}
	}
	return dir, nil
}

// Run runs all cells one after the other and prints the table; progress goes to errw.
func (c *Command) Run(ctx context.Context, out, errw io.Writer) (err error) {
	if len(c.Strategies) == 1 && c.Strategies[0] == "all" {
		c.Strategies = recrawl.Names()
	}
	if err := c.validate(); err != nil {
		return err
	}
	if err := figure.CanWrite(c.Plot); err != nil {
		return err
	}
	if c.Foretell {
		return c.foretell(ctx, out)
	}
	bin, err := c.programs()
	if err != nil {
		return err
	}
	dir := c.Dir
	if err := unused(dir); err != nil {
		return err
	}
	if dir == "" {
		if dir, err = os.MkdirTemp("", "shoal-live-"); err != nil {
			return fmt.Errorf("a folder for the runs: %w; name one with --dir", err)
		}
		defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	}
	var rows []Row
	cells := c.cells()
	for i, cell := range cells {
		fmt.Fprintf(errw, "%d of %d: %s\n", i+1, len(cells), cell.name())
		row, err := cell.run(ctx, bin, filepath.Join(dir, fmt.Sprintf("%03d", i+1)))
		if err != nil {
			return c.tell(out, rows, fmt.Errorf("%s: %w", cell.name(), err))
		}
		rows = append(rows, row)
	}
	return c.tell(out, rows, nil)
}

// unused refuses a folder in which an earlier call keeps its runs. They would go on there, with a network that knows its channels, and not begin.
func unused(dir string) error {
	first := filepath.Join(dir, "001")
	if _, err := os.Stat(first); dir == "" || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return fmt.Errorf("%w: --dir %s: the runs of an earlier call are there (%s), and these would go on from them: name another folder, or remove them", ErrFlags, dir, first)
}

// tell draws and prints the runs that came to their ends, also where the next one failed or the user has had enough: they took long.
func (c *Command) tell(out io.Writer, rows []Row, failed error) error {
	if failed != nil && len(rows) == 0 {
		return failed
	}
	return errors.Join(failed, c.draw(rows), c.print(out, rows, writeTable))
}

func (c *Command) draw(rows []Row) error {
	if c.Plot == "" {
		return nil
	}
	return plotRows(c.Plot, rows)
}

// foretell says what the simulator says of all cells.
func (c *Command) foretell(ctx context.Context, out io.Writer) error {
	var rows []Row
	for _, cell := range c.cells() {
		row, err := cell.forecast(ctx)
		if err != nil {
			return fmt.Errorf("%s: %w", cell.name(), err)
		}
		rows = append(rows, row)
	}
	return errors.Join(c.draw(rows), c.print(out, rows, writeForecast))
}

func (c *Command) print(out io.Writer, rows []Row, table func(io.Writer, []Row) error) error {
	if !c.JSON {
		return table(out, rows)
	}
	enc := json.NewEncoder(out)
	enc.SetIndent("", "  ")
	return enc.Encode(rows)
}

// cells are all runs: strategies change fastest, so that those of one world lie together in time.
func (c *Command) cells() (all []cell) {
	churns := map[string][]bool{"off": {false}, "on": {true}, "both": {false, true}}[c.Churn]
	for s := range c.Seeds {
		for _, load := range c.Load {
			for _, churn := range churns {
				for _, name := range c.Strategies {
					all = append(all, cell{Strategy: name, Load: load, Churn: churn, Scene: c.Scene, Seed: c.Seed + uint64(s), Minutes: c.Minutes, Cap: c.Cap, Alike: c.Alike, Weights: c.Weights, Peers: c.Peers, Threads: c.Threads})
				}
			}
		}
	}
	return all
}

func round(v float64, digits int) float64 {
	p := math.Pow10(digits)
	return math.Round(v*p) / p
}
