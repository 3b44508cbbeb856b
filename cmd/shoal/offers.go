package main

import (
	"context"
	"sync"
	"time"

	"shoal/channel"
	"shoal/internal/wire/uplink"
	"shoal/overlay/p2p"
)

// offers lets only those claim a task who may have it: a peer that accepted an offer of it, one that was asked and whose answer is not known,
// and one to which such a peer has handed it over. Each offer carries the signed task, so that a peer that answers "busy" to all of them, or an
// accomplice, could otherwise claim first what others have accepted. A task of which this process has made no offers may be claimed by any
// member: the manager has been started since, or it is another process.
type offers struct {
	uplink.Archive
	now func() time.Time

	mu    sync.Mutex // guards all below
	made  map[handingOut]*offered
	order []handingOut // oldest first
}

// handingOut is a task.
type handingOut struct {
	id  channel.ID
	gen channel.Gen
}

// offered is to whom a task was offered, and what each has said.
type offered struct {
	until time.Time // the task starts until then, or not at all
	said  map[string]p2p.Answer
}

// maxOffered bounds the tasks whose offers are remembered. Of more, the oldest may be claimed by any member.
const maxOffered = 1 << 15

func newOffers(a uplink.Archive, now func() time.Time) *offers {
	return &offers{Archive: a, now: now, made: map[handingOut]*offered{}}
}

// note takes in an offer, or the answer to one.
func (o *offers) note(peer string, h channel.Header, said p2p.Answer) {
	o.mu.Lock()
	defer o.mu.Unlock()
	key := handingOut{h.Channel, h.Gen}
	m := o.made[key]
	if m == nil {
		if said != p2p.NoAnswer {
			return // it is over
		}
		m = &offered{until: h.Latest, said: map[string]p2p.Answer{}}
		o.made[key] = m
		o.order = append(o.order, key)
	}
	m.said[peer] = said
	for len(o.order) > maxOffered || len(o.order) > 0 && o.now().After(o.made[o.order[0]].until) {
		delete(o.made, o.order[0])
		o.order = o.order[1:]
	}
}

// may reports whether a peer may claim a task.
func (o *offers) may(peer string, key handingOut, task channel.Signed) bool {
	o.mu.Lock()
	m := o.made[key]
	o.mu.Unlock()
	if m == nil {
		return true
	}
	giver, err := p2p.Giver(task, peer)
	if err != nil {
		return false
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	said, asked := m.said[giver]
	return asked && said != p2p.Refused
}

// Claim implements uplink.Archive. A peer that may not have the task is told what one is told whose task another holds.
func (o *offers) Claim(ctx context.Context, peer string, task channel.Signed) (uplink.Claimed, error) {
	h, err := channel.ParseHeader(task.Raw)
	if err != nil {
		return o.Archive.Claim(ctx, peer, task)
	}
	if !o.may(peer, handingOut{h.Channel, h.Gen}, task) {
		return uplink.Claimed{Reply: uplink.Reply{Status: uplink.Fenced, Highest: h.Gen}}, nil
	}
	return o.Archive.Claim(ctx, peer, task)
}
