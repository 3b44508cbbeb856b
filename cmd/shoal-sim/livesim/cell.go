package livesim

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"shoal/internal/lab/pond"
)

// run runs one network from its start to its end.
func (c *cell) run(ctx context.Context, bin, dir string) (row Row, err error) {
	row = Row{Strategy: c.Strategy, Load: c.Load, Churn: c.Churn, Scene: c.Scene, Seed: c.Seed, Minutes: c.Minutes, Cap: c.Cap, Weights: c.Weights}
	n, err := c.open(ctx, bin, dir)
	if err != nil {
		return row, err
	}
	defer n.close()
	begun := time.Now()
	n.begun = begun
	over, cancel := context.WithDeadline(ctx, begun.Add(time.Duration(c.Minutes*float64(time.Minute))))
	defer cancel()
	lived := make(chan error, 1)
	go func() {
		defer cancel()
		lived <- n.live(over)
	}()
	w, err := n.watch(over, begun)
	cancel()
	if err = errors.Join(err, <-lived, ctx.Err()); err != nil {
		return row, err
	}
	if len(w.series) == 0 {
		return row, errors.New("nothing was seen of it")
	}
	w.fill(&row)
	if row.PagesWasted, err = n.wasted(ctx); err != nil {
		return row, err
	}
	row.RTTBoundMS = round(n.bound(w), 1)
	costs := n.costs(w)
	row.FirstPassLeastS = round(c.firstPass(c.first(n.world), costs), 1)
	if late := c.last(n.world); len(late) > 0 {
		pass := w.passAfter(n.came())
		row.Burst = &Burst{AtS: round(n.came(), 1), PassS: &pass, PassLeastS: round(c.firstPass(late, costs), 1)}
	}
	row.PageMS, row.TaskMS = round(1000*costs.page, 1), round(1000*costs.task, 1)
	late := n.late(w)
	row.StartS = round(late, 1)
	return row, c.foretell(ctx, n.world, n.ports, costs, begun, stepped(n.moves, late), &row)
}

const lastWords = 2 * time.Second // for the manager to take in what the peers said when they left

// wasted is how many pages the pond served that the archive never heard of: the peers have left, and said all that they had.
func (n *network) wasted(ctx context.Context) (int64, error) {
	if err := wait(ctx, lastWords); err != nil {
		return 0, err
	}
	var served pond.Stats
	if err := get(ctx, "http://"+n.addr+"/_pond/stats", func(r io.Reader) error { return json.NewDecoder(r).Decode(&served) }); err != nil {
		return 0, fmt.Errorf("what the pond has served: %w", err)
	}
	var s sample
	if err := get(ctx, n.page+"/metrics", func(r io.Reader) (err error) { s, err = readMetrics(r); return err }); err != nil {
		return 0, err
	}
	return s.wasted(served.Pages), nil
}

// wasted is how many of the pages that were served came to nothing. Those that were looked at again, by peers or the manager, to find out who lies are for no archive.
func (s *sample) wasted(served int64) int64 {
	return max(served-int64(s.stored+s.unchanged+s.checked+s.ruled), 0)
}

// bound is the least mean round-trip time, in ms, with which the peers could have done the crawls that they did: each host's crawls take at least
// the time that they would take from the peer nearest to it, and each peer has its threads for as long as it was there.
func (n *network) bound(w *watched) float64 {
	tasks, pages, room := make([]float64, len(w.served)), make([]float64, len(w.served)), make([]float64, len(n.there))
	for i, v := range w.served {
		tasks[i], pages[i] = float64(v.tasks), float64(v.pages)
	}
	for i, s := range n.there {
		room[i] = s * float64(n.Threads)
	}
	return 1000 * n.scale(n.world, n.ports, n.costs(w)).LeastRTT(tasks, pages, room)
}

// forecast is what the simulator says of the cell; no network is run.
func (c *cell) forecast(ctx context.Context) (row Row, err error) {
	row = Row{Strategy: c.Strategy, Load: c.Load, Churn: c.Churn, Scene: c.Scene, Seed: c.Seed, Minutes: c.Minutes, Cap: c.Cap, Weights: c.Weights}
	ports := make([]int, c.Peers+1)
	for i := range ports {
		ports[i] = i + 1
	}
	world, err := c.world(time.Unix(0, 0), ports)
	if err != nil {
		return row, err
	}
	row.FirstPassLeastS = round(c.firstPass(c.first(world), usualCosts), 1)
	if late := c.last(world); len(late) > 0 {
		row.Burst = &Burst{AtS: c.burst(), PassLeastS: round(c.firstPass(late, usualCosts), 1)}
	}
	row.PageMS, row.TaskMS = 1000*usualCosts.page, 1000*usualCosts.task
	return row, c.foretell(ctx, world, ports, usualCosts, time.Unix(0, 0).Add(past), c.moves(), &row)
}
