package desk

import (
	"context"
	"time"
)

// finishWithin is how long an order that is half done goes on after who gave it has hung up.
const finishWithin = 5 * time.Minute

// finish is for an order of several steps from the first one on that is durable: the others follow though who gave it has hung up, or the managers would know
// of different things. With a stopped manager's database it ends with who gave it: the next start reads what is there. done must be called.
func (d *Desk) finish(ctx context.Context) (out context.Context, done func()) {
	if d.m == nil {
		return ctx, func() {}
	}
	out, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		late := time.NewTimer(finishWithin)
		defer late.Stop()
		select {
		case <-late.C:
			cancel()
		case <-out.Done():
		}
	})
	return out, func() { stop(); cancel() }
}
