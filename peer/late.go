package peer

import (
	"context"
	"errors"
	"time"

	"shoal/internal/again"
	"shoal/internal/wire"
)

// giveLate gives tasks back whose latest start has passed by this computer's clock. That clock may be ahead, and the manager would wait for
// their claims: the archive's clock decides whether they are too late. A task's file stays until the archive has answered, so that the next
// start asks again. After ctx ends it does not wait for an archive that is away; work ends when it must stop.
func (a *Agent) giveLate(ctx, work context.Context, late []task) {
	for _, t := range late {
		log := a.log.With("host", t.Header.Host, "gen", t.Header.Gen)
		err := a.giveBackSurely(ctx, work, t)
		switch {
		case err == nil:
			a.stats.add(func(c *Counters) { c.GivenBack++ })
			log.Info("task that this computer's clock took for late given back to the manager")
		case ctx.Err() != nil && !final(err):
			log.Info("late task stays for the next start", "why", err)
			continue
		default:
			a.stats.add(func(c *Counters) { c.Dropped++ })
			log.Info("task came too late to be started", "why", err)
		}
		a.tasks.given(keyOf(t.Header))
	}
}

// giveBackSurely gives a task back. It tries until the archive has answered, been away for a day, or ctx has ended.
func (a *Agent) giveBackSurely(ctx, work context.Context, t task) error {
	first := time.Now()
	for pace := again.Every(retries); ; {
		back := a.homecoming()
		err := a.giveBack(work, t)
		if err == nil || final(err) || time.Since(first) > outage || ctx.Err() != nil {
			return err
		}
		a.log.Debug("late task not given back", "host", t.Header.Host, "err", err)
		if err := pace.Wait(ctx, nil, back); err != nil {
			return err
		}
	}
}

// final reports whether an archive has answered so that asking again is no use.
func final(err error) bool {
	return errors.Is(err, errNotGranted) || errors.Is(err, wire.Malformed) || errors.Is(err, wire.Refused)
}
