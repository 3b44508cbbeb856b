package livesim

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"shoal/internal/lab/pond"
	"shoal/internal/ports"
	"shoal/internal/sim"
)

// churn is who comes and goes: a life is a minute, as in the experiment of `make churn`, and two thirds end without a word.
var churn = sim.Churn{Life: 60, LifeSpread: 12, Gap: 36, GapSpread: 12, Polite: 1. / 3}

// past is how long the hosts have changed when a run begins. Some of the pond's processes have a memory, and are at rest at first.
const past = 6 * time.Hour

// network is the processes of a cell.
type network struct {
	*cell
	bin, dir string
	world    *pond.World
	ports    []int // the manager's, then the peers'
	pond     *process
	addr     string // of the pond
	manager  *process
	page     string // of the manager
	join     string

	mu    sync.Mutex
	peers []*process // nil: away
	there []float64  // seconds that each peer was there
	since []time.Time
	begun time.Time
	moves []move
	grown float64 // seconds until the late channels were there
}

// open starts the pond and the manager, and has the peers join.
func (c *cell) open(ctx context.Context, bin, dir string) (n *network, err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("a folder for the run: %w", err)
	}
	n = &network{cell: c, bin: bin, dir: dir, peers: make([]*process, c.Peers), there: make([]float64, c.Peers), since: make([]time.Time, c.Peers)}
	opened := n
	defer func() {
		if err != nil {
			opened.close()
		}
	}()
	for range c.Peers + 1 {
		port, err := ports.Free()
		if err != nil {
			return nil, err
		}
		n.ports = append(n.ports, port)
	}
	if n.world, err = c.world(time.Now().Add(-past), n.ports); err != nil {
		return nil, err
	}
	if err := n.startPond(ctx); err != nil {
		return nil, err
	}
	n.manager, err = start(bin, dir, "manager", true, "shoal", "manager", "--data", filepath.Join(dir, "manager"), "--listen", fmt.Sprintf("/ip4/127.0.0.1/tcp/%d", n.ports[0]),
		"--page", "127.0.0.1:0", "--pond", n.addr, "--strategy", c.Strategy, "--json")
	if err != nil {
		return nil, err
	}
	line, err := n.manager.firstLine(ctx)
	if err != nil {
		return nil, err
	}
	var said struct{ Join, Page string }
	if err := json.Unmarshal([]byte(line), &said); err != nil {
		return nil, fmt.Errorf("what the manager said of itself: %w", err)
	}
	n.join, n.page = said.Join, said.Page
	if err := n.operate(ctx); err != nil {
		return nil, err
	}
	for i := range n.peers {
		p, err := start(bin, dir, n.peerName(i)+"-join", false, "shoal-peer", "join", "--yes", n.join, "--data", n.peerDir(i))
		if err != nil {
			return nil, err
		}
		select {
		case <-p.done:
		case <-ctx.Done():
			p.kill()
			return nil, ctx.Err()
		}
		if p.err != nil {
			return nil, fmt.Errorf("a peer cannot join: %s", p.said())
		}
	}
	return n, nil
}

func (n *network) startPond(ctx context.Context) (err error) {
	port, err := ports.Free()
	if err != nil {
		return err
	}
	n.addr = net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	cfg := n.world.Config()
	var nodes []string
	for _, p := range n.ports {
		nodes = append(nodes, strconv.Itoa(p))
	}
	n.pond, err = start(n.bin, n.dir, "pond", false, "shoal", "pond", "--listen", n.addr, "--seed", fmt.Sprint(cfg.Seed), "--hosts", fmt.Sprint(cfg.Hosts),
		"--pages", fmt.Sprint(cfg.Pages), "--max-host", fmt.Sprint(cfg.MaxHost), "--start", cfg.Start.Format(time.RFC3339), "--nodes", strings.Join(nodes, ","))
	if err != nil {
		return err
	}
	for {
		if world, err := pond.Connect(ctx, n.addr); err == nil {
			n.world = world
			return nil
		}
		if !n.pond.running() {
			return fmt.Errorf("the pond has ended: %s", n.pond.said())
		}
		if err := wait(ctx, 50*time.Millisecond); err != nil {
			return err
		}
	}
}

func (n *network) peerName(i int) string { return fmt.Sprintf("peer-%03d", i+1) }
func (n *network) peerDir(i int) string  { return filepath.Join(n.dir, n.peerName(i)) }

// come starts a peer.
func (n *network) come(i int) error {
	p, err := start(n.bin, n.dir, n.peerName(i), false, "shoal-peer", "run", "--data", n.peerDir(i), "--pond", n.addr, "--port", strconv.Itoa(n.ports[i+1]), "--listen", "127.0.0.1",
		"--no-quic", "--no-low-priority", "--log-level", "warn", "--threads", strconv.Itoa(n.Threads), "--queue", strconv.Itoa(places), "--grace-s", "2")
	if err != nil {
		return err
	}
	n.mu.Lock()
	n.peers[i], n.since[i] = p, time.Now()
	n.moves = append(n.moves, move{n.since[i].Sub(n.begun).Seconds(), i, true, false})
	n.mu.Unlock()
	return nil
}

// leave ends a peer: politely, or without a word.
func (n *network) leave(i int, polite bool) {
	n.mu.Lock()
	p := n.peers[i]
	n.peers[i] = nil
	if p != nil {
		n.there[i] += time.Since(n.since[i]).Seconds()
		n.moves = append(n.moves, move{time.Since(n.begun).Seconds(), i, false, polite})
	}
	n.mu.Unlock()
	switch {
	case p == nil:
	case polite:
		p.end()
	default:
		p.kill()
	}
}

// live runs the peers, and the operator, until ctx ends; then they leave with a last word.
func (n *network) live(ctx context.Context) error {
	var wg sync.WaitGroup
	errs := make([]error, n.Peers+1)
	wg.Go(func() { errs[n.Peers] = n.grow(ctx) })
	for i := range n.Peers {
		wg.Go(func() { errs[i] = n.life(ctx, i) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// life is one peer's comings and goings, the same in every run of a seed.
func (n *network) life(ctx context.Context, i int) error {
	defer func() { n.leave(i, true) }()
	for _, m := range n.lives(i) {
		if wait(ctx, time.Until(n.begun.Add(seconds(m.at)))) != nil {
			return nil
		}
		if !m.comes {
			n.leave(i, m.polite)
		} else if err := n.come(i); err != nil {
			return err
		}
	}
	<-ctx.Done()
	return nil
}

func seconds(v float64) time.Duration { return time.Duration(v * float64(time.Second)) }

// ended names a process that ended by itself; nil: none.
func (n *network) ended() error {
	for _, p := range append([]*process{n.pond, n.manager}, n.running()...) {
		if !p.running() {
			return fmt.Errorf("%s has ended by itself: %s", p.name, p.said())
		}
	}
	return nil
}

func (n *network) running() (all []*process) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, p := range n.peers {
		if p != nil {
			all = append(all, p)
		}
	}
	return all
}

// close ends what still runs.
func (n *network) close() {
	for _, p := range append(n.running(), n.manager, n.pond) {
		if p != nil {
			p.end()
		}
	}
}
