package upkeep

import (
	"context"
	"time"
)

// How the ledger is read beside everything else: a look begins so long after the last one has ended, and reads so many bytes a second.
const (
	checkFirst = time.Minute
	checkRate  = 8 << 20

	DefaultCheckEvery = 5 * time.Minute
)

// Scrub reads every byte of the ledger that is finished. If one is not what was written, nothing more is taken in, as storing would drop what
// is lost there for good. Run does the same by itself, more slowly.
func (u *Upkeep) Scrub(ctx context.Context) error { return u.ledger.Check(ctx, 0) }

// keepChecking reads the ledger again and again, and has it give back what it wastes when it was found whole: tidying drops what cannot be read.
func (u *Upkeep) keepChecking(ctx context.Context) {
	t := time.NewTimer(min(checkFirst, u.cfg.CheckEvery))
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		err := u.ledger.Check(ctx, checkRate)
		if err == nil {
			u.ledger.TidyStore(ctx)
		}
		if err != nil && ctx.Err() == nil && u.ledger.Damage() == nil { // damage was logged
			u.cfg.Log.Error("the database could not be looked at, will try again", "err", err)
		}
		t.Reset(u.cfg.CheckEvery)
	}
}
