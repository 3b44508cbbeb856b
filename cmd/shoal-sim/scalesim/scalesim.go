// Package scalesim is "shoal-sim scale": what a network costs that no machine at hand can run, such as 64 managers and 1,000,000 peers. Tasks are placed by the
// product's own overlay among that many members, of which those exist that a message reaches (overlaysim.Sampled); gossip is counted in a smaller network that
// is simulated whole, since it does not depend on how many there are. What managers cost their database by being there, and what pages cost it, is computed from
// what was measured on real servers (Costs), and each line says so.
//
// It is not for plans of one manager's work (shoal plan), nor for what freshness that buys (recrawlsim).
package scalesim

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"shoal/cmd/shoal-sim/overlaysim"
	"shoal/internal/member"
	"shoal/overlay"
)

// Command is the experiment's flags.
type Command struct {
	Peers    int           `default:"1000000" help:"Peers of the network."`
	Managers int           `default:"64" help:"Managers that share it. A network document names 16; more are for the sake of the question."`
	PagesDay float64       `name:"pages-day" default:"1e9" help:"Pages that all peers fetch in a day."`
	PerTask  float64       `name:"pages-task" default:"500" help:"Pages of a task."`
	Channels float64       `default:"1e7" help:"Channels."`
	Tasks    int           `default:"200" help:"Tasks that are placed."`
	Hosts    int           `default:"16000" help:"Web hosts."`
	Error    float64       `default:"0.1" help:"Median relative error of predicted round-trip times; simulated whole it was .036 with 1,000 peers and .098 with 10,000, after 45 minutes."`
	Whole    int           `default:"300" help:"Peers of the network that is simulated whole, for its gossip."`
	Settle   time.Duration `default:"45m" help:"Simulated time before its gossip is counted."`
	Seed     uint64        `default:"1" help:"Seed."`
	JSON     bool          `name:"json" help:"Print one JSON array, an object a figure."`
}

// ErrFlags says that the flags cannot be.
var ErrFlags = errors.New("sim scale: bad flags")

// Figure is one line.
type Figure struct {
	Part  string  `json:"part"`
	What  string  `json:"what"`
	Value float64 `json:"value"`
	Unit  string  `json:"unit,omitempty"`
	From  string  `json:"from"` // simulated, computed or measured
}

// Run measures, computes and prints.
func (c *Command) Run(ctx context.Context, out, _ io.Writer) error {
	if c.Managers < 1 || c.Managers > 1024 || !(c.PagesDay > 0 && c.PagesDay <= 1e12) || !(c.PerTask >= 1 && c.PerTask <= 1e6) || !(c.Channels >= 1 && c.Channels <= 1e10) {
		return fmt.Errorf("%w: %d managers, %v pages a day, %v pages a task, %v channels: want 1 to 1024 managers, at most 1e12 pages, 1 to 1e6 of a task, 1 to 1e10 channels", ErrFlags, c.Managers, c.PagesDay, c.PerTask, c.Channels)
	}
	if err := c.sampled().Check(); err != nil {
		return err
	}
	if c.Whole < overlaysim.MinWhole || c.Whole > overlaysim.MaxPeers || c.Settle <= 0 || c.Settle > overlaysim.MaxFor {
		return fmt.Errorf("%w: --whole %d, --settle %v: want %d to %d peers, and a time above 0, at most %v", ErrFlags, c.Whole, c.Settle, overlaysim.MinWhole, overlaysim.MaxPeers, overlaysim.MaxFor)
	}
	var all []Figure
	for _, part := range []func(context.Context) ([]Figure, error){c.lookups, c.gossip, c.shares, c.database, c.copies} {
		some, err := part(ctx)
		if err != nil {
			return err
		}
		all = append(all, some...)
	}
	if c.JSON {
		enc := json.NewEncoder(out)
		enc.SetIndent("", " ")
		return enc.Encode(all)
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "part\twhat\tvalue\tunit\tfrom")
	for _, f := range all {
		fmt.Fprintf(w, "%s\t%s\t%.4g\t%s\t%s\n", f.Part, f.What, f.Value, f.Unit, f.From)
	}
	return w.Flush()
}

const (
	simulated = "simulated"
	computed  = "computed"
)

func (c *Command) sampled() overlaysim.Sampled {
	return overlaysim.Sampled{Peers: c.Peers, Hosts: c.Hosts, Tasks: c.Tasks, Error: c.Error, Seed: c.Seed}
}

// lookups places tasks among all peers.
func (c *Command) lookups(ctx context.Context) (out []Figure, err error) {
	rows, err := c.sampled().Run(ctx)
	for _, r := range rows {
		part := "tasks placed " + r.Overlay
		add := func(what string, v float64, unit string) { out = append(out, Figure{part, what, v, unit, simulated}) }
		if r.Hops > 0 {
			add("hops", r.Hops, "")
			add("peers asked", r.Queries, "a task")
			add("stretch", r.Stretch, "of the direct way")
			add("the nearest peer is among the first 8 found", r.Recall8, "share")
		}
		add("members known", r.TableMean, "")
		add("round trip to the host, median", r.RTT50, "ms")
		add("round trip to the host, nine of ten", r.RTT90, "ms")
		add("tasks placed", r.Success, "share")
	}
	if len(rows) > 0 {
		r := rows[0]
		out = append(out, Figure{"bounds", "from the truly nearest peer, median", r.Nearest50, "ms", simulated}, Figure{"bounds", "from a random peer, median", r.Random50, "ms", simulated})
	}
	return out, err
}

// gossip counts messages in a network that is simulated whole.
func (c *Command) gossip(ctx context.Context) ([]Figure, error) {
	rows, err := overlaysim.Whole(ctx, c.Whole, c.Settle, c.Seed)
	if err != nil {
		return nil, err
	}
	each := rows[0].Messages
	return []Figure{
		{"gossip", "messages of a peer, with answers", each, "a minute", simulated},
		{"gossip", "messages of all peers", each * float64(c.Peers) / 60, "/s", computed},
	}, nil
}

// tellsEvery is how often a peer tells its home how much room it has.
const tellsEvery = time.Minute

// shares is what each manager has to do.
func (c *Command) shares(context.Context) ([]Figure, error) {
	peers, managers := float64(c.Peers), float64(c.Managers)
	renewals := peers / (member.CertificateLife * 2 / 3).Seconds()
	tasks := c.PagesDay / 86400 / c.PerTask
	part := "each manager"
	return []Figure{
		{part, "peers whose home it is", peers / managers, "", computed},
		{part, "members known, at most", overlay.MaxKnown, "", "the product's bound"},
		{part, "room told by peers", peers / managers / tellsEvery.Seconds(), "/s", computed},
		{part, "certificates renewed", renewals / managers, "/s", computed},
		{part, "tasks handed out", tasks / managers, "/s", computed},
		{part, "channels", c.Channels / managers, "", computed},
		{part, "questions to other managers for the desk", (managers - 1) / deskEvery.Seconds(), "/s", computed},
	}, nil
}

// deskEvery is how often each manager asks each other one what its desk shows (package joint).
const deskEvery = 2 * time.Second
