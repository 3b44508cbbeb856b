package manager

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"shoal/channel"
	"shoal/manager/share"
	"shoal/recrawl"
)

// Shared is a Store that several managers use, each with partitions of the hosts. *postgres.Several is one. What this manager writes after its tenancy
// has ended fails with channel.ErrStaleEpoch, as do Beat and the others.
type Shared interface {
	Store
	// Beat renews the tenancy, ends those of managers that have gone, and tells who shares the database. What others are told of this manager stays as it was
	// where about is nil. Two goroutines may call it.
	Beat(ctx context.Context, leaving bool, about []byte) (channel.Tenure, error)
	// TakeParts takes those of some partitions that are free; JoinParts says from where in the feed all of this manager's go on.
	TakeParts(ctx context.Context, parts []uint8) (channel.Taken, error)
	JoinParts(ctx context.Context, cursor string) error
	// Cursors are up to where all managers have taken in the feed, for all partitions.
	Cursors(ctx context.Context) ([]string, error)
	// GiveParts gives partitions up, after the writes that are under way.
	GiveParts(ctx context.Context, parts []uint8) error
	// Leave ends the tenancy.
	Leave(ctx context.Context) error
	// ScanParts is Scan of the channels of some partitions with ids above one.
	ScanParts(ctx context.Context, parts []uint8, above channel.ID, f func(channel.Hot) error) error
	LastID(ctx context.Context) (channel.ID, error)
	// ScanHeld is ScanHosts of those that are blocked, or may not be visited up to a time. f may see one twice.
	ScanHeld(ctx context.Context, at time.Time, f func(channel.Host) error) error
	// Others are what other managers, also those that have gone, keep of a state of which each has one for itself, the latest first.
	Others(ctx context.Context, name string) ([][]byte, error)
	// OthersOf is Others of some states at once, by their names.
	OthersOf(ctx context.Context, names []string) (map[string][][]byte, error)
	// Left are those of this manager's earlier start and of others that ended within an hour of the one that ended last.
	Left(ctx context.Context, name string) ([][]byte, error)
	// Change makes of a state that all managers share the next one, without another manager's change between.
	Change(ctx context.Context, name string, f func(state []byte) ([]byte, error)) error
	// Tell tells the other managers something, and Notes is what they have told since the last call.
	Tell(ctx context.Context, n channel.Note) error
	Notes(ctx context.Context) ([]channel.Note, error)
}

// Several is what a manager needs beside its Store to be one of several.
type Several struct {
	Shared Shared // the manager's Store
	// ShutOut has writers append nothing more to the archive's log, and returns when all that they did can be read here.
	ShutOut func(ctx context.Context, writers []string) error
	// Earliest is the first of some cursors of the archive's feed.
	Earliest func(cursors ...string) (string, error)
	// Heard is told what was passed to TellOthers elsewhere, on a goroutine that waits for nothing else. Nil: nothing is.
	Heard func(what string, body []byte)
	// Idle says that this manager takes no partitions: it only runs an archive.
	Idle bool
	// About is what the others are told of this manager; Seen is told who they are. Both must be quick.
	About func() []byte
	Seen  func(channel.Tenure)
}

// ErrEnded says that other managers took this one for gone, as it was not heard of for too long: it must be opened anew.
var ErrEnded = errors.New("manager: the other managers have taken its work over")

// StateBanned names what the database keeps of who is banned, where several managers share it.
const StateBanned = "members/banned"

// StateKeys names what the database keeps of the managers' working keys.
const StateKeys = "members/keys"

// StateInvites names what the database keeps of how often each invite was used, and the key that signs them; StateStolen up to where working keys are in
// others' hands.
const (
	StateInvites = "members/invites"
	StateStolen  = "members/stolen"
)

// StateLeast names what the database keeps of which working keys a manager has outdated that had the network for itself.
const StateLeast = "members/least"

// StateReleases names what the database keeps of releases of the volunteers' program: the signed files that all managers serve, and the roll-out.
const StateReleases = "members/releases"

// SharedState reports whether all managers of a database have a state in common. Each has others for itself, such as what its strategy has learnt.
func SharedState(name string) bool {
	switch name {
	case stateEpoch, stateChoice, stateLimits, stateDiscovered, stateTrust, StateBanned, StateKeys, StateInvites, StateStolen, StateLeast, StateReleases:
		return true
	}
	return strings.HasPrefix(name, stateUnblocked)
}

// Paces of a manager among several.
const (
	tenureEvery = 500 * time.Millisecond // between two beats
	tenureWait  = 4 * time.Second        // for one
	renewEvery  = 2 * time.Second        // between two beats within a turn that takes long, such as one that takes in a million channels
	turnMost    = 10 * time.Minute       // for a turn: the tenancy of a manager that hangs is not renewed for ever
	moveWait    = 5 * time.Second        // for the write of a move
	handWait    = time.Second            // for what is known of peers and channels, before
	leaveWait   = time.Second            // for the last write to a database that has just not answered
	strayEvery  = 10 * time.Second       // between two looks for channels of which no note told
)

// tenancy is a manager's part in a network of several: it takes partitions and gives them up. One goroutine runs it, another one listens; the loop owns
// what is marked so.
type tenancy struct {
	*core
	*Several
	keep    *keeper
	roster  *roster
	errands *errands
	hear    func(context.Context, channel.Note) error                    // takes in what another manager told
	inherit func(context.Context) error                                  // takes in what other managers know that have, or had, what this one takes
	settle  func(context.Context, channel.Taken) error                   // takes in what they know of the channels that it has taken
	left    func(context.Context, channel.Taken) error                   // likewise of what managers left undone that have gone
	audits  func(ctx context.Context, of channel.Taken, gone bool) error // likewise of audits; gone: of managers that have gone, too
	leaves  func(context.Context, time.Time)                             // writes what who takes partitions of this one will read; called on the loop

	tenure atomic.Pointer[channel.Tenure] // as of the last beat

	owned  [channel.Parts]bool // owned by the loop
	moving bool                // likewise: the feed is not read while partitions are taken
	coming [channel.Parts]bool // likewise: of these not all is known yet that is out, so nothing is handed out there

	mu      sync.Mutex
	told    []channel.Note // what was heard, and is to be done in the next turn; guarded by mu
	unheard unheard        // of these, what could not be done yet; owned by the loop of turns
	late    []lateOrder    // that may be for whoever takes a channel next; likewise

	gone bool // a manager has gone since partitions were taken last, or none was here before this one; owned by the goroutine that beats

	needs map[channel.Epoch]share.Need // what managers told last, this one too; owned by the goroutine that beats
	moved time.Time                    // when quotas were moved last

	last   channel.ID // up to which channels were looked for
	looked time.Time
}

// mine reports whether a host is this manager's. Called on the loop.
func (t *tenancy) mine(key channel.HostKey) bool { return t == nil || t.owned[key.Part()] }

// isComing reports whether it is not known yet what is out at a host, since its partition is being taken. Called on the loop.
func (t *tenancy) isComing(key channel.HostKey) bool { return t != nil && t.coming[key.Part()] }

// arrived takes in that the feed was read to its end: of all partitions that were taken it is known what is out. Called on the loop.
func (t *tenancy) arrived() {
	if t != nil {
		t.coming = [channel.Parts]bool{}
	}
}

// resting reports whether the feed is not to be read. Called on the loop.
func (t *tenancy) resting() bool {
	return t != nil && (t.moving || !slices.Contains(t.owned[:], true))
}

// work beats until ctx ends; an error says that this manager has no part any more.
func (t *tenancy) work(ctx context.Context) error {
	if t.Idle { // it takes no partitions, with which it would hear of them
		if err := t.readHosts(ctx, nil); err != nil && ctx.Err() == nil {
			t.log.Warn("how many channels of an import are on blocked hosts is not told at this manager", "err", err)
		}
	}
	beat := time.NewTicker(tenureEvery)
	defer beat.Stop()
	for {
		if err := t.turn(ctx); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-beat.C:
		}
	}
}

// turn is one beat and what follows from it. What fails and may pass is tried again with the next.
func (t *tenancy) turn(ctx context.Context) error {
	limited, cancel := context.WithTimeout(ctx, tenureWait)
	now, err := t.Shared.Beat(limited, t.Idle, t.About())
	cancel()
	switch {
	case ctx.Err() != nil:
		return nil
	case errors.Is(err, channel.ErrStaleEpoch):
		return fmt.Errorf("%w: %w", ErrEnded, err)
	case err != nil:
		t.log.Warn("the other managers do not hear of this one, will try again", "err", err)
		return nil
	}
	t.gone = t.gone || someLeft(t.tenure.Swap(&now), &now)
	t.Seen(now)
	defer t.renew(ctx)()
	m := share.Next(&now, t.epoch)
	if len(m.Give) > 0 {
		if err := t.give(ctx, m.Give); err != nil {
			return err
		}
	}
	if len(m.Take) > 0 {
		if err := t.take(ctx, m.Take); err != nil {
			return err
		}
	}
	t.obey(ctx)
	t.moveQuotas(ctx, &now)
	return nil
}

// someLeft reports whether a manager has gone between two beats. Before the first one all others have gone, if there is none.
func someLeft(before, now *channel.Tenure) bool {
	if before == nil {
		return len(now.Tenants) <= 1
	}
	return slices.ContainsFunc(before.Tenants, func(was channel.Tenancy) bool {
		return !slices.ContainsFunc(now.Tenants, func(is channel.Tenancy) bool { return is.ID == was.ID })
	})
}

// renew keeps the tenancy while a turn takes long, until end is called: to the others a manager that works is not gone.
func (t *tenancy) renew(ctx context.Context) (end func()) {
	ctx, cancel := context.WithTimeout(ctx, turnMost)
	var beats sync.WaitGroup
	beats.Go(func() {
		beat := time.NewTicker(renewEvery)
		defer beat.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-beat.C:
			}
			limited, stop := context.WithTimeout(ctx, tenureWait)
			if _, err := t.Shared.Beat(limited, t.Idle, nil); err != nil && ctx.Err() == nil {
				t.log.Debug("the other managers do not hear of this one while it works, will try again", "err", err)
			}
			stop()
		}
	})
	return func() {
		cancel()
		beats.Wait()
	}
}

// give gives partitions up: what was learnt of them is written first.
func (t *tenancy) give(ctx context.Context, parts []uint8) error {
	var failed error
	err := t.onLoop(ctx, func(now time.Time) {
		t.keep.save(now, true)
		if t.keep.pending != nil || len(t.keep.dirty)+len(t.keep.records) > 0 {
			return // the database does not take it now
		}
		told, done := context.WithTimeout(context.Background(), handWait)
		t.leaves(told, now)
		done()
		limited, cancel := context.WithTimeout(context.Background(), moveWait)
		defer cancel()
		if failed = t.Shared.GiveParts(limited, parts); failed == nil {
			t.drop(parts)
			t.log.Info("partitions given to another manager", "partitions", len(parts), "channels", t.sched.Len())
		}
	})
	if ctx.Err() != nil {
		return nil
	}
	if err = errors.Join(err, failed); err != nil { // it may have been done: only a new beginning is sure
		return fmt.Errorf("%w: partitions were to be given up: %w", ErrEnded, err)
	}
	return nil
}

// drop takes the channels of partitions out of all that the loop holds. Their tasks go on.
func (t *tenancy) drop(parts []uint8) {
	gone := [channel.Parts]bool{}
	for _, p := range parts {
		gone[p], t.owned[p] = true, false
	}
	for s := range recrawl.Slot(t.table.Len()) {
		if t.table.Used(s) && gone[t.table.Host(s).Part()] {
			t.roster.release(s)
		}
	}
	t.errands.drop(func(e *errand) bool { return gone[channel.KeyOf(e.host).Part()] })
}

// take takes partitions over: it shuts out the managers that had them and have gone, reads what is known of their hosts and channels, and goes on in the
// feed where they had come. Tasks that are out keep their hosts busy until they end, as after a start.
func (t *tenancy) take(ctx context.Context, parts []uint8) error {
	began := t.cfg.Now()
	if err := t.onLoop(ctx, func(time.Time) { t.moving = true }); err != nil {
		return nil
	}
	taken, err := t.Shared.TakeParts(ctx, parts)
	if err == nil && len(taken.Parts) > 0 {
		err = t.takeIn(ctx, taken)
	}
	if ctx.Err() != nil {
		return nil
	}
	if err != nil {
		return fmt.Errorf("%w: partitions were to be taken: %w", ErrEnded, err)
	}
	_ = t.onLoop(ctx, func(now time.Time) {
		t.moving = false
		t.sched.Rerank()
		t.log.Info("partitions taken", "partitions", len(taken.Parts), "channels", t.sched.Len(), "took", now.Sub(began))
	})
	t.catchUp(ctx, taken.Parts)
	return nil
}

func (t *tenancy) takeIn(ctx context.Context, taken channel.Taken) error {
	if err := t.ShutOut(ctx, taken.Ended); err != nil {
		return err
	}
	if err := t.onLoop(ctx, func(time.Time) {
		for _, p := range taken.Parts {
			t.owned[p], t.coming[p] = true, true
		}
	}); err != nil {
		return err
	}
	if err := errors.Join(t.readHosts(ctx, taken.Parts), t.readAudits(ctx), t.hearSizes(ctx), t.inherit(ctx)); err != nil {
		return err
	}
	last, err := t.Shared.LastID(ctx)
	if err != nil {
		return err
	}
	if err := errors.Join(t.readChannels(ctx, taken.Parts, 0), t.settle(ctx, taken)); err != nil {
		return err
	}
	if t.last == 0 {
		t.last = last
	}
	var failed error
	err = t.onLoop(ctx, func(time.Time) { failed = t.goOn(taken) })
	if err := errors.Join(err, failed); err != nil {
		return err
	}
	t.recallEvents(ctx)
	if err := t.audits(ctx, taken, t.gone); err != nil && ctx.Err() == nil {
		t.log.Warn("audits that other managers had asked for are lost", "err", err)
	}
	if t.gone {
		t.gone = false
		if err := t.left(ctx, taken); err != nil && ctx.Err() == nil {
			t.log.Warn("what was delivered to a manager that has gone, and it had not judged, is not judged", "err", err)
		}
	}
	return nil
}

// goOn has all partitions go on in the feed from one cursor. What was taken in before, and could not be written, is written first: it begins where the database
// still is. Runs on the loop.
func (t *tenancy) goOn(taken channel.Taken) error {
	limited, cancel := context.WithTimeout(context.Background(), moveWait)
	defer cancel()
	if t.keep.pending != nil {
		if err := t.keep.commit(limited); err != nil {
			return err
		}
	}
	from := taken.Cursors
	if t.joined(taken.Parts) {
		from = append(from, t.keep.cursor)
	}
	cursor, err := t.Earliest(from...)
	if err == nil {
		err = t.Shared.JoinParts(limited, cursor)
	}
	if err == nil {
		t.keep.cursor = cursor
	}
	return err
}

// joined reports whether this manager had other partitions before these.
func (t *tenancy) joined(these []uint8) bool {
	n := 0
	for _, is := range t.owned {
		if is {
			n++
		}
	}
	return n > len(these)
}

// readHosts takes in what is known of hosts: whether they are blocked, which notes tell from then on of all hosts, and until when those of some partitions are left alone.
func (t *tenancy) readHosts(ctx context.Context, parts []uint8) error {
	var batch []channel.Host
	flush := func() error {
		err := t.onLoop(ctx, func(now time.Time) {
			for i := range batch {
				h := &batch[i]
				key := channel.KeyOf(h.Name)
				if h.Blocked != t.machine.Blocked(key) {
					t.machine.Block(key, h.Blocked)
				}
				if h.NextVisit.After(now) && slices.Contains(parts, key.Part()) {
					t.leaveStill(now, h)
				}
			}
		})
		batch = batch[:0]
		return err
	}
	err := t.Shared.ScanHeld(ctx, t.cfg.Now(), func(h channel.Host) error {
		if h.Blocked == "" && !slices.Contains(parts, channel.KeyOf(h.Name).Part()) {
			return nil
		}
		if batch = append(batch, h); len(batch) < adoptBatch {
			return nil
		}
		return flush()
	})
	return errors.Join(err, flush())
}

// readChannels takes in the channels of partitions with ids above one that the loop does not have.
func (t *tenancy) readChannels(ctx context.Context, parts []uint8, above channel.ID) error {
	_, err := t.roster.adopt(ctx, func() {}, func(f func(channel.Hot) error) error { return t.Shared.ScanParts(ctx, parts, above, f) })
	return err
}

// listen hears what the other managers tell, until ctx ends. What is not for the manager is passed on at once, as a ban does not wait until partitions
// are taken; the rest waits for the next turn.
func (t *tenancy) listen(ctx context.Context) {
	beat := time.NewTicker(tenureEvery)
	defer beat.Stop()
	for {
		notes, err := t.Shared.Notes(ctx)
		if err != nil && ctx.Err() == nil {
			t.log.Warn("what other managers tell is not read, will try again", "err", err)
		}
		for _, n := range notes {
			if what, other := strings.CutPrefix(n.What, noteOther); !other {
				t.mu.Lock()
				t.told = append(t.told, n)
				t.mu.Unlock()
			} else if t.Heard != nil {
				t.Heard(what, n.Body)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-beat.C:
		}
	}
}

// obey does what the other managers have told, and looks now and then for channels of which none told because it ended meanwhile.
func (t *tenancy) obey(ctx context.Context) {
	t.mu.Lock()
	notes := t.told
	t.told = nil
	t.mu.Unlock()
	for _, n := range notes {
		t.delay(n)
	}
	t.unheard.add(notes)
	t.unheard.hear(ctx, t)
	if now := t.cfg.Now(); now.Sub(t.looked) >= strayEvery {
		t.looked = now
		if err := t.strays(ctx); err != nil && ctx.Err() == nil {
			t.log.Warn("channels that other managers have added are not looked for, will try again", "err", err)
		}
		if err := t.hearSizes(ctx); err != nil && ctx.Err() == nil {
			t.log.Warn("how many pages a channel has in the mean is as it was, will try again", "err", err)
		}
	}
}

// strayBack is how far below the highest id a channel may be that was added later.
const strayBack = 1000

func (t *tenancy) strays(ctx context.Context) error {
	last, err := t.Shared.LastID(ctx)
	if err != nil || last == t.last {
		return err
	}
	var parts []uint8
	if err := t.onLoop(ctx, func(time.Time) {
		for p, is := range t.owned {
			if is {
				parts = append(parts, uint8(p))
			}
		}
	}); err != nil || len(parts) == 0 {
		return err
	}
	above := channel.ID(0)
	if t.last > strayBack {
		above = t.last - strayBack
	}
	if err := t.readChannels(ctx, parts, above); err != nil {
		return err
	}
	t.last = last
	return nil
}

// leave hands over all partitions at the end, and tells the others if this manager was asked to end: asked ends with a cause of its own if another part of the
// program has failed. Called when the loop has ended and all is written, or last has ended before: then the database is hardly there.
func (t *tenancy) leave(last, asked context.Context) {
	wait := moveWait
	if last.Err() != nil {
		wait = leaveWait
	}
	ctx, cancel := context.WithTimeout(context.Background(), wait)
	defer cancel()
	if errors.Is(context.Cause(asked), context.Canceled) && t.About != nil {
		if err := t.Shared.Tell(ctx, channel.Note{What: noteOther + NoteEnds, Body: t.About()}); err != nil {
			t.log.Debug("the other managers were not told that this one was asked to end", "err", err)
		}
	}
	if err := t.Shared.Leave(ctx); err != nil && !errors.Is(err, channel.ErrStaleEpoch) {
		t.log.Warn("the other managers were not told of the end; they will see it", "err", err)
	}
}
