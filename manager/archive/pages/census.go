package pages

import (
	"bytes"
	"context"
	"fmt"
	"time"

	pb "shoal/manager/archive/archivepb"
	"shoal/manager/archive/ledger"
	"shoal/manager/archive/schema"
	"shoal/manager/trust"
)

// Census counts pages that are there by how far what they show is believed. All pages of an archive from before that was kept are provisional.
type Census struct {
	Provisional uint64
	Verified    uint64
	Withdrawn   uint64 // nothing of them is shown
	Held        uint64 // of the others: an older version is shown, since the current one is in doubt or withdrawn
	At          time.Time
}

// How often Run counts pages: as seldom that it takes a hundredth of the time at most.
const (
	censusFirst = 10 * time.Second
	censusEvery = time.Minute
	censusTimes = 100
)

// Census counts the pages, and keeps the count for Figures.
func (p *Pages) Census(ctx context.Context) (c Census, err error) {
	c.At = p.cfg.Clock()
	err = p.ledger.View(func(snap ledger.Snapshot) error {
		m, t := new(pb.Page), new(pb.Trust)
		return snap.Scan([]byte{schema.Page}, nil, true, func(key, value []byte) (bool, error) {
			m.Reset()
			if err := schema.Decode(value, m); err != nil {
				return false, err
			}
			if m.Gone && !m.Withdrawn {
				return true, ctx.Err()
			}
			t.Reset()
			if _, err := ledger.Get(snap, append([]byte{schema.Trust}, bytes.Clone(key[1:])...), t); err != nil {
				return false, err
			}
			c.add(m, t)
			return true, ctx.Err()
		})
	})
	if err != nil {
		return Census{}, fmt.Errorf("count pages: %w", err)
	}
	p.census.Store(&c)
	return c, nil
}

func (c *Census) add(m *pb.Page, t *pb.Trust) {
	switch pageState(m, t) {
	case trust.Withdrawn:
		c.Withdrawn++
		return
	case trust.Verified:
		c.Verified++
	default:
		c.Provisional++
	}
	if s := stateIn(t.GetCur().GetState()); s != trust.None && !s.Shown() {
		c.Held++
	}
}

// pageState is how far what a page shows is believed.
func pageState(m *pb.Page, t *pb.Trust) trust.State {
	switch shown := shownOf(t); {
	case m.Withdrawn:
		return trust.Withdrawn
	case shown != nil && (shown.Digest == m.Digest || m.Digest == 0 && shown.Digest == t.Shows): // after a purge a page names no digest
		return trust.State(shown.State)
	}
	return trust.Provisional
}

// Recount has Run count the pages now, since many have gone.
func (p *Pages) Recount() {
	select {
	case p.recount <- struct{}{}:
	default: // it has been told
	}
}

// keepCounting counts pages from time to time until ctx ends.
func (p *Pages) keepCounting(ctx context.Context) {
	wait := time.NewTimer(censusFirst)
	defer wait.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-wait.C:
		case <-p.recount:
		}
		begun := time.Now()
		if _, err := p.Census(ctx); err != nil && ctx.Err() == nil {
			p.cfg.Log.Error("pages could not be counted, will try again", "err", err)
		}
		wait.Reset(max(censusEvery, censusTimes*time.Since(begun)))
	}
}
