package manager

import (
	"context"
	"maps"
	"slices"
	"time"

	"shoal/channel"
	"shoal/manager/share"
)

// need is what a manager tells the others of its part of the swarm.
type need struct {
	Tenancy channel.Epoch
	share.Need
}

// quotaEvery is how many ticks lie between two moves of quotas. Strategies change what they ask for as often.
const quotaEvery = 10

// moveQuotas has the strategy count on the part of the swarm that is this manager's, by what all managers have told: capacity moves to where the next
// crawl is worth most. Then it tells the others. One that takes no hosts has no part.
func (t *tenancy) moveQuotas(ctx context.Context, tenure *channel.Tenure) {
	now := t.cfg.Now()
	if t.Idle || now.Sub(t.moved) < quotaEvery*t.cfg.Tick {
		return
	}
	t.moved = now
	maps.DeleteFunc(t.needs, func(id channel.Epoch, _ share.Need) bool { // what those told that have gone
		return !slices.ContainsFunc(tenure.Tenants, func(x channel.Tenancy) bool { return x.ID == id })
	})
	mine := t.needs[t.epoch]
	if err := t.onLoop(ctx, func(time.Time) { mine.Price = t.sched.Strategy().Price() }); err != nil {
		return
	}
	mine.Share = t.quota(tenure, mine)
	if err := t.onLoop(ctx, func(time.Time) { t.machine.Share = mine.Share }); err != nil {
		return
	}
	t.needs[t.epoch] = mine
	if err := t.mention(ctx, noteNeed, noted{Need: &need{t.epoch, mine}}); err != nil && ctx.Err() == nil {
		t.log.Warn("the other managers do not hear what this one needs, will try again", "err", err)
	}
}

// quota is this manager's part of the swarm, of those that stay.
func (t *tenancy) quota(tenure *channel.Tenure, mine share.Need) float64 {
	var needs []share.Need
	me := 0
	for i := range tenure.Tenants {
		switch x := &tenure.Tenants[i]; {
		case x.ID == t.epoch:
			me = len(needs)
			needs = append(needs, mine)
		case !x.Leaving:
			needs = append(needs, t.needs[x.ID])
		}
	}
	if len(needs) == 0 {
		return 1
	}
	return share.Quotas(needs)[me]
}
