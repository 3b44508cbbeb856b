package overlaysim

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"shoal/channel/lease"
	"shoal/coords"
	"shoal/internal/sim"
	"shoal/overlay"
)

// tally collects what one overlay did, a sample for each task.
type tally struct {
	name                   string
	rtt, stretch           []float64
	hops, queries          int
	recall1, recall8, done int
	placed, empty          int
	truly                  []float64 // from the true nearest, where that is not the round's
	tables                 float64
	tableMost              int
	messages               bool // it lives by the gossip that was counted
}

func (t *tally) row(base Row) Row {
	base.Overlay = t.name
	if t.done > 0 {
		n := float64(t.done)
		base.Hops, base.Queries, base.Success = float64(t.hops)/n, float64(t.queries)/n, float64(t.placed)/n
		base.Recall1, base.Recall8, base.Empty = float64(t.recall1)/n, float64(t.recall8)/n, t.empty
	}
	if t.truly != nil {
		base.Nearest50, base.Nearest90 = quantile(t.truly, .5), quantile(t.truly, .9)
	}
	base.TableMean, base.TableMax = t.tables, t.tableMost
	if !t.messages {
		base.Messages = 0
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

// open makes the network that the flags describe and lets it settle.
func (c *Command) open(ctx context.Context, seed uint64, queueOf func(i int) overlay.Queue) (*network, error) {
	g, err := newGround(c.Latency, c.Places, c.Peers+1, c.Hosts, c.KeepFaulty, sim.Rand(seed, "ground"))
	if err != nil {
		return nil, err
	}
	who := crowd{peers: c.Peers, liars: c.Liars, lie: c.Lie, drift: c.Drift, swallowers: c.Swallowers, seed: seed, places: placesBy(c.Coordinates), queueOf: queueOf}
	if c.Churn != "none" {
		paper := sim.PaperChurn()
		if c.Churn == "x17" {
			paper.Life, paper.LifeSpread, paper.Gap, paper.GapSpread = paper.Life/17, paper.LifeSpread/17, paper.Gap/17, paper.GapSpread/17
		}
		who.churn = &paper
	}
	n, err := newNetwork(g, who)
	if err != nil {
		return nil, err
	}
	return n, n.live(ctx, c.Settle)
}

// placesBy configures coordinates as --coordinates names them.
func placesBy(how string) coords.Config {
	cfg := coords.Default()
	switch how {
	case "springs":
		cfg.SolveFrom = 0
	case "serf":
		const never = 1e9
		cfg.SolveFrom, cfg.SettledGain, cfg.YoungPull, cfg.SettledPull, cfg.GateMADs, cfg.ErrFloor = 0, cfg.YoungGain, never, never, never, coords.MinErr
	case "solver":
		cfg.SolveFrom = 1
	}
	return cfg
}

// live lets time pass.
func (n *network) live(ctx context.Context, d time.Duration) error {
	for end := n.now + int64(d); n.now < end; {
		n.run(min(time.Minute, time.Duration(end-n.now)))
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return nil
}

func (c *Command) measure(ctx context.Context, seed uint64) ([]Row, error) {
	if c.Load > 0 {
		return c.measureLoad(ctx, seed)
	}
	begun := time.Now()
	n, err := c.open(ctx, seed, nil)
	if err != nil {
		return nil, err
	}
	base := c.base(n, seed)
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
	for k := range c.Repeat * len(r.visits) {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if k%10 == 9 {
			n.run(30 * time.Second)
		}
		r.again(&r.visits[k%len(r.visits)])
	}
	base.Messages = n.perMinute(gossips, since)
	base.Nearest50, base.Nearest90, base.Random50 = quantile(r.nearest.rtt, .5), quantile(r.nearest.rtt, .9), quantile(r.random.rtt, .5)
	if c.Plot != "" {
		if err := plotSwarm(c.Plot, c, n, nil); err != nil {
			return nil, err
		}
	}
	base.Seconds = seconds(begun)
	var rows []Row
	for _, t := range r.all {
		if c.wants(t.name) || r.judge != nil && t == &r.judge.apart || t == r.repeated && c.wants("rings") || len(t.name) > 3 && t.name[:3] == "can" && c.wants("can") {
			rows = append(rows, t.row(base))
			if r.judge != nil && t == &r.judge.apart && t.done > 0 {
				rows[len(rows)-1].Stayed = float64(r.judge.stayed) / float64(t.done)
			}
		}
	}
	return rows, nil
}

func seconds(since time.Time) float64 { return math.Round(time.Since(since).Seconds()*1000) / 1000 }

// perMinute is gossip a member and minute since a count and a time.
func (n *network) perMinute(gossips, since int64) float64 {
	up := 0.
	for i := range n.members {
		if n.members[i].up {
			up++
		}
	}
	return float64(n.gossips-gossips) / up / max(float64(n.now-since)/float64(time.Minute), 1e-9)
}

// base is what the rows of a run have in common.
func (c *Command) base(n *network, seed uint64) Row {
	return Row{Peers: c.Peers, Hosts: c.Hosts, Places: c.Places, Coordinates: c.Coordinates, Churn: c.Churn, Seed: seed, Load: c.Load, Faulty: n.ground.faulty, CoordErr: n.coordErr()}
}

// tables are the peers' tables' sizes, mean and most.
func (n *network) tables() (mean float64, most int) {
	sum, up := 0, 0
	for i := 1; i < len(n.members); i++ {
		if n.members[i].up {
			k := n.members[i].node.Size()
			sum += k
			up++
			most = max(most, k)
		}
	}
	return float64(sum) / float64(max(up, 1)), most
}

// coordErr is the median relative error of predictions between honest members.
func (n *network) coordErr() float64 {
	var errs []float64
	for range 4000 {
		a, b := n.someone(n.rng), n.someone(n.rng)
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
	visits                               []visit
	repeated                             *tally // nil: no task comes again
	judge                                *judge
}

func newRound(c *Command, n *network) *round {
	r := &round{c: c, n: n}
	mean, most := n.tables()
	up := n.ups()
	for _, t := range []struct {
		at   **tally
		like tally
	}{
		{&r.rings, tally{name: "rings", tables: mean, tableMost: most, messages: true}}, {&r.greedy, tally{name: "greedy", tables: mean, tableMost: most, messages: true}},
		{&r.full, tally{name: "full", tables: float64(len(up) - 1), tableMost: len(up) - 1}}, {&r.random, tally{name: "random"}}, {&r.nearest, tally{name: "nearest"}},
	} {
		*t.at = &t.like
		r.all = append(r.all, *t.at)
	}
	if c.wants("judge") {
		r.judge = newJudge(n, len(up))
		r.all = append(r.all, &r.judge.tally, &r.judge.apart)
	}
	if c.Repeat > 0 {
		r.repeated = &tally{name: "again", tables: mean, tableMost: most, messages: true}
		r.all = append(r.all, r.repeated)
	}
	if !c.wants("can") {
		return r
	}
	for d := 2; d <= 5; d++ {
		k := newCANOf(d, n)
		t := &tally{name: fmt.Sprintf("can%d", d)}
		t.tables, t.tableMost = k.state()
		r.cans, r.canTally, r.all = append(r.cans, k), append(r.canTally, t), append(r.all, t)
	}
	return r
}

// ups are the members that are up, the manager apart.
func (n *network) ups() []int {
	var up []int
	for i := 1; i < len(n.members); i++ {
		if n.members[i].up {
			up = append(up, i)
		}
	}
	return up
}

// takeOver is after how long CAN's neighbours have noticed that a member vanished.
const takeOver = 2 * time.Minute

// newCANOf makes a CAN of the members that are up, and lets it follow those that come and go. A member that comes
// back joins where it was, a new one when its coordinate has settled.
func newCANOf(dims int, n *network) *can {
	var at []coords.Coord
	up := n.ups()
	for _, i := range up {
		at = append(at, n.members[i].node.Coord())
	}
	c := newCAN(dims, up, at)
	c.up = func(i int) bool { return n.members[i].up }
	n.joined = append(n.joined, func(i int) {
		m := &n.members[i]
		if m.last.Err > 0 {
			c.join(i, c.key(&m.last))
			return
		}
		life := m.life
		n.after(driftFrom, func() { // it has never been here
			if m.up && m.life == life {
				at := m.node.Coord()
				c.join(i, c.key(&at))
			}
		})
	})
	n.left = append(n.left, func(i int, polite bool) {
		if polite {
			c.leave(i)
			return
		}
		life := n.members[i].life
		n.after(takeOver, func() {
			if m := &n.members[i]; !m.up && m.life == life {
				c.leave(i)
			}
		})
	})
	return c
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
	from := n.someone(n.rng)
	r.nearest.land(n.nearest(place, from), 1, 0)
	r.random.land(n.ground.rtt(n.someone(n.rng), place), 1, 1)
	known = n.but(from, known)
	r.full.land(n.ground.rtt(r.best(record, nearby(known, &at, 8)), place), 1, 1)
	if r.judge != nil {
		r.judge.place(place, record, known)
	}
	r.forward(from, place, at)
	for k, c := range r.cans {
		if _, in := c.zone[from]; in {
			path, lost := c.route(from, c.key(&at))
			r.canTally[k].land(n.ground.rtt(path[len(path)-1], place), n.pathStretch(path, lost), len(path)-1)
		}
	}
	if e, ok := r.place(r.rings, from, place, record, known); ok && r.repeated != nil {
		v := visit{place, record}
		r.learn(&v, e)
		r.visits = append(r.visits, v)
	}
}

// nearby are the n of some peers that are predicted to be nearest to a place, nearest first.
func nearby(known []overlay.PeerRecord, at *coords.Coord, n int) []overlay.PeerRecord {
	var out []overlay.PeerRecord
	var far []float64
	for i := range known {
		d := coords.Distance(&known[i].Coord, at)
		j, _ := slices.BinarySearch(far, d)
		if j == n {
			continue
		}
		if len(out) == n {
			out, far = out[:n-1], far[:n-1]
		}
		out, far = slices.Insert(out, j, known[i]), slices.Insert(far, j, d)
	}
	return out
}

// but are all of some peers but one.
func (n *network) but(from int, known []overlay.PeerRecord) []overlay.PeerRecord {
	return slices.DeleteFunc(known, func(p overlay.PeerRecord) bool { return p.ID == n.members[from].id })
}

// nearest is the shortest round-trip time to a place from any member that is up but one.
func (n *network) nearest(place, from int) float64 {
	best := math.Inf(1)
	for _, i := range n.ups() {
		if i != from {
			best = min(best, n.ground.rtt(i, place))
		}
	}
	return best
}

// visit is a Web host that a task was placed for, with what was learnt of it.
type visit struct {
	place  int
	record coords.HostRecord
}

// learn keeps what candidates measured while a task was placed, and what the crawl itself did.
func (r *round) learn(v *visit, e overlay.Event) {
	for _, s := range e.Placed.Samples {
		v.record.Add(s)
	}
	n, who := r.n, r.n.who(e.Placed.Peer)
	v.record.Add(coords.Sample{Vantage: string(e.Placed.Peer), At: n.members[who].node.Coord(), RTT: time.Duration(n.ground.rtt(who, v.place) * 1e6), When: n.time().Unix()})
}

// again places another task for a host that is known.
func (r *round) again(v *visit) {
	n := r.n
	from := n.someone(n.rng)
	r.repeated.truly = append(r.repeated.truly, n.nearest(v.place, from))
	if e, ok := r.place(r.repeated, from, v.place, v.record, n.but(from, n.records())); ok {
		r.learn(v, e)
	}
}

// tie is the difference in predicted round-trip time, in ms, below which two peers are equally near: latencies are measured in whole milliseconds and
// vary by more than that.
const tie = .5

// best is the one of some near peers that measured the shortest time or else is predicted to have it.
func (r *round) best(record coords.HostRecord, near []overlay.PeerRecord) int {
	at, _ := record.Fit(r.n.rng)
	chosen, least := 0, math.Inf(1)
	for _, s := range record.Samples {
		if who := r.n.who(overlay.ID(s.Vantage)); r.n.members[who].up && float64(s.RTT)/1e6 < least {
			chosen, least = who, float64(s.RTT)/1e6
		}
	}
	for _, p := range near {
		if d := coords.Distance(&p.Coord, &at); d < least {
			chosen, least = r.n.who(p.ID), d
		}
	}
	return chosen
}

// forward is greedy forwarding: each member passes the task to the nearest member to the host that it knows, until
// none is nearer. A member that is gone does not answer, and the next nearest is tried.
func (r *round) forward(from, place int, at coords.Coord) {
	path, lost := []int{from}, 0
	dead := map[int]bool{}
	for i := from; len(path) < 64; {
		own := r.n.members[i].node.Coord()
		next, least := -1, coords.Distance(&own, &at)
		for _, p := range r.n.members[i].node.Known() {
			if k := r.n.who(p.ID); k != manager && !dead[k] {
				if d := coords.Distance(&p.Coord, &at); d < least {
					next, least = k, d
				}
			}
		}
		if next < 0 {
			break
		}
		if !r.n.members[next].up {
			dead[next] = true
			lost++
			continue
		}
		i = next
		path = append(path, i)
	}
	r.greedy.land(r.n.ground.rtt(path[len(path)-1], place), r.n.pathStretch(path, lost), len(path)-1)
}

// pathStretch is the time along a path over the direct time. A message to a member that is gone costs a time-out.
func (n *network) pathStretch(path []int, lost int) float64 {
	last := path[len(path)-1]
	if path[0] == last {
		return 1
	}
	sum := float64(lost) * 2 * 1e3 * overlay.Default("").Timeout.Seconds() // the path is counted in round trips
	for k := 1; k < len(path); k++ {
		sum += n.ground.rtt(path[k-1], path[k])
	}
	return sum / n.ground.rtt(path[0], last)
}

// place lets a member place the task by the product's overlay. others are all that could be found; false: it was not placed.
func (r *round) place(t *tally, from, place int, record coords.HostRecord, others []overlay.PeerRecord) (e overlay.Event, ok bool) {
	n := r.n
	start, life := n.now, n.members[from].life
	e, ok = n.placeOne(from, uint64(t.done+1), place, record)
	if !n.members[from].up || n.members[from].life != life {
		return e, false // the placing member is gone
	}
	t.done++
	t.hops += e.Placed.Hops
	t.queries += e.Placed.Queries
	if !ok || len(e.Found) == 0 {
		t.empty++
		return e, false
	}
	goal := e.Goal
	now := func(p *overlay.PeerRecord) float64 {
		c := n.members[n.who(p.ID)].node.Coord()
		return coords.Distance(&c, &goal)
	}
	best := math.Inf(1)
	for i := range others {
		best = min(best, now(&others[i]))
	}
	for k := range e.Found[:min(8, len(e.Found))] {
		if n.members[n.who(e.Found[k].ID)].up && now(&e.Found[k]) <= best+tie {
			if k == 0 {
				t.recall1++
			}
			t.recall8++
			break
		}
	}
	if e.Err != nil {
		return e, false
	}
	chosen := n.who(e.Placed.Peer)
	t.rtt = append(t.rtt, n.ground.rtt(chosen, place))
	t.stretch = append(t.stretch, float64(n.offerAt[int32(from)]-start)/1e6/n.ground.rtt(from, chosen))
	// Who swallows the task does not claim it. It is handed out again, as often as a manager does.
	for tries := 1; n.members[chosen].swallows; tries++ {
		if tries == lease.DefaultHandouts {
			return e, false
		}
		n.run(claimWait)
		if !n.members[from].up || n.members[from].life != life {
			t.done-- // it would be another manager's now
			return e, false
		}
		n.members[from].node.Doubt(n.time(), e.Placed.Peer, n.time().Add(-claimWait))
		if e, ok = n.placeOne(from, uint64(t.done+1), place, record); !ok || e.Err != nil {
			return e, false
		}
		chosen = n.who(e.Placed.Peer)
	}
	t.placed++
	return e, true
}

// claimWait is the time after which a task counts as swallowed if no peer is busy.
const claimWait = 5 * time.Minute

// placeOne places a task and waits for what that came to.
func (n *network) placeOne(from int, req uint64, place int, record coords.HostRecord) (overlay.Event, bool) {
	delete(n.done, from)
	task := overlay.Task{}
	task.Header.Host = hostOf(place)
	task.Header.Pages, task.Header.Gap, task.Header.Latest = 100, time.Second, n.time().Add(time.Hour)
	n.send(from, n.members[from].node.Place(n.time(), req, task, record))
	return n.await(from)
}
