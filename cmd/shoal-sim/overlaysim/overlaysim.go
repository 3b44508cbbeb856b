// Package overlaysim is "shoal-sim overlay": the product's own overlay and coordinates, thousands of nodes at a time in virtual time,
// over measured or made-up latencies, beside baselines: CAN as the recrawl paper used it, greedy forwarding over the same tables,
// full membership, the true nearest peer and a random one. With --load it also runs the product's queues and leases, and the paper's
// crawlers beside them.
//
// It is not for strategies (recrawlsim). Nothing of the product is written again here: an overlay.Node answers every message, a queue.Queue
// every offer.
package overlaysim

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"slices"
	"text/tabwriter"
	"time"

	"shoal/cmd/shoal-sim/figure"
	"shoal/cmd/shoal-sim/tidy"
	"shoal/internal/sim"
)

// Command is the experiment's flags.
type Command struct {
	Peers       int           `default:"1400" help:"Peers."`
	Hosts       int           `default:"16000" help:"Web hosts."`
	Tasks       int           `default:"500" help:"Tasks that are placed, each for a host drawn at random; with --load as many as come."`
	Repeat      int           `default:"0" help:"Place every task again so many times, with what was learnt of its host by then: a row of its own, 'again'."`
	Latency     string        `type:"path" placeholder:"FILE" help:"Latencies: a matrix in ms (.csv, .csv.gz) or an embedding (lines 'id x y', one way). Default: made up from the seed."`
	Places      string        `enum:"apart,shared" default:"apart" help:"Whether peers and hosts are replicas of different base nodes of the latency file, as in the recrawl paper, or of the same: ${enum}."`
	KeepFaulty  bool          `help:"Keep nodes of a matrix that cannot be where it says: within 5 ms of 8 others or more, half of whose pairs are over 50 ms apart. By default they are left out."`
	Coordinates string        `enum:"product,springs,serf,solver" default:"product" help:"How peers find their coordinates. product: by serf's Vivaldi with guards, and once samples of 16 peers are there by solving from the last ones. springs: by serf's Vivaldi with guards, always. serf: by serf's Vivaldi as it comes. solver: by solving, from the first sample on. One of: ${enum}."`
	Overlay     string        `enum:"all,rings,judge,greedy,full,can,random,nearest" default:"all" help:"Which overlay to measure: ${enum}."`
	Churn       string        `enum:"none,paper,x17" default:"none" help:"How peers come and go: ${enum}."`
	Liars       float64       `default:"0" help:"Share of peers that lie about their coordinate."`
	Lie         string        `enum:"far,middle,high,drift" default:"far" help:"How they lie: far off, another place each time; all in the middle of the swarm; there, behind an access line of up to 300 ms; or drift, from where they are and all in one direction, slowly: ${enum}."`
	Drift       float64       `default:"1" help:"Milliseconds a minute that liars drift."`
	Swallowers  float64       `default:"0" help:"Share of peers that accept tasks and do nothing with them."`
	Load        float64       `default:"0" help:"Work that is offered, over what the peers can do; 0: single tasks, no peer is busy."`
	Sweep       bool          `help:"Run offered loads .3 to 4, one after the other."`
	Pages       float64       `default:"8738" help:"Mean pages of a task under load."`
	For         time.Duration `default:"25h" help:"Simulated time under load; the first third is settling in."`
	Steal       bool          `help:"Idle peers ask near ones for unclaimed tasks. The product does not: this is how it was decided."`
	Blind       bool          `help:"Peers accept what they have room for, whenever it could start. The product's do not: this is what accepting by the latest start is compared with."`
	Scale       bool          `help:"Run 100, 300, 1,000 and so on up to 30,000 peers, whatever --peers says; hosts as --hosts says."`
	Settle      time.Duration `default:"45m" help:"Simulated time before the first task."`
	Seed        uint64        `default:"1" help:"First seed."`
	Seeds       int           `default:"1" help:"So many seeds, one after the other."`
	JSON        bool          `name:"json" xor:"form" help:"Print one JSON array, a row for each overlay and seed."`
	CSV         bool          `name:"csv" xor:"form" help:"Print CSV, a figure a line: mean and standard deviation over the seeds."`
	Plot        string        `type:"path" placeholder:"DIR" help:"Write figures there, SVG and PNG: the swarm in coordinate space; the sweep; the growth with --scale."`
}

// Limits of the flags.
const (
	MaxPeers = 100_000
	MaxHosts = 1_000_000
	MaxSeeds = 1000
	MaxLoad  = 20
	MaxFor   = 1000 * time.Hour
	MinWhole = 20 // peers of a network that is simulated whole
)

// ErrFlags says that the flags do not fit together.
var ErrFlags = errors.New("sim overlay: bad flags")

// Row is what was measured of one overlay with one seed. Times are milliseconds, except Seconds, which are the machine's own.
type Row struct {
	Overlay     string  `json:"overlay"`
	Peers       int     `json:"peers"`
	Hosts       int     `json:"hosts"`
	Places      string  `json:"places"`      // of peers and hosts; made-up ones are all apart
	Coordinates string  `json:"coordinates"` // how they are found: Command.Coordinates
	Churn       string  `json:"churn"`
	Seed        uint64  `json:"seed"`
	Hops        float64 `json:"hops_mean"`
	Queries     float64 `json:"queries_mean"`
	Stretch     float64 `json:"stretch_p50"` // start of lookup to the offer's arrival over the direct round trip; for forwarding, its path over the direct path
	TableMean   float64 `json:"table_mean"`
	TableMax    int     `json:"table_max"`
	Messages    float64 `json:"msgs_peer_min"` // gossip and answers
	RTT50       float64 `json:"rtt_p50"`
	RTT90       float64 `json:"rtt_p90"`
	Nearest50   float64 `json:"rtt_nearest_p50"`
	Nearest90   float64 `json:"rtt_nearest_p90"`
	Random50    float64 `json:"rtt_random_p50"`
	Recall1     float64 `json:"recall1"`
	Recall8     float64 `json:"recall8"`
	Empty       int     `json:"empty"`            // lookups that found no peer
	Success     float64 `json:"success"`          // tasks that came to an honest peer; under load, of the accepted ones that have ended those that became updates
	Goodput     float64 `json:"goodput"`          // thousand pages of updates a minute; 0: no load
	CoordErr    float64 `json:"coord_err_p50"`    // relative, among the honest
	Stayed      float64 `json:"stayed,omitempty"` // share of tasks that went to the peer that had the host's task before, though another should; in row apart
	Seconds     float64 `json:"seconds"`
	Faulty      int     `json:"faulty,omitempty"` // nodes of the matrix that were left out

	Load      float64 `json:"load,omitempty"`
	Refused   float64 `json:"refused,omitempty"`   // share of the offered tasks
	Imbalance float64 `json:"imbalance,omitempty"` // most pages that a peer fetched, over the mean
	Unsure    int     `json:"unsure,omitempty"`    // placings with an offer that was never answered and none that was accepted
	Wait50    float64 `json:"wait_min_p50,omitempty"`
	Sent      float64 `json:"manager_msgs_task,omitempty"` // messages that the manager sent a task
	Busy      float64 `json:"busy,omitempty"`              // share of the time of the threads that are there
	PageMS    float64 `json:"page_ms,omitempty"`           // thread time that a page took
	Wasted    float64 `json:"wasted,omitempty"`            // share of the fetched pages that came into no update
	RTTMean   float64 `json:"rtt_mean,omitempty"`          // of a task's first peer to its host
	RTTBound  float64 `json:"rtt_bound,omitempty"`         // the least mean with which the peers could have done these tasks; 0: too many peers to tell
}

// check names the first flag that cannot be.
func (c *Command) check() error {
	share := func(name string, v float64) error {
		if v >= 0 && v <= .5 {
			return nil
		}
		return fmt.Errorf("%w: --%s %v: want 0 to 0.5", ErrFlags, name, v)
	}
	number := func(name string, v, lo, hi int) error {
		if v >= lo && v <= hi {
			return nil
		}
		return fmt.Errorf("%w: --%s %d: want %d to %d", ErrFlags, name, v, lo, hi)
	}
	under := c.Load > 0 || c.Sweep
	for _, err := range []error{
		number("peers", c.Peers, MinWhole, MaxPeers), number("hosts", c.Hosts, 1, MaxHosts), number("tasks", c.Tasks, 1, 1_000_000), number("seeds", c.Seeds, 1, MaxSeeds), number("repeat", c.Repeat, 0, 100),
		share("liars", c.Liars), share("swallowers", c.Swallowers),
	} {
		if err != nil {
			return err
		}
	}
	switch {
	case c.Settle <= 0 || c.Settle > MaxFor:
		return fmt.Errorf("%w: --settle %v: want a positive time, at most %v", ErrFlags, c.Settle, MaxFor)
	case !(c.Drift >= 0 && c.Drift <= 1000) || c.Lie == "drift" && c.Drift == 0:
		return fmt.Errorf("%w: --drift %v: want more than 0, at most 1000 ms a minute", ErrFlags, c.Drift)
	case !(c.Load >= 0 && c.Load <= MaxLoad):
		return fmt.Errorf("%w: --load %v: want 0 to %d", ErrFlags, c.Load, MaxLoad)
	case c.Sweep && c.Load > 0, c.Scale && under:
		return fmt.Errorf("%w: --load, --sweep and --scale are different experiments: give one of them", ErrFlags)
	case under && (c.For < time.Hour || c.For > MaxFor):
		return fmt.Errorf("%w: --for %v: want 1h to %v", ErrFlags, c.For, MaxFor)
	case under && !(c.Pages >= 1 && c.Pages <= sim.MaxPages):
		return fmt.Errorf("%w: --pages %v: want 1 to %d", ErrFlags, c.Pages, sim.MaxPages)
	case under && c.Repeat > 0:
		return fmt.Errorf("%w: --repeat is for single tasks; under load they come again by themselves", ErrFlags)
	case !under && (c.Steal || c.Blind):
		return fmt.Errorf("%w: --steal and --blind are about queues, which are empty without --load or --sweep", ErrFlags)
	case under && !slices.Contains([]string{"all", "rings"}, c.Overlay):
		return fmt.Errorf("%w: --overlay %s: under load there are rings and the paper's forwarding, in one run", ErrFlags, c.Overlay)
	}
	return nil
}

// lazily is how much the heap may grow between two collections, in per cent of what is live.
const lazily = 500

// roomy is from where on the heap is collected more often than that, in bytes: tables of 30,000 peers are some 3 GiB.
const roomy = 6 << 30

// Loads of a sweep, and sizes of a scaling run.
var (
	sweepLoads = []float64{.3, .6, 1, 1.6, 2.5, 4}
	scaleSizes = []int{100, 300, 1000, 3000, 10_000, 30_000}
)

// Run measures and prints.
func (c *Command) Run(ctx context.Context, out io.Writer) error {
	if err := c.check(); err != nil {
		return err
	}
	if err := figure.CanWrite(c.Plot); err != nil {
		return err
	}
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(roomy))
	defer debug.SetGCPercent(debug.SetGCPercent(lazily)) // messages are short-lived, tables are not worth going through for them so often
	loads, sizes := []float64{c.Load}, []int{c.Peers}
	if c.Sweep {
		loads = sweepLoads
	}
	if c.Scale {
		sizes = scaleSizes
	}
	var rows []Row
	for _, load := range loads {
		for _, size := range sizes {
			one := *c
			one.Load, one.Peers = load, size
			for s := range c.Seeds {
				if len(rows) > 0 {
					one.Plot = "" // the first one's swarm
				}
				got, err := one.measure(ctx, c.Seed+uint64(s))
				if err != nil {
					return err
				}
				rows = append(rows, got...)
			}
		}
	}
	if c.Plot != "" {
		if err := plotRows(c.Plot, c, rows); err != nil {
			return err
		}
	}
	if c.CSV {
		return tidy.Write(out, rows, "peers", "load")
	}
	if c.JSON {
		enc := json.NewEncoder(out)
		enc.SetIndent("", " ")
		return enc.Encode(rows)
	}
	return c.print(out, rows)
}

func (c *Command) print(out io.Writer, rows []Row) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(w, "overlay\tpeers\tseed\thops\tqueries\tstretch\ttable\tmost\tmsgs/min\trtt p50\tp90\tnearest p50\tp90\trandom\trecall@1\t@8\tempty\tsuccess\t")
	under := c.Load > 0 || c.Sweep
	if under {
		fmt.Fprint(w, "load\tgoodput\trefused\tunsure\timbalance\twait min\tmsgs/task\tbusy\tpage ms\twasted\trtt mean\tbound\t")
	}
	fmt.Fprintln(w, "coord err\tseconds\t")
	for _, r := range rows {
		fmt.Fprintf(w, "%s\t%d\t%d\t%.2f\t%.1f\t%.1f\t%.1f\t%d\t%.2f\t%.1f\t%.1f\t%.1f\t%.1f\t%.1f\t%.3f\t%.3f\t%d\t%.3f\t", r.Overlay, r.Peers, r.Seed, r.Hops, r.Queries,
			r.Stretch, r.TableMean, r.TableMax, r.Messages, r.RTT50, r.RTT90, r.Nearest50, r.Nearest90, r.Random50, r.Recall1, r.Recall8, r.Empty, r.Success)
		if under {
			fmt.Fprintf(w, "%.1f\t%.1f\t%.3f\t%d\t%.1f\t%.0f\t%.1f\t%.3f\t%.0f\t%.3f\t%.1f\t%.1f\t", r.Load, r.Goodput, r.Refused, r.Unsure, r.Imbalance, r.Wait50, r.Sent, r.Busy, r.PageMS, r.Wasted, r.RTTMean, r.RTTBound)
		}
		fmt.Fprintf(w, "%.3f\t%.1f\t\n", r.CoordErr, r.Seconds)
	}
	if err := w.Flush(); err != nil || len(rows) == 0 {
		return err
	}
	for _, r := range rows {
		if r.Stayed > 0 {
			fmt.Fprintf(out, "seed %d, %s: %.0f%% of the tasks went to the peer that had the host's task before, as no other is about as near\n", r.Seed, r.Overlay, 100*r.Stayed)
		}
	}
	if rows[0].Faulty == 0 {
		return nil
	}
	_, err := fmt.Fprintf(out, "%d nodes of the matrix cannot be where it says and were left out; --keep-faulty keeps them\n", rows[0].Faulty)
	return err
}

func (c *Command) wants(name string) bool { return c.Overlay == "all" || c.Overlay == name }
