package pages

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	pb "shoal/manager/archive/archivepb"
	"shoal/manager/archive/ledger"
	"shoal/manager/archive/schema"
)

// Where several managers write to one ledger, each text is made once, by any of them: a manager takes a lot, the next stretch of the page feed, by a write that
// others see, and makes its texts. How far all are is where the first lot begins that is not done. A lot whose manager is gone goes to another.

// lotLate is how long a lot may take before others ask whether its manager is still there.
const lotLate = time.Minute

// lotLost has a manager look for lots that others have left, though nothing new is told; nil, where there are none.
func (p *Pages) lotLost() <-chan time.Time {
	if !p.ledger.Others.Shared() {
		return nil
	}
	return time.After(lotLate)
}

// texts is how far text extraction is, as it was read.
type texts struct {
	*pb.Progress
	was      ledger.Change // the condition that it is still so
	unwaited ledger.Change // and this, that no manager has waited for all others since
	purging  bool          // a purge of what peers delivered runs, or is to be gone on with
}

var textsKey = schema.ProgressKey(schema.Texts)

func (p *Pages) readTexts() (t texts, err error) {
	t.Progress = new(pb.Progress)
	err = p.ledger.View(func(snap ledger.Snapshot) (err error) {
		if t.was, err = ledger.As(snap, textsKey); err != nil {
			return err
		}
		if t.unwaited, err = p.ledger.Others.Unwaited(snap); err != nil {
			return err
		}
		if t.purging, err = snap.Get([]byte{schema.Withdrawal}, func([]byte) error { return nil }); err != nil || t.was.Value == nil {
			return err
		}
		return schema.Decode(t.was.Value, t.Progress)
	})
	t.Given = max(t.Given, t.Seq)
	return t, err
}

// mine is where among the lots this manager's is; -1: it has none.
func (p *Pages) mine(t texts) int {
	own := p.ledger.Others.Name()
	return slices.IndexFunc(t.Lots, func(l *pb.Lot) bool { return l.Writer == own })
}

// extractLot does one lot, and tells of how many changes it was. A purge may begin at any time: what was read before it is not stored after it.
func (p *Pages) extractLot(ctx context.Context) (int, error) {
	t, lot, changes, err := p.takeLot(ctx)
	if err != nil || lot == nil {
		if t.purging {
			return 1, err // it is asked again, though nothing new is told
		}
		return 0, err
	}
	p.text.set(t.Events, time.Time{})
	if len(changes) > 0 {
		p.text.set(t.Events, changes[0].When)
	}
	out, err := p.extractAll(ctx, changes)
	if err != nil {
		return 0, err
	}
	err = ledger.Revised(func() error {
		now, err := p.readTexts()
		if err != nil {
			return err
		}
		i := p.mine(now)
		if i < 0 || !proto.Equal(now.Lots[i], lot) {
			return nil // another manager took it for lost
		}
		if now.purging || !bytes.Equal(now.unwaited.Value, t.unwaited.Value) {
			return nil // the lot is done again, of what is there then
		}
		now.Lots = slices.Delete(now.Lots, i, i+1)
		now.Events += uint64(len(changes))
		now.Seq = now.Given
		for _, l := range now.Lots {
			now.Seq = min(now.Seq, l.After)
		}
		if err := p.putTexts(now, out); err != nil {
			return err
		}
		p.text.set(now.Events, time.Time{})
		return nil
	})
	return max(len(changes), 1), err
}

// putTexts stores how far text extraction is, with what else changes, if it is as it was read.
func (p *Pages) putTexts(t texts, more []ledger.Change) error {
	changes, err := ledger.Put(more, textsKey, t.Progress)
	if err != nil {
		return err
	}
	return p.ledger.Commit(&ledger.Job{Changes: ledger.Fixed(changes), Still: [2]ledger.Change{t.was, t.unwaited}})
}

// takeLot takes the next lot, or one that was left; nil: there is nothing to do.
func (p *Pages) takeLot(ctx context.Context) (t texts, lot *pb.Lot, changes []Change, err error) {
	err = ledger.Revised(func() error {
		lot, changes = nil, nil
		if t, err = p.readTexts(); err != nil || t.purging {
			return err
		}
		at := p.mine(t)
		if at < 0 {
			if at, err = p.lost(ctx, t); err != nil {
				return err
			}
		}
		if at >= 0 {
			lot = t.Lots[at]
			changes, err = p.changesOf(ctx, lot)
		} else {
			lot, changes, err = p.nextLot(ctx, t)
		}
		if err != nil || lot == nil {
			return err
		}
		own := p.ledger.Others.Name()
		if lot.Writer == own {
			return nil // it took this one before
		}
		lot.Writer, lot.TakenUs = own, schema.Micros(p.cfg.Clock())
		if at < 0 {
			t.Lots, t.Given = append(t.Lots, lot), lot.Upto
		}
		return p.putTexts(t, nil)
	})
	if lot == nil && err == nil && !t.purging {
		p.text.set(t.Events, time.Time{})
	}
	return t, lot, changes, err
}

// lost finds a lot whose manager is gone; -1: none is.
func (p *Pages) lost(ctx context.Context, t texts) (int, error) {
	for i, l := range t.Lots {
		if p.cfg.Clock().Sub(schema.Time(l.TakenUs)) < lotLate {
			continue
		}
		if gone, err := p.ledger.Others.Gone(ctx, l.Writer); err != nil || gone {
			return i, err
		}
	}
	return -1, nil
}

// nextLot begins where the last one ends; nil: nothing new was told.
func (p *Pages) nextLot(ctx context.Context, t texts) (*pb.Lot, []Change, error) {
	lot := &pb.Lot{After: t.Given}
	changes, next, err := p.Changes(ctx, p.ledger.Cursor(schema.Changes, t.Given), textBatch)
	trimmed := errors.Is(err, ledger.ErrTrimmed) // while no text was extracted, retention did not wait for it
	if trimmed {
		changes, next, err = p.Changes(ctx, "", textBatch)
	}
	if err != nil || len(changes) == 0 {
		return nil, nil, err
	}
	if trimmed { // who does the lot again reads it from there
		first, err := p.ledger.Position(schema.Changes, changes[0].Cursor)
		if err != nil {
			return nil, nil, err
		}
		lot.After = first - 1
	}
	lot.Upto, err = p.ledger.Position(schema.Changes, next)
	return lot, changes, err
}

// changesOf reads the changes of a lot that was taken before.
func (p *Pages) changesOf(ctx context.Context, lot *pb.Lot) (out []Change, err error) {
	changes, _, err := p.Changes(ctx, p.ledger.Cursor(schema.Changes, lot.After), textBatch)
	if errors.Is(err, ledger.ErrTrimmed) {
		return nil, nil
	}
	for _, c := range changes {
		at, perr := p.ledger.Position(schema.Changes, c.Cursor)
		if perr != nil {
			return nil, perr
		}
		if at <= lot.Upto {
			out = append(out, c)
		}
	}
	return out, err
}
