package manager

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"shoal/internal/plain"
	"shoal/manager/archive"
	"shoal/manager/trust"
)

// stateSentences names what was decided about peers and is not carried out yet, in the database.
const stateSentences = "trust-sentences"

// sentences carry out what is decided about peers: whether they are members, and what becomes of what they delivered. What fails is tried again, and told until it
// succeeds. What is not done when the manager ends, the next one does. Owned by the loop.
type sentences struct {
	au    *auditor
	open  map[sentenceKey]*sentence
	heard map[heardSentence]bool // of managers that have gone, which were gone on with here
	dirty bool                   // some were carried out since they were written
	write time.Time              // no earlier is written again what could not be written
}

type sentenceKey struct {
	peer  trust.Peer
	pages bool
}

// heardSentence tells decisions apart.
type heardSentence struct {
	sentenceKey
	barred bool
	at     int64
}

// sentence is one part of a decision about a peer.
type sentence struct {
	Peer   trust.Peer   `json:"peer"`
	Pages  bool         `json:"pages,omitempty"`  // it is about what the peer delivered; else about its membership
	Barred bool         `json:"barred,omitempty"` // the peer is suspended or banned; else it is pardoned
	Others []trust.Peer `json:"others,omitempty"` // of its account, that another manager has suspended
	At     time.Time    `json:"at"`               // when that was decided

	failed time.Time // when it first did; zero: it did not
	why    string
	next   time.Time // when it is tried again; zero: it is under way
	wait   time.Duration
}

// Pace of the tries.
const (
	sentenceFirst = 5 * time.Second
	sentenceLast  = 5 * time.Minute
	sentenceWrite = time.Minute // a write keeps the loop waiting as long as the database hangs
)

// Undone is a decision about a peer that could not be carried out. It is tried again.
type Undone struct {
	Peer    trust.Peer
	What    string // in words
	Why     string
	Since   time.Time
	Machine string `json:",omitempty"` // of the manager, if another one tells
}

func (x *sentence) key() sentenceKey { return sentenceKey{x.Peer, x.Pages} }

// pass has a decision carried out, in place of an earlier one. It is written before.
func (s *sentences) pass(now time.Time, x sentence) { s.try(now, s.note(now, x)) }

// note writes a decision, which is carried out when it is passed. What was noted and not decided in the end, as the manager was killed before the peer's standing was
// written, is dropped by the next one.
func (s *sentences) note(now time.Time, x sentence) *sentence {
	if s.open == nil {
		s.open = map[sentenceKey]*sentence{}
	}
	if x.At.IsZero() {
		x.At = now
	}
	s.open[x.key()] = &x
	s.keep()
	return &x
}

// pardoned are the peers of which it is written that they are pardoned, and what was withdrawn of them is not given back yet: by this manager before its start, and by the
// others.
func (s *sentences) pardoned(ctx context.Context) (map[trust.Peer]bool, error) {
	own, err := s.au.cfg.Store.State(ctx, stateSentences)
	all := [][]byte{own}
	if err == nil && s.au.tenancy != nil {
		var others [][]byte
		others, err = s.au.tenancy.Shared.Others(ctx, stateSentences)
		all = append(all, others...)
	}
	if err != nil {
		return nil, fmt.Errorf("read what was decided about peers: %w", err)
	}
	out := map[trust.Peer]bool{}
	for _, b := range all {
		var kept []sentence
		if json.Unmarshal(b, &kept) != nil {
			continue // it is told where it is gone on with
		}
		for _, x := range kept {
			out[x.Peer] = out[x.Peer] || x.Pages && !x.Barred
		}
	}
	return out, nil
}

// try has a clerk do what is to be done.
func (s *sentences) try(now time.Time, x *sentence) {
	x.next = time.Time{}
	do := s.membership(x)
	if x.Pages {
		do = func(ctx context.Context) error {
			if x.Barred {
				return s.au.cfg.Archive.Suspend(ctx, x.Peer)
			}
			return errors.Join(s.au.cfg.Archive.Pardon(ctx, x.Peer), s.au.cfg.Evidence.Pardon(ctx, x.Peer, x.At))
		}
	}
	if !s.au.clerks.add(0, func(ctx context.Context) {
		err := do(ctx)
		if ctx.Err() != nil {
			return // the next manager does it
		}
		s.au.post(ctx, func(now time.Time) { s.tried(now, x, err) })
	}) {
		s.tried(now, x, errTooMany)
	}
}

// membership ends the membership of a peer and of its account, or gives it back. The account stays barred while another peer of it is, here or at another manager.
func (s *sentences) membership(x *sentence) func(context.Context) error {
	i, _ := s.au.trust.Peer(x.Peer)
	p := s.au.peerTrust(i)
	alone := !x.Barred && len(s.au.trust.Convicted(i.Account))+len(x.Others) > 0
	return func(ctx context.Context) error {
		failed := s.au.identify(ctx, &p)
		for _, name := range []string{p.ID, p.Account} {
			if name != "" && (name == p.ID || !alone) {
				failed = errors.Join(failed, s.au.cfg.Bar(name, x.Barred))
			}
		}
		return failed
	}
}

// tried takes in what came of a try.
func (s *sentences) tried(now time.Time, x *sentence, err error) {
	if s.open[x.key()] != x {
		return // decided otherwise meanwhile
	}
	if err == nil {
		delete(s.open, x.key())
		s.dirty = true
		if x.why != "" {
			s.au.log.Info("a decision about a peer is carried out now", "number", archive.DelivererName(uint64(x.Peer)), "what", x.what())
		}
		return
	}
	if x.failed.IsZero() {
		x.failed = now
	}
	x.why, x.wait = plain.Error(err), min(max(2*x.wait, sentenceFirst), sentenceLast)
	x.next = now.Add(x.wait)
	s.au.log.Error("a decision about a peer is not carried out, and is tried again", "number", archive.DelivererName(uint64(x.Peer)), "what", x.what(), "in", x.wait, "err", err)
}

// what says in words what is to be done.
func (x *sentence) what() string {
	switch {
	case x.Pages && x.Barred:
		return "what it delivered is to be withdrawn"
	case x.Pages:
		return "what was withdrawn of it is to be given back"
	case x.Barred:
		return "its membership is to end"
	}
	return "it is to be a member again"
}

// tick tries again what has failed.
func (s *sentences) tick(now time.Time) {
	for _, x := range s.sorted() {
		if !x.next.IsZero() && (!now.Before(x.next) || x.next.Sub(now) > x.wait) {
			s.try(now, x)
		}
	}
	if s.dirty && (!now.Before(s.write) || s.write.Sub(now) > sentenceWrite) {
		if s.keep(); s.dirty {
			s.write = now.Add(sentenceWrite)
		}
	}
}

// sorted are the sentences in an order that stays.
func (s *sentences) sorted() []*sentence {
	all := make([]*sentence, 0, len(s.open))
	for _, x := range s.open {
		all = append(all, x)
	}
	slices.SortFunc(all, func(x, y *sentence) int {
		switch {
		case x.Peer != y.Peer && x.Peer < y.Peer, x.Peer == y.Peer && !x.Pages && y.Pages:
			return -1
		case x.key() == y.key():
			return 0
		}
		return 1
	})
	return all
}

// undone are those that have failed; of one peer, or with 0 of all.
func (s *sentences) undone(of trust.Peer) (out []Undone) {
	for _, x := range s.sorted() {
		if x.why != "" && (of == 0 || of == x.Peer) && len(out) < mostUndone {
			out = append(out, Undone{Peer: x.Peer, What: x.what(), Why: x.why, Since: x.failed})
		}
	}
	return out
}

const mostUndone = 100 // that are told

// keep writes what is not carried out yet.
func (s *sentences) keep() {
	b, err := json.Marshal(s.sorted())
	if err == nil {
		ctx, cancel := context.WithTimeout(context.Background(), moveWait)
		defer cancel()
		err = s.au.cfg.Store.PutState(ctx, s.au.epoch, stateSentences, b)
	}
	if s.dirty = err != nil; err != nil {
		s.au.log.Error("what was decided about peers, and is not carried out yet, is not written", "err", err)
	}
}

// restore goes on with what the manager before this one has not carried out, as far as that is still how it was decided.
func (s *sentences) restore(ctx context.Context, now time.Time) error {
	b, err := s.au.cfg.Store.State(ctx, stateSentences)
	if err != nil {
		return fmt.Errorf("read what was decided about peers: %w", err)
	}
	s.goOn(now, b)
	return nil
}

// goOn does what a manager has kept, this one before its start or one that has gone, as far as that is still how it was decided.
func (s *sentences) goOn(now time.Time, b []byte) {
	if len(b) == 0 {
		return
	}
	var kept []sentence
	if err := json.Unmarshal(b, &kept); err != nil {
		s.au.log.Error("what was decided about peers, and is not carried out yet, cannot be read; uphold or pardon again those who are concerned", "err", err)
		return
	}
	for _, x := range kept {
		h := heardSentence{x.key(), x.Barred, x.At.UnixNano()}
		p, known := s.au.trust.Peer(x.Peer)
		if _, again := s.open[x.key()]; !known || again || s.heard[h] || x.Barred != (p.Standing >= trust.Suspended) {
			continue
		}
		if s.heard == nil || len(s.heard) >= mostHeard {
			s.heard = map[heardSentence]bool{}
		}
		s.heard[h] = true
		s.pass(now, x)
	}
}

const mostHeard = 1 << 12
