package overlaysim

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"shoal/coords"
	"shoal/internal/sim"
	"shoal/overlay"
)

// Sampled is an overlay of so many members that their nodes do not fit a machine. A member's node is made when a message reaches it, with the table to which
// gossip leads: the members that are nearest to it, and in each ring some at random. Which of them it keeps the product's node decides. When a task is placed
// the nodes are dropped. What this cannot show is how long gossip takes to get there; that tables come out as in a network that was simulated whole, a test
// shows where both can be run.
type Sampled struct {
	Peers, Hosts, Tasks int
	Error               float64 // of predicted round-trip times, relative, median
	Seed                uint64
}

// Limits of Sampled.
const (
	MaxSampled = 2_000_000
	MinSampled = 100
)

// The members that a node has heard of when gossip has gone on for long, beside its own neighbours.
const (
	heardNear = 24 // the nearest
	heardRing = 12 // in each ring
	heardFar  = 60 // anywhere
	ringsFrom = 9
)

// compact is a network whose nodes are made when they are needed.
type compact struct {
	*network
	at     []coords.Coord // of each member, as it would have found it
	nearby *grid
	rng    *rand.Rand
	woken  []int
	sizes  []float64 // of the tables that were made
}

// Check says which numbers cannot be.
func (s Sampled) Check() error {
	if s.Peers < MinSampled || s.Peers > MaxSampled || s.Hosts < 1 || s.Hosts > MaxHosts || s.Tasks < 1 || !(s.Error >= 0 && s.Error <= 1) {
		return fmt.Errorf("%w: %d peers, %d hosts, %d tasks, error %v: want %d to %d peers, 1 to %d hosts, a task or more, an error of 0 to 1", ErrFlags, s.Peers, s.Hosts, s.Tasks, s.Error, MinSampled, MaxSampled, MaxHosts)
	}
	return nil
}

// Run places tasks. The rows are of lookups by members, each of which knows overlay.MaxTable others, of lookups by a manager, which knows overlay.MaxKnown, and of
// that manager's judge, which names one of those.
func (s Sampled) Run(ctx context.Context) ([]Row, error) {
	if err := s.Check(); err != nil {
		return nil, err
	}
	begun := time.Now()
	w, err := s.world()
	if err != nil {
		return nil, err
	}
	known := w.meetManager()
	base := Row{Peers: s.Peers, Hosts: s.Hosts, Places: Apart, Coordinates: "sampled", Churn: "none", Seed: s.Seed, CoordErr: w.coordErr()}
	lookups, managers, judge := &tally{name: "by members"}, &tally{name: "by a manager", tables: float64(len(known)), tableMost: len(known)}, newJudge(w.network, len(known))
	judge.tally.name = fmt.Sprintf("judge of %d", len(known))
	var nearest, random []float64
	for range s.Tasks {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		place := len(w.members) + w.tasks.IntN(s.Hosts)
		record := w.survey(place, known)
		if _, ok := record.Fit(w.network.rng); !ok {
			continue
		}
		judge.place(place, record, known)
		from := 1 + w.tasks.IntN(s.Peers)
		w.makeNode(from)
		w.place(lookups, from, place, record)
		w.place(managers, manager, place, record)
		best := math.Inf(1)
		for i := 1; i < len(w.members); i++ {
			best = min(best, w.ground.rtt(i, place))
		}
		nearest, random = append(nearest, best), append(random, w.ground.rtt(1+w.tasks.IntN(s.Peers), place))
	}
	base.Nearest50, base.Nearest90, base.Random50 = quantile(nearest, .5), quantile(nearest, .9), quantile(random, .5)
	for _, n := range w.sizes {
		lookups.tables += n / float64(len(w.sizes))
		lookups.tableMost = max(lookups.tableMost, int(n))
	}
	base.Seconds = seconds(begun)
	return []Row{lookups.row(base), managers.row(base), judge.tally.row(base)}, nil
}

// Whole places a few tasks in a network of so many peers that is simulated whole, and tells what its overlay cost.
func Whole(ctx context.Context, peers int, settle time.Duration, seed uint64) ([]Row, error) {
	c := Command{Peers: peers, Hosts: 1000, Tasks: 20, Places: Apart, Coordinates: "product", Overlay: "rings", Churn: "none", Settle: settle, Seed: seed, Seeds: 1, Lie: "far", Drift: 1}
	if err := c.check(); err != nil {
		return nil, err
	}
	return c.measure(ctx, seed)
}

// world makes the members, without their nodes.
func (s Sampled) world() (*compact, error) {
	g, err := newGround("", Apart, s.Peers+1, s.Hosts, false, sim.Rand(s.Seed, "ground"))
	if err != nil {
		return nil, err
	}
	w := &compact{network: &network{ground: g, rng: sim.Rand(s.Seed, "network"), tasks: sim.Rand(s.Seed, "tasks"), turns: sim.Rand(s.Seed, "churn"), places: coords.Default(),
		members: make([]member, s.Peers+1), offerAt: map[int32]int64{}, done: map[int]overlay.Event{}}, at: make([]coords.Coord, s.Peers+1), rng: sim.Rand(s.Seed, "sampled")}
	w.wake = w.makeNode
	w.deaf = func(_, _ int, m overlay.Msg) bool { _, is := m.(overlay.Gossip); return is } // it is over
	for i := range w.members {
		w.members[i].up = true
		w.members[i].tick = -1
	}
	shift := s.Error / w.misplace(1)
	w.misplace(shift)
	w.nearby = newGrid(w.at)
	return w, nil
}

// misplace gives each member the coordinate where it is, shifted by chance, and returns the median relative error of predictions.
func (w *compact) misplace(shift float64) float64 {
	rng := rand.New(rand.NewPCG(7, 7))
	for i := range w.at {
		p := w.ground.points[i]
		w.at[i] = coords.Coord{Err: coords.MinErr}
		w.at[i].Vec[0], w.at[i].Vec[1] = 2*p.X+shift*rng.NormFloat64(), 2*p.Y+shift*rng.NormFloat64()
	}
	return w.coordErr()
}

func (w *compact) coordErr() float64 {
	rng := rand.New(rand.NewPCG(8, 8))
	var errs []float64
	for range 4000 {
		a, b := rng.IntN(len(w.at)), rng.IntN(len(w.at))
		if a != b {
			truth := w.ground.rtt(a, b)
			errs = append(errs, math.Abs(coords.Distance(&w.at[a], &w.at[b])-truth)/truth)
		}
	}
	return quantile(errs, .5)
}

// record is what a member tells of itself.
func (w *compact) record(i int) overlay.PeerRecord {
	return overlay.PeerRecord{ID: overlay.ID("p" + strconv.Itoa(i)), Seq: 1, Issued: w.time(), Seen: w.time(), Coord: w.at[i], Load: overlay.Load{Threads: 1, Slots: 1}}
}

// makeNode makes a member's node, which has been there for long.
func (w *compact) makeNode(i int) {
	m := &w.members[i]
	m.id = overlay.ID("p" + strconv.Itoa(i))
	rng := rand.New(rand.NewPCG(uint64(i), 1))
	v, err := coords.NewNode(w.places, rng)
	if err == nil {
		err = v.Set(w.at[i])
	}
	cfg := overlay.Default(m.id)
	cfg.Places = i == manager
	if err == nil {
		m.node, err = overlay.New(w.time(), cfg, v, idle{}, rng)
	}
	if err != nil {
		panic(err) // the configuration does not depend on flags
	}
	m.tick = -1
	if i == manager {
		return
	}
	for _, k := range w.heard(i, rng) {
		w.meet(m.node, k)
	}
	w.woken, w.sizes = append(w.woken, i), append(w.sizes, float64(m.node.Size()))
}

func (w *compact) meet(n *overlay.Node, i int) {
	if err := n.Meet(w.time(), w.record(i)); err != nil {
		panic(err) // it was made above
	}
}

// heard are the members of which one has heard by now: some anywhere, some in each ring, and last those around it.
func (w *compact) heard(i int, rng *rand.Rand) (out []int) {
	add := func(k int) {
		if k != manager && k != i {
			out = append(out, k)
		}
	}
	for range heardFar {
		add(1 + rng.IntN(len(w.members)-1))
	}
	for ring := range ringsFrom {
		for range heardRing {
			far, turn := math.Exp2(float64(ring)+rng.Float64()), 2*math.Pi*rng.Float64()
			x, y := w.at[i].Vec[0]+far*math.Cos(turn), w.at[i].Vec[1]+far*math.Sin(turn)
			for _, k := range w.nearby.around(x, y, 1) {
				add(k)
			}
		}
	}
	for _, k := range w.nearby.around(w.at[i].Vec[0], w.at[i].Vec[1], heardNear) {
		add(k)
	}
	return out
}

// meetManager makes the manager's node, which knows as many members as it may, and returns those.
func (w *compact) meetManager() (known []overlay.PeerRecord) {
	w.makeNode(manager)
	for range min(overlay.MaxKnown, len(w.members)-1) {
		w.meet(w.members[manager].node, 1+w.rng.IntN(len(w.members)-1))
	}
	return w.members[manager].node.Known()
}

// place has a member place one task, and drops the nodes that were made for it.
func (w *compact) place(t *tally, from, place int, record coords.HostRecord) {
	start := w.now
	e, ok := w.placeOne(from, uint64(t.done+1), place, record)
	t.done++
	t.hops += e.Placed.Hops
	t.queries += e.Placed.Queries
	switch {
	case !ok || len(e.Found) == 0:
		t.empty++
	case e.Err == nil:
		w.compare(t, from, &e)
		chosen := w.who(e.Placed.Peer)
		t.placed++
		t.rtt = append(t.rtt, w.ground.rtt(chosen, place))
		t.stretch = append(t.stretch, float64(w.offerAt[int32(from)]-start)/1e6/w.ground.rtt(from, chosen))
	}
	for _, i := range w.woken {
		m := &w.members[i]
		m.node, m.life = nil, m.life+1
	}
	w.woken = w.woken[:0]
}

// compare notes whether the member was found that is predicted to be nearest to what was looked for.
func (w *compact) compare(t *tally, from int, e *overlay.Event) {
	best := math.Inf(1)
	for i := 1; i < len(w.at); i++ {
		if i == from {
			continue
		}
		best = min(best, coords.Distance(&w.at[i], &e.Goal))
	}
	k := slices.IndexFunc(e.Found[:min(8, len(e.Found))], func(p overlay.PeerRecord) bool { return coords.Distance(&p.Coord, &e.Goal) <= best+tie })
	if k == 0 {
		t.recall1++
	}
	if k >= 0 {
		t.recall8++
	}
}

// grid finds the nearest of many points: they lie in square cells, and it looks at rings of cells until none can hold a nearer one.
type grid struct {
	at         []coords.Coord
	minX, minY float64
	side       float64
	columns    int
	lines      int
	first      []int32 // of each cell in order; one more at the end
	order      []int32
}

// perCell is how many points a cell has on average.
const perCell = 4

func newGrid(at []coords.Coord) *grid {
	p := &grid{at: at, minX: math.Inf(1), minY: math.Inf(1)}
	maxX, maxY := math.Inf(-1), math.Inf(-1)
	for i := range at {
		x, y := at[i].Vec[0], at[i].Vec[1]
		p.minX, p.minY, maxX, maxY = min(p.minX, x), min(p.minY, y), max(maxX, x), max(maxY, y)
	}
	p.side = max(math.Sqrt((maxX-p.minX)*(maxY-p.minY)*perCell/float64(len(at))), 1e-6)
	p.columns, p.lines = int((maxX-p.minX)/p.side)+1, int((maxY-p.minY)/p.side)+1
	p.first, p.order = make([]int32, p.columns*p.lines+1), make([]int32, len(at))
	for i := range at {
		p.first[p.cell(i)+1]++
	}
	for c := range len(p.first) - 1 {
		p.first[c+1] += p.first[c]
	}
	next := slices.Clone(p.first)
	for i := range at {
		c := p.cell(i)
		p.order[next[c]] = int32(i)
		next[c]++
	}
	return p
}

func (p *grid) cell(i int) int {
	x, y := p.place(p.at[i].Vec[0], p.at[i].Vec[1])
	return y*p.columns + x
}

// place is the column and the line of a point, or the nearest that there are.
func (p *grid) place(x, y float64) (column, line int) {
	return min(max(int((x-p.minX)/p.side), 0), p.columns-1), min(max(int((y-p.minY)/p.side), 0), p.lines-1)
}

// around are the n points that are nearest to a place, the nearest first.
func (p *grid) around(x, y float64, n int) []int {
	var out []int
	var far []float64
	column, line := p.place(x, y)
	for r := 0; r <= p.columns+p.lines; r++ {
		if len(out) == n && far[n-1] < float64(r-1)*p.side { // from the place to the ring it is at least that far
			break
		}
		for l := max(line-r, 0); l <= min(line+r, p.lines-1); l++ {
			step := 1
			if l != line-r && l != line+r {
				step = max(2*r, 1) // the ring's two sides
			}
			for c := column - r; c <= column+r; c += step {
				if c < 0 || c >= p.columns {
					continue
				}
				for _, i := range p.order[p.first[l*p.columns+c]:p.first[l*p.columns+c+1]] {
					d := math.Hypot(p.at[i].Vec[0]-x, p.at[i].Vec[1]-y)
					k, _ := slices.BinarySearch(far, d)
					if k == n {
						continue
					}
					if len(out) == n {
						out, far = out[:n-1], far[:n-1]
					}
					out, far = slices.Insert(out, k, int(i)), slices.Insert(far, k, d)
				}
			}
		}
	}
	return out
}
