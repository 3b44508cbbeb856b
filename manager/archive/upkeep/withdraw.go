package upkeep

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

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
	// Members has peer and account of each deliverer, empty where they are not known any more: a rebuilt archive does not know them.
	Members [][2]string `json:"-"`
}

// known drops what a name has brought to light if that is nothing at all: a number that stands for no peer and no capture.
func (w Withdrawn) known() Withdrawn {
	if w.Captures == 0 && len(w.Members) == 1 && w.Members[0][0] == "" {
		return Withdrawn{}
	}
	return w
}

// withdrawBatch is how many URLs are done with one write.
const withdrawBatch = 250

// Withdraw takes back everything that a peer, or any peer of an account, has delivered: its captures, and visits by others that only said of its versions
// that they are unchanged. A page gets its newest version that is left; without a digest, so that the next crawl fetches it in full. The feed says of each
// page that it was withdrawn. It goes on where an earlier one broke off, also after a kill; Run goes on with one that breaks off, as when its caller has gone.
func (u *Upkeep) Withdraw(ctx context.Context, name string) (Withdrawn, error) {
	who, members, err := u.deliverers(ctx, name)
	if err != nil || len(who) == 0 {
		return Withdrawn{}, err
	}
	out, err := u.withdraw(ctx, who)
	out.Deliverers, out.Members = len(who), members
	if err != nil {
		wake(u.withdrawals)
		return out, err
	}
	return out.known(), nil
}

// StartWithdraw has Run do what Withdraw does, and tells how many peers that concerns. It is durable: a restart goes on with it.
func (u *Upkeep) StartWithdraw(ctx context.Context, name string) (deliverers int, err error) {
	who, _, err := u.deliverers(ctx, name)
	if err != nil || len(who) == 0 {
		return 0, err
	}
	var asked []ledger.Change
	for _, number := range who {
		asked = append(asked, ledger.Change{Key: schema.Key(schema.Withdrawal, number), Value: []byte{}})
	}
	if err := u.ledger.Change(asked...); err != nil {
		return 0, err
	}
	wake(u.withdrawals)
	return len(who), nil
}

// wake tells Run that there is something to do.
func wake(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default: // it has been told
	}
}

// WouldWithdraw tells what Withdraw would take back, and changes nothing. If ctx ends first it tells what it has found, with the error.
func (u *Upkeep) WouldWithdraw(ctx context.Context, name string) (out Withdrawn, err error) {
	w := new(pb.Withdrawal)
	if w.Deliverers, out.Members, err = u.deliverers(ctx, name); err != nil || len(w.Deliverers) == 0 {
		return out, err
	}
	out.Deliverers = len(w.Deliverers)
	for {
		found, err := u.tainted(ctx, w)
		if err == nil && len(found.last) == 0 {
			return out.known(), nil
		}
		if err == nil {
			err = u.ledger.View(func(snap ledger.Snapshot) error {
				for _, url := range found.urls {
					t := takeBack{snap: snap, pages: u.pages, url: url, deliverers: w.Deliverers}
					if err := t.run(); err != nil {
						return err
					}
					if t.entry != nil {
						out.Pages++
					}
					out.Captures += t.captures
				}
				return ctx.Err()
			})
		}
		if err != nil {
			return out, fmt.Errorf("count what would be withdrawn: %w", err)
		}
		w.After = found.last
	}
}

// Withdrawing is how far a purge of deliverers is.
type Withdrawing struct {
	Deliverers []string  `json:"deliverers"` // their numbers, the first of them
	All        int       `json:"all"`        // deliverers
	Begun      time.Time `json:"begun"`
	Looked     int       `json:"looked_at"` // captures, since it was begun or gone on with
	Pages      int       `json:"pages"`     // taken back
	Captures   int       `json:"captures"`
}

const namedWithdrawing = 5 // deliverers that are named

// Withdrawing tells how far the purge is that is under way; nil: none is.
func (u *Upkeep) Withdrawing() *Withdrawing { return u.withdrawing.Load() }

// tell publishes how far a purge is.
func (u *Upkeep) tell(w *pb.Withdrawal, looked int) {
	p := &Withdrawing{All: len(w.Deliverers), Begun: schema.Time(w.BegunUs), Looked: looked, Pages: int(w.Pages), Captures: int(w.Captures)}
	for _, d := range w.Deliverers[:min(len(w.Deliverers), namedWithdrawing)] {
		p.Deliverers = append(p.Deliverers, ledger.DelivererName(d))
	}
	u.withdrawing.Store(p)
}

// deliverers are the numbers of a peer, or of the peers of an account; and peer and account of each.
func (u *Upkeep) deliverers(ctx context.Context, name string) (numbers []uint64, members [][2]string, err error) {
	who, err := u.ledger.Deliverers(ctx, name)
	for _, d := range who {
		numbers = append(numbers, d.Number)
		members = append(members, [2]string{d.Peer, d.Account})
	}
	return numbers, members, err
}

// keepWithdrawing does what StartWithdraw has asked for, and goes on with what broke off, until ctx ends.
func (u *Upkeep) keepWithdrawing(ctx context.Context) {
	u.goOn(ctx, u.withdrawals, "a purge of what peers delivered is not done, will try again", u.resumeWithdrawal)
}

// goOn does something at once, each time that it is asked for, and again after a while if it fails, until ctx ends. Of several managers one looks now and then
// whether another one that is gone has left something undone.
func (u *Upkeep) goOn(ctx context.Context, asked <-chan struct{}, failed string, do func(context.Context) error) {
	for {
		var again <-chan time.Time
		if err := do(ctx); err != nil && ctx.Err() == nil {
			u.cfg.Log.Error(failed, "err", err)
			again = time.After(withdrawAgain)
		}
		for woken := false; !woken; {
			var left <-chan time.Time
			if u.ledger.Others.Shared() {
				left = time.After(withdrawAgain)
			}
			select {
			case <-ctx.Done():
				return
			case <-asked:
				woken = true
			case <-again:
				woken = true
			case <-left:
				idle, err := u.ledger.Others.Idle(ctx)
				woken = idle && err == nil
			}
		}
	}
}

const withdrawAgain = time.Minute // after a purge that failed, or between two looks

// resumeWithdrawal does what was asked for and is not done.
func (u *Upkeep) resumeWithdrawal(ctx context.Context) error {
	w, _, err := u.pendingWithdrawal()
	if err != nil {
		return err
	}
	if len(w.Deliverers) == 0 {
		u.withdrawing.Store(nil) // another manager has done what broke off here
		return nil
	}
	out, err := u.withdraw(ctx, nil)
	if err != nil {
		return err
	}
	u.cfg.Log.Info("a purge is done", "pages", out.Pages, "captures", out.Captures)
	if u.cfg.OnWithdrawn != nil {
		u.cfg.OnWithdrawn(out.Channels)
	}
	return nil
}

var withdrawalKey = []byte{schema.Withdrawal}

// pendingWithdrawal reads what is still to be done, and the keys of what was asked for since it began; without deliverers: nothing.
func (u *Upkeep) pendingWithdrawal() (w *pb.Withdrawal, asked []ledger.Change, err error) {
	w = new(pb.Withdrawal)
	err = u.ledger.View(func(snap ledger.Snapshot) error {
		if _, err := ledger.Get(snap, withdrawalKey, w); err != nil {
			return err
		}
		return snap.Scan(withdrawalKey, nil, false, func(key, _ []byte) (bool, error) {
			if len(key) == len(schema.Key(schema.Withdrawal, 0)) {
				asked = append(asked, ledger.Change{Key: bytes.Clone(key)})
				addDeliverer(w, schema.Number(key, 0))
			}
			return true, nil
		})
	})
	return w, asked, err
}

// addDeliverer adds one to a withdrawal. What was looked at may have been delivered by it.
func addDeliverer(w *pb.Withdrawal, number uint64) {
	if !slices.Contains(w.Deliverers, number) {
		w.Deliverers, w.After = append(w.Deliverers, number), nil
	}
}

// withdraw takes back what some deliverers brought, with all that is still to be done.
func (u *Upkeep) withdraw(ctx context.Context, deliverers []uint64) (out Withdrawn, err error) {
	release, err := u.turns.turn(ctx, takingBack)
	if err != nil {
		return out, err
	}
	defer release()
	w, asked, err := u.pendingWithdrawal()
	if err != nil {
		return out, err
	}
	for _, number := range deliverers {
		addDeliverer(w, number)
	}
	if len(w.Deliverers) == 0 {
		return out, nil // another call has done it
	}
	defer u.pages.Recount()
	defer u.pages.PauseText()()
	if w.BegunUs == 0 {
		w.BegunUs = schema.Micros(u.cfg.Clock())
	}
	changes, err := ledger.Put(asked, withdrawalKey, w)
	if err != nil {
		return out, err
	}
	if err := u.ledger.Change(changes...); err != nil {
		return out, err
	}
	// Managers that read that make no text until the purge is done, and those that were making one have ended that when they have answered: else the text of
	// what is purged could come after it.
	if u.ledger.Others.Shared() {
		if err := u.ledger.Others.WaitForAll(ctx); err != nil {
			return out, fmt.Errorf("withdraw: %w", err)
		}
	}
	for looked := 0; ; {
		u.tell(w, looked)
		found, err := u.tainted(ctx, w)
		if err != nil {
			return out, fmt.Errorf("withdraw: %w", err)
		}
		if len(found.last) == 0 {
			break
		}
		if err := u.withdrawPages(ctx, w, found); err != nil {
			return out, fmt.Errorf("withdraw: %w", err)
		}
		looked += found.looked
	}
	if err := u.withdrawTold(ctx, w); err != nil {
		return out, fmt.Errorf("withdraw from the feed: %w", err)
	}
	if err := u.dropEvidence(ctx, w.Deliverers); err != nil {
		return out, fmt.Errorf("withdraw evidence: %w", err)
	}
	out = Withdrawn{Deliverers: len(w.Deliverers), Pages: int(w.Pages), Captures: int(w.Captures)}
	if out.Channels, err = u.endWithdrawal(w); err != nil {
		return out, err
	}
	u.withdrawing.Store(nil) // one that broke off is under way until it is resumed
	select {
	case u.purged <- struct{}{}:
	default: // it has been told
	}
	return out, nil
}

// channelMark begins, behind the table, the key that notes whose pages were taken back. A list in one record would be written again with each step.
const channelMark = 'c'

func markChannel(id uint64) ledger.Change {
	return ledger.Change{Key: binary.BigEndian.AppendUint64([]byte{schema.Withdrawal, channelMark}, id), Value: []byte{}}
}

// endWithdrawal notes that a purge is done, and tells whose pages it took back.
func (u *Upkeep) endWithdrawal(w *pb.Withdrawal) (channels []channel.ID, err error) {
	for _, id := range w.Channels { // of one that the version before began
		channels = append(channels, channel.ID(id))
	}
	b := u.ledger.Batch()
	mark := []byte{schema.Withdrawal, channelMark}
	err = u.ledger.View(func(snap ledger.Snapshot) error {
		return snap.Scan(mark, nil, false, func(key, _ []byte) (bool, error) {
			if len(key) == len(mark)+8 {
				channels = append(channels, channel.ID(binary.BigEndian.Uint64(key[len(mark):])))
				b.Add(ledger.Change{Key: bytes.Clone(key)})
			}
			return true, nil
		})
	})
	if err == nil {
		err = u.ledger.Change(ledger.Change{Key: withdrawalKey})
	}
	slices.Sort(channels)
	return slices.Compact(channels), firstOf(err, b.Flush())
}

// dropEvidence forgets what is kept of deliverers beside their captures.
func (u *Upkeep) dropEvidence(ctx context.Context, deliverers []uint64) error {
	b := u.ledger.Batch()
	for _, number := range deliverers {
		err := u.ledger.View(func(snap ledger.Snapshot) error {
			return snap.Scan(schema.Key(schema.Taken, number), nil, false, func(key, _ []byte) (bool, error) {
				return true, firstOf(b.Delete(bytes.Clone(key)), ctx.Err())
			})
		})
		if err != nil {
			return err
		}
	}
	if err := b.Flush(); err != nil || u.cfg.Purge == nil {
		return err
	}
	return u.cfg.Purge(ctx, deliverers)
}

// looked is what a look at captures found.
type looked struct {
	urls   []string // of which one of the deliverers has a capture
	last   []byte   // key up to which was looked; none: all was looked at
	looked int      // captures
}

// lookBatch is how many captures are looked at together.
const lookBatch = 20_000

// tainted finds the next URLs of which one of the deliverers has a capture.
func (u *Upkeep) tainted(ctx context.Context, w *pb.Withdrawal) (out looked, err error) {
	from := []byte{schema.Capture}
	if len(w.After) > 0 {
		from = append(bytes.Clone(w.After), 0)
	}
	m := new(pb.Capture)
	var surt string
	err = u.ledger.View(func(snap ledger.Snapshot) error {
		return snap.Scan([]byte{schema.Capture}, from, true, func(key, value []byte) (bool, error) {
			s, _, _ := schema.CaptureOf(key)
			if (len(out.urls) >= withdrawBatch || out.looked >= lookBatch) && s != surt { // the captures of a URL are one after the other
				return false, nil
			}
			surt, out.last = s, append(out.last[:0], key...)
			out.looked++
			m.Reset()
			if err := schema.Decode(value, m); err != nil {
				return false, err
			}
			if url := pages.URLOfCapture(key); m.Deliverer != 0 && slices.Contains(w.Deliverers, m.Deliverer) && !slices.Contains(out.urls, url) {
				out.urls = append(out.urls, url)
			}
			return true, ctx.Err()
		})
	})
	return out, err
}

// withdrawPages takes back what the deliverers brought of some URLs, with the progress. Where other managers store as well, each channel's URLs are a write of
// their own: what broke off between two finds nothing to take back the second time.
func (u *Upkeep) withdrawPages(ctx context.Context, w *pb.Withdrawal, found looked) error {
	parts, err := byChannel(u.ledger, found.urls)
	if err != nil {
		return err
	}
	for i, p := range parts {
		err := ledger.Revised(func() error { return u.withdrawSome(ctx, w, p, found.last, i == len(parts)-1) })
		if err != nil {
			return err
		}
	}
	w.After = found.last
	return nil
}

// someURLs are URLs of one channel, or of any.
type someURLs struct {
	channel channel.ID
	urls    []string
}

// byChannel sorts URLs by whose pages they are; no manager but this one stores pages: then that makes no difference.
func byChannel(l *ledger.Ledger, urls []string) (parts []someURLs, err error) {
	if !l.Others.Shared() {
		return []someURLs{{urls: urls}}, nil
	}
	err = l.View(func(snap ledger.Snapshot) error {
		for _, url := range urls {
			id, err := ownerOf(snap, channel.URLHash(url))
			if err != nil {
				return err
			}
			i := slices.IndexFunc(parts, func(p someURLs) bool { return p.channel == channel.ID(id) })
			if i < 0 {
				i, parts = len(parts), append(parts, someURLs{channel: channel.ID(id)})
			}
			parts[i].urls = append(parts[i].urls, url)
		}
		return nil
	})
	return parts, err
}

// withdrawSome takes back what the deliverers brought of some URLs, in one write. last: those before the key after are done then.
func (u *Upkeep) withdrawSome(ctx context.Context, w *pb.Withdrawal, p someURLs, after []byte, last bool) error {
	r, err := u.ledger.Revise(p.channel)
	if err != nil {
		return err
	}
	defer r.Release()
	release := u.pages.HoldHosts(p.urls)
	defer release()
	job, n := &ledger.Job{}, proto.CloneOf(w)
	var changes []ledger.Change
	var marked uint64 // channel
	err = u.ledger.View(func(snap ledger.Snapshot) error {
		for _, url := range p.urls {
			t := takeBack{snap: snap, pages: u.pages, url: url, deliverers: w.Deliverers, now: schema.Micros(u.cfg.Clock())}
			if err := t.run(); err != nil {
				return fmt.Errorf("%s: %w", url, err)
			}
			changes = append(changes, t.changes...)
			if t.entry != nil {
				job.Entries = append(job.Entries, t.entry)
				n.Pages++
			}
			n.Captures += uint64(t.captures)
			if t.channel != 0 && t.channel != marked {
				marked = t.channel
				changes = append(changes, markChannel(marked))
			}
		}
		return ctx.Err()
	})
	if err != nil {
		return err
	}
	if last {
		n.After = after
	}
	if changes, err = ledger.Put(changes, withdrawalKey, n); err != nil {
		return err
	}
	job.Changes = ledger.Fixed(changes)
	if err := r.Commit(job); err != nil {
		return err
	}
	w.Pages, w.Captures = n.Pages, n.Captures
	return nil
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
			return true, firstOf(batch.FlushFull(), ctx.Err())
		})
	})
	return firstOf(err, batch.Flush())
}
