package manager

import (
	"context"

	"shoal/channel"
	"shoal/channel/order"
	"shoal/manager/archive"
)

// buildErrand makes an errand's task, and says how the archive is to have it. It is the channel's own as a peer has it that goes on with what another one has
// begun, but for digests and validators of the pages that are looked at. They stand as deep as they are; links that they had are done, so that none is followed
// but a new one. Seeds and URLs that the task names are done as well, as in a crawl that is nearly over. It runs beside the loop.
func (p *placers) buildErrand(ctx context.Context, j job) (m made, as archive.Errand, err error) {
	e := j.errand
	var looked []uint64
	for i := range e.pages {
		looked = append(looked, e.pages[i].hash)
	}
	if m, err = p.make(ctx, j, asked{id: e.pages[0].c.Channel, gen: j.as, latest: j.told, looked: looked}); err != nil {
		return m, as, err
	}
	as = archive.Errand{Lane: j.lane(), Until: j.Latest}
	for _, urls := range [][]string{m.parts.Seeds, m.parts.Inter} {
		for _, u := range urls {
			if c, err := channel.Canonical(u); err == nil {
				as.Done = append(as.Done, channel.URLHash(c))
			}
		}
	}
	as.Done = append(as.Done, m.known.Links...)
	depth := m.scope.MaxDepth
	if depth == 0 {
		depth = channel.DefaultDepth
	}
	for i := range e.pages {
		at := depth
		if order.Dynamic(e.pages[i].url) {
			at = order.DynamicDepth(depth)
		}
		if known, ok := m.known.Depths[e.pages[i].hash]; ok {
			at = min(at, known)
		}
		as.Rest = append(as.Rest, channel.Frontier{URL: e.pages[i].url, Depth: at})
	}
	return m, as, nil
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
	m, as, err := p.buildErrand(ctx, j)
	if err != nil {
		return t, false, err
	}
	return m.task, true, p.cfg.Archive.DepositAside(ctx, m.signed, m.body, as)
}
