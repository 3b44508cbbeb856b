package upkeep

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"shoal/channel"
	pb "shoal/manager/archive/archivepb"
	"shoal/manager/archive/ledger"
	"shoal/manager/archive/pages"
	"shoal/manager/archive/schema"
)

// Withdrawn tells what a purge of deliverers took back.
type Withdrawn struct {
	Deliverers int          `json:"deliverers"` // peers
	Pages      int          `json:"pages"`      // that have another version now, or none
	Captures   int          `json:"captures"`
	Channels   []channel.ID `json:"channels,omitempty"` // whose pages they were, to be crawled first
}

// withdrawBatch is how many URLs are done with one write.
const withdrawBatch = 250

// Withdraw takes back everything that a peer, or any peer of an account, has delivered: its captures, and visits by others that only said of its versions
// that they are unchanged. A page gets its newest version that is left; without a digest, so that the next crawl fetches it in full. The feed says of each
// page that it was withdrawn. It goes on where an earlier one broke off, also after a kill.
func (u *Upkeep) Withdraw(ctx context.Context, name string) (Withdrawn, error) {
	who, err := u.ledger.Deliverers(ctx, name)
	if err != nil || len(who) == 0 {
		return Withdrawn{}, err
	}
	w, err := u.pendingWithdrawal()
	if err != nil {
		return Withdrawn{}, err
	}
	for _, d := range who {
		if !slices.Contains(w.Deliverers, d.Number) {
			w.Deliverers = append(w.Deliverers, d.Number)
			w.After = nil // what was looked at may have been delivered by this one
		}
	}
	out, err := u.withdraw(ctx, w)
	out.Deliverers = len(who)
	return out, err
}

// resumeWithdrawal goes on with one that broke off.
func (u *Upkeep) resumeWithdrawal(ctx context.Context) error {
	w, err := u.pendingWithdrawal()
	if err != nil || len(w.Deliverers) == 0 {
		return err
	}
	out, err := u.withdraw(ctx, w)
	if err != nil {
		return err
	}
	u.cfg.Log.Info("a purge that had broken off is done", "pages", out.Pages, "captures", out.Captures)
	if u.cfg.OnWithdrawn != nil {
		u.cfg.OnWithdrawn(out.Channels)
	}
	return nil
}

var withdrawalKey = []byte{schema.Withdrawal}

// pendingWithdrawal reads what is still to be done; an empty one: nothing.
func (u *Upkeep) pendingWithdrawal() (*pb.Withdrawal, error) {
	w := new(pb.Withdrawal)
	err := u.ledger.View(func(snap ledger.Snapshot) error {
		_, err := ledger.Get(snap, withdrawalKey, w)
		return err
	})
	return w, err
}

func (u *Upkeep) withdraw(ctx context.Context, w *pb.Withdrawal) (out Withdrawn, err error) {
	u.one.Lock()
	defer u.one.Unlock()
	defer u.pages.PauseText()()
	if w.BegunUs == 0 {
		w.BegunUs = schema.Micros(u.cfg.Clock())
	}
	if err := u.saveWithdrawal(w); err != nil {
		return out, err
	}
	for more := true; more; {
		urls, last, err := u.tainted(ctx, w)
		if err != nil {
			return out, fmt.Errorf("withdraw: %w", err)
		}
		if more = len(last) > 0; !more {
			break
		}
		w.After = last
		if err := u.withdrawPages(ctx, w, urls); err != nil {
			return out, fmt.Errorf("withdraw: %w", err)
		}
	}
	if err := u.withdrawTold(ctx, w); err != nil {
		return out, fmt.Errorf("withdraw from the feed: %w", err)
	}
	if err := u.ledger.Change(ledger.Change{Key: withdrawalKey}); err != nil {
		return out, err
	}
	select {
	case u.purged <- struct{}{}:
	default: // it has been told
	}
	out = Withdrawn{Deliverers: len(w.Deliverers), Pages: int(w.Pages), Captures: int(w.Captures)}
	for _, id := range w.Channels {
		out.Channels = append(out.Channels, channel.ID(id))
	}
	return out, nil
}

func (u *Upkeep) saveWithdrawal(w *pb.Withdrawal) error {
	changes, err := ledger.Put(nil, withdrawalKey, w)
	if err != nil {
		return err
	}
	return u.ledger.Change(changes...)
}

// tainted finds the next URLs of which one of the deliverers has a capture, and the key up to which it looked; none: it looked at all.
func (u *Upkeep) tainted(ctx context.Context, w *pb.Withdrawal) (urls []string, last []byte, err error) {
	from := []byte{schema.Capture}
	if len(w.After) > 0 {
		from = append(bytes.Clone(w.After), 0)
	}
	m := new(pb.Capture)
	var surt string
	err = u.ledger.View(func(snap ledger.Snapshot) error {
		return snap.Scan([]byte{schema.Capture}, from, true, func(key, value []byte) (bool, error) {
			s, _, _ := schema.CaptureOf(key)
			if len(urls) >= withdrawBatch && s != surt { // the captures of a URL are one after the other
				return false, nil
			}
			surt, last = s, append(last[:0], key...)
			m.Reset()
			if err := schema.Decode(value, m); err != nil {
				return false, err
			}
			if url := pages.URLOfCapture(key); m.Deliverer != 0 && slices.Contains(w.Deliverers, m.Deliverer) && !slices.Contains(urls, url) {
				urls = append(urls, url)
			}
			return true, ctx.Err()
		})
	})
	return urls, last, err
}

// withdrawPages takes back what the deliverers brought of some URLs, in one write with the progress.
func (u *Upkeep) withdrawPages(ctx context.Context, w *pb.Withdrawal, urls []string) error {
	release := u.pages.HoldHosts(urls)
	defer release()
	job := &ledger.Job{}
	var changes []ledger.Change
	err := u.ledger.View(func(snap ledger.Snapshot) error {
		for _, url := range urls {
			t := takeBack{snap: snap, pages: u.pages, url: url, deliverers: w.Deliverers, now: schema.Micros(u.cfg.Clock())}
			if err := t.run(); err != nil {
				return fmt.Errorf("%s: %w", url, err)
			}
			changes = append(changes, t.changes...)
			if t.entry != nil {
				job.Entries = append(job.Entries, t.entry)
				w.Pages++
			}
			w.Captures += uint64(t.captures)
			if t.channel != 0 && !slices.Contains(w.Channels, t.channel) {
				w.Channels = append(w.Channels, t.channel)
			}
		}
		return ctx.Err()
	})
	if err != nil {
		return err
	}
	if changes, err = ledger.Put(changes, withdrawalKey, w); err != nil {
		return err
	}
	job.Changes = ledger.Fixed(changes)
	return u.ledger.Commit(job)
}

// withdrawTold takes what the deliverers brought out of the page feed: who reads it from the beginning does not meet it any more.
func (u *Upkeep) withdrawTold(ctx context.Context, w *pb.Withdrawal) error {
	batch := u.ledger.Batch()
	m := new(pb.Entry)
	err := u.ledger.View(func(snap ledger.Snapshot) error {
		return snap.Scan([]byte{schema.Changes}, nil, true, func(key, value []byte) (bool, error) {
			m.Reset()
			if err := schema.Decode(value, m); err != nil {
				return false, err
			}
			if d := m.Page.GetDeliverer(); d != 0 && slices.Contains(w.Deliverers, d) && pages.Event(m.Page.GetEvent()) != pages.Withdrawn {
				batch.Add(ledger.Change{Key: bytes.Clone(key)})
			}
			return true, ctx.Err()
		})
	})
	return firstOf(err, batch.Flush())
}
