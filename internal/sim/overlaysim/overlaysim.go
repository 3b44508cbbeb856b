// Package overlaysim is "shoal sim overlay": the product's own overlay and coordinates, thousands of nodes at a time in virtual time,
// over measured or made-up latencies, beside baselines: CAN as the recrawl paper used it, greedy forwarding over the same tables,
// full membership, the true nearest peer and a random one.
//
// It is not for strategies or crawling (recrawlsim). Nothing of the overlay is written again here: a Node answers every message.
package overlaysim

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"text/tabwriter"
	"time"

	"shoal/coords"
	"shoal/internal/sim"
	"shoal/overlay"
)

// Command is the experiment's flags.
type Command struct {
	Peers   int           `default:"1400" help:"Peers."`
	Hosts   int           `default:"16000" help:"Web hosts."`
	Tasks   int           `default:"500" help:"Tasks that are placed, each for a host drawn at random."`
	Latency string        `type:"path" placeholder:"FILE" help:"Latencies: a matrix in ms (.csv, .csv.gz) or an embedding (lines 'id x y', one way). Default: made up from the seed."`
	Places  string        `enum:"apart,shared" default:"apart" help:"Whether peers and hosts are replicas of different base nodes of the latency file, as in the recrawl paper, or of the same: ${enum}."`
	Overlay string        `enum:"all,rings,greedy,full,can,random,nearest" default:"all" help:"Which overlay to measure: ${enum}."`
	Churn   string        `enum:"none,paper,x17" default:"none" help:"How peers come and go: ${enum}."`
	Liars   float64       `default:"0" help:"Share of peers that lie about their coordinate."`
	Settle  time.Duration `default:"45m" help:"Simulated time before the first task."`
	Seed    uint64        `default:"1" help:"First seed."`
	Seeds   int           `default:"1" help:"So many seeds, one after the other."`
	JSON    bool          `name:"json" help:"Print one JSON array, a row for each overlay and seed."`
}

// Limits of the flags.
const (
	MaxPeers = 100_000
	MaxHosts = 1_000_000
	MaxSeeds = 1000
)

// ErrFlags says that the flags do not fit together.
var ErrFlags = errors.New("sim overlay: bad flags")

// Row is what was measured of one overlay with one seed. Times are milliseconds, except Seconds, which are the machine's own.
type Row struct {
	Overlay   string  `json:"overlay"`
	Peers     int     `json:"peers"`
	Hosts     int     `json:"hosts"`
	Places    string  `json:"places"` // of peers and hosts; made-up ones are all apart
	Churn     string  `json:"churn"`
	Seed      uint64  `json:"seed"`
	Hops      float64 `json:"hops_mean"`
	Queries   float64 `json:"queries_mean"`
	Stretch   float64 `json:"stretch_p50"` // start of lookup to the offer's arrival over the direct round trip; for forwarding, its path over the direct path
	TableMean float64 `json:"table_mean"`
	TableMax  int     `json:"table_max"`
	Messages  float64 `json:"msgs_peer_min"` // gossip and answers
	RTT50     float64 `json:"rtt_p50"`
	RTT90     float64 `json:"rtt_p90"`
	Nearest50 float64 `json:"rtt_nearest_p50"`
	Nearest90 float64 `json:"rtt_nearest_p90"`
	Random50  float64 `json:"rtt_random_p50"`
	Recall1   float64 `json:"recall1"`
	Recall8   float64 `json:"recall8"`
	Empty     int     `json:"empty"` // lookups that found nobody
	Success   float64 `json:"success"`
	CoordErr  float64 `json:"coord_err_p50"` // relative, among the honest
	Seconds   float64 `json:"seconds"`
}

// Run measures and prints.
func (c *Command) Run(ctx context.Context, out io.Writer) error {
	switch {
	case c.Peers < 20 || c.Peers > MaxPeers || c.Hosts < 1 || c.Hosts > MaxHosts || c.Tasks < 1:
		return fmt.Errorf("%w: %d peers, %d hosts, %d tasks: want 20 to %d, 1 to %d, at least 1", ErrFlags, c.Peers, c.Hosts, c.Tasks, MaxPeers, MaxHosts)
	case c.Seeds < 1 || c.Seeds > MaxSeeds || !(c.Liars >= 0 && c.Liars <= .5) || c.Settle <= 0:
		return fmt.Errorf("%w: %d seeds, %v liars, %v to settle: want 1 to %d, 0 to 0.5, a positive time", ErrFlags, c.Seeds, c.Liars, c.Settle, MaxSeeds)
	}
	var rows []Row
	for s := range c.Seeds {
		got, err := c.measure(ctx, c.Seed+uint64(s))
		if err != nil {
			return err
		}
		rows = append(rows, got...)
	}
	if c.JSON {
		enc := json.NewEncoder(out)
		enc.SetIndent("", " ")
		return enc.Encode(rows)
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "overlay\tseed\thops\tqueries\tstretch\ttable\tmost\tmsgs/min\trtt p50\tp90\tnearest p50\tp90\trandom\trecall@1\t@8\tempty\tplaced\tcoord err\tseconds\t")
	for _, r := range rows {
		fmt.Fprintf(w, "%s\t%d\t%.2f\t%.1f\t%.1f\t%.1f\t%d\t%.2f\t%.1f\t%.1f\t%.1f\t%.1f\t%.1f\t%.3f\t%.3f\t%d\t%.3f\t%.3f\t%.1f\t\n", r.Overlay, r.Seed, r.Hops, r.Queries,
			r.Stretch, r.TableMean, r.TableMax, r.Messages, r.RTT50, r.RTT90, r.Nearest50, r.Nearest90, r.Random50, r.Recall1, r.Recall8, r.Empty, r.Success, r.CoordErr, r.Seconds)
	}
	return w.Flush()
}

func (c *Command) wants(name string) bool { return c.Overlay == "all" || c.Overlay == name }

// tally collects what one overlay did, a sample for each task.
type tally struct {
	name                   string
	rtt, stretch           []float64
	hops, queries          int
	recall1, recall8, done int
	placed, empty          int
}

func (t *tally) row(base Row) Row {
	base.Overlay = t.name
	if t.done > 0 {
		n := float64(t.done)
		base.Hops, base.Queries, base.Success = float64(t.hops)/n, float64(t.queries)/n, float64(t.placed)/n
		base.Recall1, base.Recall8, base.Empty = float64(t.recall1)/n, float64(t.recall8)/n, t.empty
	}
	base.RTT50, base.RTT90, base.Stretch = quantile(t.rtt, .5), quantile(t.rtt, .9), quantile(t.stretch, .5)
	return base
}

// land notes where a task came to rest.
func (t *tally) land(rtt, stretch float64, hops int) {
	t.rtt, t.stretch = append(t.rtt, rtt), append(t.stretch, stretch)
	t.hops += hops
	t.done++
	t.placed++
}

func quantile(v []float64, q float64) float64 {
	if len(v) == 0 {
		return 0
	}
	s := slices.Sorted(slices.Values(v))
	return s[min(int(q*float64(len(s))), len(s)-1)]
}

func (c *Command) measure(ctx context.Context, seed uint64) ([]Row, error) {
	begun := time.Now()
	g, err := newGround(c.Latency, c.Places, c.Peers+1, c.Hosts, sim.Rand(seed, "ground"))
	if err != nil {
		return nil, err
	}
	var churn *sim.Churn
	if c.Churn != "none" {
		paper := sim.PaperChurn()
		if c.Churn == "x17" {
			paper.Life, paper.LifeSpread, paper.Gap, paper.GapSpread = paper.Life/17, paper.LifeSpread/17, paper.Gap/17, paper.GapSpread/17
		}
		churn = &paper
	}
	n, err := newNetwork(g, c.Peers, churn, c.Liars, seed)
	if err != nil {
		return nil, err
	}
	for end := n.now + int64(c.Settle); n.now < end; {
		n.run(min(time.Minute, time.Duration(end-n.now)))
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
	}
	base := Row{Peers: c.Peers, Hosts: c.Hosts, Places: c.Places, Churn: c.Churn, Seed: seed, CoordErr: n.coordErr()}
	tables := 0
	for i := 1; i < len(n.members); i++ {
		k := len(n.members[i].node.Known())
		tables += k
		base.TableMax = max(base.TableMax, k)
	}
	base.TableMean = float64(tables) / float64(c.Peers)

	r := newRound(c, n)
	gossips, since := n.gossips, n.now
	for k := range c.Tasks {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if k%10 == 9 { // so that churn goes on
			n.run(30 * time.Second)
		}
		r.task()
	}
	base.Messages = float64(n.gossips-gossips) / float64(c.Peers) / (float64(n.now-since) / float64(time.Minute))
	base.Nearest50, base.Nearest90, base.Random50 = quantile(r.nearest.rtt, .5), quantile(r.nearest.rtt, .9), quantile(r.random.rtt, .5)
	base.Seconds = math.Round(time.Since(begun).Seconds()*1000) / 1000
	var rows []Row
	for _, t := range r.all {
		if c.wants(t.name) || len(t.name) > 3 && t.name[:3] == "can" && c.wants("can") {
			rows = append(rows, t.row(base))
		}
	}
	return rows, nil
}

// coordErr is the median relative error of predictions between honest members.
func (n *network) coordErr() float64 {
	var errs []float64
	for range 4000 {
		a, b := n.someone(), n.someone()
		if a == b || n.members[a].lies || n.members[b].lies {
			continue
		}
		ca, cb := n.members[a].node.Coord(), n.members[b].node.Coord()
		truth := n.ground.rtt(a, b)
		errs = append(errs, math.Abs(coords.Distance(&ca, &cb)-truth)/truth)
	}
	return quantile(errs, .5)
}

// round places the same tasks by every overlay.
type round struct {
	c                                    *Command
	n                                    *network
	rings, greedy, full, random, nearest *tally
	all                                  []*tally
	cans                                 []*can
	canTally                             []*tally
	zone                                 []map[int]int // of each can: member to zone
}

func newRound(c *Command, n *network) *round {
	r := &round{c: c, n: n}
	for _, t := range []struct {
		at   **tally
		name string
	}{{&r.rings, "rings"}, {&r.greedy, "greedy"}, {&r.full, "full"}, {&r.random, "random"}, {&r.nearest, "nearest"}} {
		*t.at = &tally{name: t.name}
		r.all = append(r.all, *t.at)
	}
	if !c.wants("can") {
		return r
	}
	var up []int
	var at []coords.Coord
	for i := 1; i < len(n.members); i++ {
		if n.members[i].up {
			up, at = append(up, i), append(at, n.members[i].node.Coord())
		}
	}
	for d := 2; d <= 5; d++ {
		k := newCAN(d, up, at)
		zone := map[int]int{}
		for z, m := range k.owner {
			zone[m] = z
		}
		t := &tally{name: fmt.Sprintf("can%d", d)}
		r.cans, r.zone, r.canTally, r.all = append(r.cans, k), append(r.zone, zone), append(r.canTally, t), append(r.all, t)
	}
	return r
}

// task draws a host and lets every overlay place a task for it.
func (r *round) task() {
	n := r.n
	place := len(n.members) + n.tasks.IntN(r.c.Hosts)
	known := n.records()
	record := n.survey(place, known)
	at, ok := record.Fit(n.rng)
	if !ok {
		return
	}
	from := n.someone()
	best := math.Inf(1)
	for i := 1; i < len(n.members); i++ {
		if n.members[i].up && i != from {
			best = min(best, n.ground.rtt(i, place))
		}
	}
	r.nearest.land(best, 1, 0)
	r.random.land(n.ground.rtt(n.someone(), place), 1, 1)
	slices.SortFunc(known, func(a, b overlay.PeerRecord) int {
		return int(math.Copysign(1, coords.Distance(&a.Coord, &at)-coords.Distance(&b.Coord, &at)))
	})
	known = slices.DeleteFunc(known, func(p overlay.PeerRecord) bool { return p.ID == n.members[from].id })
	r.full.land(n.ground.rtt(r.best(record, known[:min(8, len(known))]), place), 1, 1)
	r.forward(from, place, at)
	for k, c := range r.cans {
		if z, ok := r.zone[k][from]; ok {
			path := c.route(z, c.key(&at))
			r.canTally[k].land(n.ground.rtt(c.owner[path[len(path)-1]], place), n.pathStretch(path, c.owner), len(path)-1)
		}
	}
	r.place(from, place, record, at, known)
}

// tie is the difference in predicted round-trip time, in ms, below which two peers are equally near: latencies are measured in whole milliseconds and
// vary by more than that.
const tie = .5

// best is the one of some near peers that measured the shortest time or else is predicted to have it.
func (r *round) best(record coords.HostRecord, near []overlay.PeerRecord) int {
	at, _ := record.Fit(r.n.rng)
	chosen, least := 0, math.Inf(1)
	for _, s := range record.Samples {
		if ms := float64(s.RTT) / 1e6; ms < least && r.n.members[r.n.index[overlay.ID(s.Vantage)]].up {
			chosen, least = r.n.index[overlay.ID(s.Vantage)], ms
		}
	}
	for _, p := range near {
		if d := coords.Distance(&p.Coord, &at); d < least {
			chosen, least = r.n.index[p.ID], d
		}
	}
	return chosen
}

// forward is greedy forwarding: each member passes the task to the one that it knows nearest to the host, until none is nearer.
func (r *round) forward(from, place int, at coords.Coord) {
	path := []int{from}
	for i := from; len(path) < 64; {
		own := r.n.members[i].node.Coord()
		next, least := -1, coords.Distance(&own, &at)
		for _, p := range r.n.members[i].node.Known() {
			if k := r.n.index[p.ID]; k != manager && r.n.members[k].up {
				if d := coords.Distance(&p.Coord, &at); d < least {
					next, least = k, d
				}
			}
		}
		if next < 0 {
			break
		}
		i = next
		path = append(path, i)
	}
	r.greedy.land(r.n.ground.rtt(path[len(path)-1], place), r.n.pathStretch(path, nil), len(path)-1)
}

// pathStretch is the time along a path over the direct time.
func (n *network) pathStretch(path, owner []int) float64 {
	who := func(k int) int {
		if owner == nil {
			return path[k]
		}
		return owner[path[k]]
	}
	if len(path) < 2 || who(0) == who(len(path)-1) {
		return 1
	}
	sum := 0.
	for k := 1; k < len(path); k++ {
		sum += n.ground.rtt(who(k-1), who(k))
	}
	return sum / n.ground.rtt(who(0), who(len(path)-1))
}

// place lets a member place the task by the product's overlay. near are all others by predicted time to the host.
func (r *round) place(from, place int, record coords.HostRecord, at coords.Coord, near []overlay.PeerRecord) {
	n, t := r.n, r.rings
	m := &n.members[from]
	task := overlay.Task{}
	task.Header.Host = hostOf(place)
	task.Header.Pages, task.Header.Gap, task.Header.Latest = 100, time.Second, n.time().Add(time.Hour)
	start := n.now
	n.send(from, m.node.Place(n.time(), uint64(t.done+1), task, record))
	e, ok := n.await(from)
	t.done++
	t.hops += e.Placed.Hops
	t.queries += e.Placed.Queries
	if !ok || len(e.Found) == 0 {
		t.empty++
		return
	}
	goal := e.Goal
	now := func(p *overlay.PeerRecord) float64 {
		c := n.members[n.index[p.ID]].node.Coord()
		return coords.Distance(&c, &goal)
	}
	best := math.Inf(1)
	for i := range near {
		best = min(best, now(&near[i]))
	}
	for k := range e.Found[:min(8, len(e.Found))] {
		if now(&e.Found[k]) <= best+tie {
			if k == 0 {
				t.recall1++
			}
			t.recall8++
			break
		}
	}
	if e.Err != nil {
		return
	}
	t.placed++
	chosen := n.index[e.Placed.Peer]
	t.rtt = append(t.rtt, n.ground.rtt(chosen, place))
	t.stretch = append(t.stretch, float64(n.offerAt[int32(from)]-start)/1e6/n.ground.rtt(from, chosen))
}
