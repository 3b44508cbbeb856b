package evidence

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"time"

	"shoal/channel"
	pb "shoal/manager/archive/archivepb"
	"shoal/manager/archive/ledger"
	"shoal/manager/archive/pages"
	"shoal/manager/archive/schema"
	"shoal/manager/trust"
)

// Number is the number of a case. What is opened again after a kill has the same one.
func Number(about trust.Case) uint64 {
	h := fnv.New64a()
	_, _ = fmt.Fprintf(h, "%d %d %d %d %d %d", about.Channel, about.URL, about.At, about.Accused, about.Accuser, about.Reason)
	return max(h.Sum64(), 1)
}

func caseKey(number uint64) []byte { return schema.Key(schema.Case, number) }

func sideKey(number uint64, s Side) []byte { return append(caseKey(number), byte(s)) }

// Open opens a case, and copies into it what the accused delivered, and what the accuser saw: checked, or, of nil, what the accuser delivered of the page; nothing
// if there is no accuser.
// A case that is there stays as it is. Captures that are not kept any more are left out, and bodies for which there is no room.
func (r *Room) Open(ctx context.Context, about trust.Case, url string, checked *Fetch) (number uint64, err error) {
	number = Number(about)
	r.one.Lock()
	defer r.one.Unlock()
	if err := ledger.Revised(func() error { return r.open(ctx, number, about, url, checked) }); err != nil {
		return 0, fmt.Errorf("open a case about %s: %w", url, err)
	}
	return number, nil
}

func (r *Room) open(ctx context.Context, number uint64, about trust.Case, url string, checked *Fetch) error {
	_, was, err := r.header(number)
	if err != nil || was.Value != nil {
		return err
	}
	c := &pb.Case{
		Accused: uint64(about.Accused), Accuser: uint64(about.Accuser), Channel: uint64(about.Channel), Url: url, At: about.At, Reason: uint32(about.Reason),
		OpenedUs: schema.Micros(r.cfg.Clock()), Domain: about.Domain, Also: uint64(about.Also), Same: about.Same, Second: about.Second, Old: about.Old,
		Everywhere: about.Everywhere,
	}
	delivered, err := r.capture(ctx, url, about.Accused, about.At)
	if err == nil && checked == nil && about.Accuser != 0 {
		checked, err = r.capture(ctx, url, about.Accuser, about.At)
	}
	if err != nil {
		return err
	}
	return r.store(ctx, number, c, was, map[Side]*Fetch{Delivered: delivered, Checked: checked})
}

// capture is what a peer delivered of a page, from a time on; nil: nothing that is kept.
func (r *Room) capture(ctx context.Context, url string, by trust.Peer, at int64) (*Fetch, error) {
	c, err := r.pages.CaptureBy(ctx, url, by, at)
	if errors.Is(err, pages.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return Of(&c), nil
}

// Put adds what one side of a case saw. What is there of that side is replaced.
func (r *Room) Put(ctx context.Context, number uint64, s Side, f *Fetch) error {
	if s == 0 || s >= sides {
		return fmt.Errorf("archive: no side %d of a case", s)
	}
	return r.change(ctx, number, map[Side]*Fetch{s: f}, func(*pb.Case) error { return nil })
}

// Ruled notes who lost a case, and what was added to that peer's score. A loser of 0 says that no peer was charged.
func (r *Room) Ruled(ctx context.Context, number uint64, loser trust.Peer, amount, score float64, note string) error {
	return r.change(ctx, number, nil, func(c *pb.Case) error {
		c.Loser, c.Amount, c.Score, c.Note = uint64(loser), amount, score, channel.PlainText(note, maxNote)
		return nil
	})
}

// Object notes what the loser of a case says to it, once. Who says the same again, as when the answer was lost on its way, is not refused. What is refused writes
// nothing: any member may ask for it.
func (r *Room) Object(ctx context.Context, number uint64, by trust.Peer, text string) error {
	text = channel.PlainText(text, MaxObjection)
	return r.change(ctx, number, nil, func(c *pb.Case) error {
		switch {
		case c.Loser != uint64(by):
			return fmt.Errorf("%w: nothing was charged to this peer for it", ErrObject)
		case text == "":
			return fmt.Errorf("%w: it says nothing", ErrObject)
		case c.Objection == text:
			return errAsItIs
		case c.Objection != "":
			return fmt.Errorf("%w: there is one already", ErrObject)
		}
		c.Objection = text
		return nil
	})
}

// Pardon notes that a peer was pardoned at some time: the cases that it had lost then are held against it no more.
func (r *Room) Pardon(ctx context.Context, peer trust.Peer, at time.Time) error {
	var lost []uint64
	err := r.each(ctx, func(number uint64, m *pb.Case) error {
		if m.Loser == uint64(peer) && m.PardonedUs == 0 && m.OpenedUs <= schema.Micros(at) {
			lost = append(lost, number)
		}
		return nil
	})
	for _, number := range lost {
		if err == nil {
			err = r.change(ctx, number, nil, func(c *pb.Case) error {
				c.PardonedUs = schema.Micros(at)
				return nil
			})
		}
		if errors.Is(err, ErrNoCase) { // it was forgotten meanwhile
			err = nil
		}
	}
	if err != nil {
		return fmt.Errorf("note at its cases that %s was pardoned: %w", ledger.DelivererName(uint64(peer)), err)
	}
	return nil
}

// Objectors counts the objections of each peer that lost a case.
func (r *Room) Objectors(ctx context.Context) (map[trust.Peer]int, error) {
	out := map[trust.Peer]int{}
	err := r.each(ctx, func(_ uint64, m *pb.Case) error {
		if m.Objection != "" {
			out[trust.Peer(m.Loser)]++
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("count objections: %w", err)
	}
	return out, nil
}

// Close says that nothing is left to be decided about a case.
func (r *Room) Close(ctx context.Context, number uint64) error {
	return r.change(ctx, number, nil, func(c *pb.Case) error {
		if c.ClosedUs != 0 {
			return errAsItIs
		}
		c.ClosedUs = schema.Micros(r.cfg.Clock())
		return nil
	})
}

// errAsItIs has a case stay as it is, without an error.
var errAsItIs = errors.New("archive: nothing to change")

// change changes a case that is there, unless edit fails. Where another manager changes it at the same moment, one of the two looks again.
func (r *Room) change(ctx context.Context, number uint64, add map[Side]*Fetch, edit func(*pb.Case) error) error {
	r.one.Lock()
	defer r.one.Unlock()
	err := ledger.Revised(func() error {
		c, was, err := r.header(number)
		if err == nil && was.Value == nil {
			err = ErrNoCase
		}
		if err == nil {
			err = edit(c)
		}
		if err != nil {
			return err
		}
		return r.store(ctx, number, c, was, add)
	})
	if err != nil && !errors.Is(err, errAsItIs) {
		return fmt.Errorf("case %016x: %w", number, err)
	}
	return nil
}

// header reads the header of a case, and the condition that it is still so. Without a value there is no such case.
func (r *Room) header(number uint64) (*pb.Case, ledger.Change, error) {
	c := new(pb.Case)
	var was ledger.Change
	err := r.ledger.View(func(snap ledger.Snapshot) (err error) {
		if was, err = ledger.As(snap, caseKey(number)); err == nil && was.Value != nil {
			err = schema.Decode(was.Value, c)
		}
		return err
	})
	return c, was, err
}

// store writes a case's header and some of its sides at once, if the header is as it was.
func (r *Room) store(ctx context.Context, number uint64, c *pb.Case, was ledger.Change, add map[Side]*Fetch) error {
	if err := r.count(); err != nil {
		return err
	}
	var changes []ledger.Change
	more := int64(0)
	for s := Side(1); s < sides; s++ {
		f := add[s]
		if f == nil {
			continue
		}
		m := r.stored(f, MaxSide)
		fits, err := r.fit(number, c, more+int64(len(m.Body)))
		if err != nil {
			return err
		}
		if !fits {
			leaveOut(m, noRoom)
		}
		if changes, err = ledger.Put(changes, sideKey(number, s), m); err != nil {
			return err
		}
		more += int64(len(m.Body))
		c.Sides |= 1 << s
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	c.Bytes += more
	changes, err := ledger.Put(changes, caseKey(number), c)
	if err != nil {
		return err
	}
	if err := r.ledger.Commit(&ledger.Job{Changes: ledger.Fixed(changes), Still: [2]ledger.Change{was}}); err != nil {
		return err
	}
	r.adds(more)
	r.cases[number] = holds(c)
	return nil
}

// Read reads a case with all its sides.
func (r *Room) Read(ctx context.Context, number uint64) (out Case, err error) {
	err = r.ledger.View(func(snap ledger.Snapshot) error {
		m := new(pb.Case)
		if ok, err := ledger.Get(snap, caseKey(number), m); err != nil || !ok {
			return firstOf(err, ErrNoCase)
		}
		out = caseIn(number, m)
		for s := Side(1); s < sides; s++ {
			f := new(pb.Fetch)
			ok, err := ledger.Get(snap, sideKey(number, s), f)
			if err != nil {
				return err
			}
			if ok {
				if out.Fetches[s], err = r.fetchIn(f); err != nil {
					return err
				}
			}
		}
		return ctx.Err()
	})
	if err != nil {
		return Case{}, fmt.Errorf("case %016x: %w", number, err)
	}
	return out, nil
}

func caseIn(number uint64, m *pb.Case) Case {
	about := trust.Case{
		Reason: trust.Reason(m.Reason), URL: channel.URLHash(m.Url), Channel: channel.ID(m.Channel), Accused: trust.Peer(m.Accused), Accuser: trust.Peer(m.Accuser), At: m.At,
		Domain: m.Domain, Also: trust.Peer(m.Also), Same: m.Same, Second: m.Second, Old: m.Old,
		Everywhere: m.Everywhere,
	}
	return Case{
		Number: number, About: about, URL: m.Url, Opened: schema.Time(m.OpenedUs), Closed: schema.Time(m.ClosedUs), Loser: trust.Peer(m.Loser),
		Amount: m.Amount, Score: m.Score, Note: m.Note, Bytes: m.Bytes, Objection: m.Objection, Pardoned: schema.Time(m.PardonedUs),
	}
}

// List lists the cases in which a peer is accused, accuses, or has lost, those opened last first, without what was fetched, and tells how many more there are that were
// opened before. 0: all cases.
func (r *Room) List(ctx context.Context, peer trust.Peer) (out []Case, more int, err error) {
	n := uint64(peer)
	return r.list(ctx, func(m *pb.Case) bool { return n == 0 || m.Accused == n || m.Accuser == n || m.Loser == n })
}

// Held lists likewise the cases that are held against a peer: those that it has lost since it was pardoned, or ever.
func (r *Room) Held(ctx context.Context, peer trust.Peer) (out []Case, more int, err error) {
	return r.list(ctx, func(m *pb.Case) bool { return m.Loser == uint64(peer) && m.PardonedUs == 0 })
}

func (r *Room) list(ctx context.Context, which func(*pb.Case) bool) (out []Case, more int, err error) {
	err = r.each(ctx, func(number uint64, m *pb.Case) error {
		if which(m) {
			out = append(out, caseIn(number, m))
		}
		return nil
	})
	if err != nil {
		return nil, 0, fmt.Errorf("list cases: %w", err)
	}
	slices.SortFunc(out, func(x, y Case) int { return cmp.Or(y.Opened.Compare(x.Opened), cmp.Compare(x.Number, y.Number)) })
	n := min(len(out), maxListed)
	return out[:n:n], len(out) - n, nil
}

// Unclosed are the numbers of all cases that nobody has closed.
func (r *Room) Unclosed(ctx context.Context) (numbers []uint64, err error) {
	err = r.each(ctx, func(number uint64, m *pb.Case) error {
		if m.ClosedUs == 0 {
			numbers = append(numbers, number)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list open cases: %w", err)
	}
	return numbers, nil
}

// each calls do for the header of each case. It does not read the sides.
func (r *Room) each(ctx context.Context, do func(number uint64, m *pb.Case) error) error {
	return r.ledger.View(func(snap ledger.Snapshot) error {
		return snap.Scan([]byte{schema.Case}, nil, false, func(key, _ []byte) (bool, error) {
			if len(key) != len(caseKey(0)) {
				return true, nil
			}
			m := new(pb.Case)
			if _, err := ledger.Get(snap, bytes.Clone(key), m); err != nil {
				return false, err
			}
			return true, firstOf(do(schema.Number(key, 0), m), ctx.Err())
		})
	})
}
