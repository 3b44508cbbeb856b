package main

import (
	"context"
	"sync"
	"time"

	"shoal/channel"
	"shoal/internal/wire/uplink"
)

// refusers keeps peers that answered "busy" to an offer from claiming the task all the same: each offer carries the signed task, and a
// peer that refuses to many and claims first would take what others have accepted. What a peer was handed over later by one that leaves it may
// claim, so that a refusal counts for a while only.
type refusers struct {
	uplink.Archive
	now func() time.Time

	mu    sync.Mutex // guards all below
	until map[refusal]time.Time
	order []refusal // oldest first
}

type refusal struct {
	id   channel.ID
	gen  channel.Gen
	peer string
}

const (
	refusedFor = 30 * time.Second
	maxRefused = 16384 // refusals that are remembered
)

func newRefusers(a uplink.Archive, now func() time.Time) *refusers {
	return &refusers{Archive: a, now: now, until: map[refusal]time.Time{}}
}

// answered notes how a peer has answered an offer.
func (r *refusers) answered(peer string, h channel.Header, accepted bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	key := refusal{h.Channel, h.Gen, peer}
	if accepted {
		delete(r.until, key)
		return
	}
	if _, known := r.until[key]; !known {
		r.order = append(r.order, key)
	}
	r.until[key] = r.now().Add(refusedFor)
	for len(r.order) > maxRefused || len(r.order) > 0 && r.now().After(r.until[r.order[0]]) {
		delete(r.until, r.order[0])
		r.order = r.order[1:]
	}
}

// refused reports whether a peer has refused a task of late.
func (r *refusers) refused(peer string, h channel.Header) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.now().Before(r.until[refusal{h.Channel, h.Gen, peer}])
}

// Claim implements uplink.Archive. A peer that has refused is told what one is told whose task another holds.
func (r *refusers) Claim(ctx context.Context, peer string, task channel.Signed) (uplink.Claimed, error) {
	if h, err := channel.ParseHeader(task.Raw); err == nil && r.refused(peer, h) {
		return uplink.Claimed{Reply: uplink.Reply{Status: uplink.Fenced, Highest: h.Gen}}, nil
	}
	return r.Archive.Claim(ctx, peer, task)
}
