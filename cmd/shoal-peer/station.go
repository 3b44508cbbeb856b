package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"shoal/peer"
	"shoal/peer/control"
	"shoal/peer/crawl"
	"shoal/peer/limit"
	"shoal/peer/page"
)

// station is what `run` runs: it serves API and page all the time, and runs a peer while its folder is a member of a network. Without a
// network it waits until its volunteer joins one, at the page or with `shoal-peer join`.
type station struct {
	cmd   *runCmd
	file  string // of settings
	named bool   // the file was named by --config
	env   []string
	out   io.Writer
	log   *slog.Logger
	level *slog.LevelVar
	last  *lastTrouble
	begun time.Time

	poke chan struct{} // the folder may be a member now

	mu      sync.Mutex
	set     settings
	peer    *program // nil: none runs
	offer   *peer.Offer
	offered string // the join string of the offer

	saving sync.Mutex // one change of the settings file at a time

	updates *updater
}

// memberEvery is how often a station without a network looks whether `shoal-peer join` has joined one.
const memberEvery = time.Second

// errAgain ends a peer that comes back with other settings.
var errAgain = errors.New("the peer comes back with other settings")

func (s *station) run(ctx context.Context) error {
	unlock, err := peer.LockRun(s.set.Data)
	if err != nil {
		return err
	}
	defer unlock()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	aside, end := context.WithCancel(context.WithoutCancel(ctx)) // so that status and limits answer while the peer leaves
	s.updates = newUpdater(s, s.cmd.Minute)
	var updating sync.WaitGroup
	defer func() { cancel(); updating.Wait() }()
	updating.Go(func() { s.updates.run(ctx, cancel) })
	served, ready := make(chan error, 1), make(chan struct{})
	go func() {
		served <- control.Serve(aside, s.set.Data, s.set.Control, control.Handlers{API: s.api(), Page: page.Files(), Enter: http.HandlerFunc(page.Enter), Shut: http.HandlerFunc(page.Shut), Ready: func() { close(ready) }, Lost: s.lost})
		cancel()
	}()
	select {
	case <-ready: // who is told that a peer runs can ask it
		err = s.peers(ctx)
	case <-ctx.Done():
	}
	end()
	if err = errors.Join(err, <-served); err == nil && s.updates.done() {
		return errSwap
	}
	return err
}

// lost logs that commands cannot find the peer, or can again.
func (s *station) lost(err error) {
	if err != nil {
		s.log.Error("commands such as shoal-peer status do not find this peer until the file for that can be written; make room on the disk if it is full", "err", err)
		return
	}
	s.log.Info("commands find this peer again")
}

// peers runs a peer after the other.
func (s *station) peers(ctx context.Context) error {
	var before *program
	for said := false; ; {
		switch is, err := peer.IsMember(s.settings().Data); {
		case err != nil:
			return err
		case !is:
			if !said {
				fmt.Fprintln(s.out, "This computer has joined no network yet. Join one at its page, which shoal-peer open opens, or with: shoal-peer join JOIN-STRING")
				said = true
			}
			if err := s.wait(ctx); err != nil {
				return nil // told to end before it has joined
			}
			continue
		}
		if err := s.takeUp(); err != nil { // shoal-peer join has written limits beside this process
			return err
		}
		p := s.newProgram(before)
		before = p
		err := p.run(ctx, s.cmd.Pond, s.cmd.Unpaced, s.out)
		s.mu.Lock()
		s.peer = nil
		s.mu.Unlock()
		if !errors.Is(err, errAgain) {
			return err
		}
	}
}

// leaveWait bounds the wait for the command that has the peer leave to delete the membership. A service that started the peer again before
// would take it up once more.
const leaveWait = 30 * time.Second

// wait waits until the folder may be a member.
func (s *station) wait(ctx context.Context) error {
	t := time.NewTimer(memberEvery)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-s.poke:
	case <-t.C:
	}
	return nil
}

func (s *station) settings() settings {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.set
}

// newProgram makes a peer with the settings of now, for which holds what its volunteer has told the one before it, if there was one.
func (s *station) newProgram(before *program) *program {
	p := &program{set: s.settings(), log: s.log, level: s.level, turns: crawl.NewTurns(), joined: s.poke, again: make(chan struct{}), wake: make(chan struct{}, 1), lists: make(chan struct{}, 1), webAtHome: s.cmd.AtHome}
	if before != nil {
		p.before, p.nets.wishes = before.limits, before.nets.allWishes()
	}
	p.ready = func() {
		s.mu.Lock()
		s.peer = p
		s.mu.Unlock()
	}
	return p
}

// running returns the peer that runs, or nil.
func (s *station) running() *program {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.peer
}

// errNotJoined is for what only a member can do.
var errNotJoined = errors.New("this computer has joined no network yet; join one at its page, which shoal-peer open opens, or with: shoal-peer join JOIN-STRING")

// startWait bounds how long an order waits for a peer that is about to start.
const startWait = 20 * time.Second

// live returns the peer that runs. It waits for one that is about to start.
func (s *station) live(ctx context.Context) (*program, error) {
	ctx, cancel := context.WithTimeout(ctx, startWait)
	defer cancel()
	for {
		if p := s.running(); p != nil {
			return p, nil
		}
		if is, err := peer.IsMember(s.settings().Data); err != nil || !is {
			return nil, cmp.Or(err, errNotJoined)
		}
		select {
		case <-ctx.Done():
			return nil, errors.New("the peer is about to start; try again in a moment")
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// limits returns the limits of the peer that runs, or those that a peer would begin with.
func (s *station) limits(ctx context.Context) *limit.Limits {
	if p := s.running(); p != nil {
		return p.limits
	}
	set := s.settings()
	p := &program{set: set, log: slog.New(slog.DiscardHandler), limits: limit.New(set.Settings, byDefault, nil), meter: limit.NewMeter(nil)}
	p.limits.SetSources(set.from)
	newPolicies(p).read(ctx, time.Now())
	return p.limits
}

// journal returns what a folder has recorded, also while no peer runs.
func (s *station) journal() (*peer.Journal, error) {
	if p := s.running(); p != nil {
		return p.journal, nil
	}
	set := s.settings()
	if _, err := os.Stat(set.journal()); err != nil {
		return nil, nil // nothing yet
	}
	return peer.OpenJournal(set.journal())
}

func historyFile(data string) string { return filepath.Join(data, "history") }
