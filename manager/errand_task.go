package manager

import (
	"context"
	"crypto/sha256"
	"fmt"

	"shoal/channel"
	"shoal/channel/order"
	"shoal/manager/archive"
)

const errandTold = 256 // digests of an errand's task, of pages that are not looked at

// errandTask is an errand's task, with what its peer is told is left of the crawl.
type errandTask struct {
	task
	rest []channel.Frontier
}

// buildErrand makes an errand's task. It is like the channel's own when a peer goes on with what another one has begun: scope, settings, budget, and digests of
// pages that peers may be told, but not of those that are looked at. These stand at the greatest depth, so that no link of theirs is followed. It
// runs beside the loop.
func (p *placers) buildErrand(ctx context.Context, j job) (t errandTask, err error) {
	e, id := j.errand, j.errand.pages[0].c.Channel
	ch, err := p.cfg.Store.Channel(ctx, id)
	if err != nil {
		return t, fmt.Errorf("read channel %d: %w", id, err)
	}
	host := j.host
	if host == nil {
		h, err := p.cfg.Store.Host(ctx, e.host)
		if err != nil {
			return t, fmt.Errorf("read host %s: %w", e.host, err)
		}
		host = &h
	}
	depth := ch.Scope.MaxDepth
	if depth == 0 {
		depth = channel.DefaultDepth
	}
	var looked []uint64
	for i := range e.pages {
		at := depth
		if order.Dynamic(e.pages[i].url) {
			at = order.DynamicDepth(depth)
		}
		t.rest = append(t.rest, channel.Frontier{URL: e.pages[i].url, Depth: at})
		looked = append(looked, e.pages[i].hash)
	}
	told, err := p.cfg.Archive.Told(ctx, id, errandTold, looked)
	if err != nil {
		return t, err
	}
	body := channel.Body{Scope: ch.Scope, Seeds: ch.Seeds, Settings: ch.Settings, Digests: told, Record: host.Record, Contact: p.cfg.Contact}
	raw := body.Marshal()
	budget := p.budget(&ch)
	h := channel.Header{
		Network: p.cfg.Network, Channel: id, Gen: j.as, Host: e.host, Pages: min(max(ch.Learnt.Pages, len(e.pages)), budget), Budget: max(budget, len(e.pages)+1),
		Issued: j.Issued, Latest: j.Latest, Gap: max(p.cfg.Gap, host.CrawlDelay), Archive: p.archive(id), BodySHA256: sha256.Sum256(raw), BodyBytes: len(raw),
	}
	signed, err := p.cfg.Sign(h)
	if err != nil {
		return t, fmt.Errorf("sign an errand to %s: %w", e.host, err)
	}
	t.task = task{header: h, signed: signed, body: raw, record: host.Record}
	return t, nil
}

// lane is where the archive has an errand's task.
func (j *job) lane() archive.Lane { return archive.Lane{Channel: j.id, Gen: j.Gen} }

// deposit builds a job's task, and leaves it at the archive.
func (p *placers) deposit(ctx context.Context, j job) (t task, built bool, err error) {
	if j.errand == nil {
		if t, err = p.build(ctx, j); err != nil {
			return t, false, err
		}
		return t, true, p.cfg.Archive.Deposit(ctx, t.signed, t.body)
	}
	e, err := p.buildErrand(ctx, j)
	if err != nil {
		return t, false, err
	}
	return e.task, true, p.cfg.Archive.DepositAside(ctx, e.signed, e.body, e.rest, j.lane())
}
