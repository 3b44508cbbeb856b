package main

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"sync"
	"time"

	"shoal/internal/lab/pond"
	"shoal/internal/member"
	"shoal/internal/ports"
	"shoal/internal/version"
	"shoal/internal/wire"
	"shoal/peer"
	"shoal/peer/limit"
)

// swimmers are the peers that `up` runs in its own process, each with its own identity, certificate, coordinate and folder.
type swimmers struct {
	n    int
	dir  string
	pond *pond.Server
	log  *slog.Logger
	// own is told of each peer's identity before it runs; nil: nobody is.
	own func(id string)

	mu    sync.Mutex
	ports map[string]int // by peer id
}

func (w *swimmers) run(asked context.Context, join string) error {
	ctx, cancel := context.WithCancelCause(asked)
	defer cancel(nil)
	var wg sync.WaitGroup
	for i := range w.n {
		cfg, err := w.config(i, join)
		if err != nil {
			cancel(err)
			break
		}
		a, err := peer.New(cfg)
		if err != nil {
			cancel(err)
			break
		}
		wg.Add(1)
		go func() {
			defer wg.Done()
			if err := w.one(ctx, a, cfg); err != nil && ctx.Err() == nil {
				cancel(fmt.Errorf("peer %d: %w", i+1, err))
			}
		}()
	}
	wg.Wait()
	return endedBy(asked, ctx)
}

// one runs one peer, and notes its port by its identity.
func (w *swimmers) one(ctx context.Context, a *peer.Agent, cfg peer.Config) error {
	if err := os.MkdirAll(cfg.Dir, 0o700); err != nil {
		return fmt.Errorf("make its folder: %w", err)
	}
	seed, err := member.LoadOrCreateNode(cfg.Dir)
	if err != nil {
		return err
	}
	id, err := wire.PeerID(seed)
	if err != nil {
		return err
	}
	w.mu.Lock()
	if w.ports == nil {
		w.ports = map[string]int{}
	}
	w.ports[id.String()] = tcpPort(cfg.Listen)
	w.mu.Unlock()
	if w.own != nil {
		w.own(id.String())
	}
	return a.Run(ctx)
}

// places are the ports of the peers that run, by their ids.
func (w *swimmers) places() map[string]int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return maps.Clone(w.ports)
}

func (w *swimmers) config(i int, join string) (peer.Config, error) {
	port, err := ports.Free()
	if err != nil {
		return peer.Config{}, err
	}
	cfg := peer.Default()
	cfg.Dir = filepath.Join(w.dir, fmt.Sprintf("%03d", i+1))
	cfg.Join, cfg.Version, cfg.Grace = join, version.String(), leaveTime
	cfg.Listen, cfg.QUIC = []string{fmt.Sprintf("/ip4/127.0.0.1/tcp/%d", port)}, false
	cfg.Log = w.log.With("peer", i+1)
	if w.pond == nil {
		return cfg, nil
	}
	world := w.pond.World()
	world.Settle(port, i+1) // after the manager: what was measured in an earlier run stays true
	if cfg.Roots, err = world.Roots(); err != nil {
		return cfg, err
	}
	guard := &limit.Guard{Pond: world.HTTPDialer(port)}
	cfg.Dial, cfg.Dialer, cfg.MinGap = guard.DialContext, pondDialer(world, port), pond.Gap
	return cfg, nil
}

// leaveTime is what peers have to hand over when the whole network ends.
const leaveTime = 2 * time.Second
