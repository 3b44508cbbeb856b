package evidence

import (
	"cmp"
	"context"
	"slices"
	"time"

	pb "shoal/manager/archive/archivepb"
	"shoal/manager/archive/ledger"
	"shoal/manager/archive/schema"
)

// shares is into how many the room is divided: who fills one takes none from others.
const shares = 16

const noRoom = "its content was not kept, for want of room in the evidence room"

// holding is what a case holds of the room.
type holding struct {
	of     [4]uint64 // accused, accuser, channel, domain; 0: none
	opened int64
	closed int64 // 0: open
	bytes  int64
}

func holds(c *pb.Case) *holding {
	return &holding{of: [4]uint64{c.Accused, c.Accuser, c.Channel, c.Domain}, opened: c.OpenedUs, closed: c.ClosedUs, bytes: c.Bytes}
}

// countEvery is how long a count holds where other managers keep evidence in the same room.
const countEvery = time.Minute

// count adds up what is kept, unless that is known. Where other managers add to it too, it is counted again now and then, and after each share of the room that was
// added here: so the room is one for all of them, but for a share of each.
func (r *Room) count() error {
	now := r.cfg.Clock()
	if r.counted && (!r.ledger.Others.Shared() || r.added < r.cfg.MaxBytes/shares && now.Sub(r.countedAt).Abs() < countEvery) {
		return nil
	}
	r.used, r.added, r.countedAt, r.cases = 0, 0, now, map[uint64]*holding{}
	err := r.ledger.View(func(snap ledger.Snapshot) error {
		m := new(pb.Fetch)
		return snap.Scan([]byte{schema.Answer}, nil, true, func(_, value []byte) (bool, error) {
			m.Reset()
			if err := schema.Decode(value, m); err != nil {
				return false, err
			}
			r.used += int64(len(m.Body))
			return true, nil
		})
	})
	if err == nil {
		err = r.each(context.Background(), func(number uint64, m *pb.Case) error {
			h := holds(m)
			r.cases[number] = h
			r.used += h.bytes
			return nil
		})
	}
	r.counted = err == nil
	return err
}

// adds counts what was stored here.
func (r *Room) adds(bytes int64) {
	r.used += bytes
	r.added += bytes
}

// fit makes room for what a case is to hold beside what it has: within the shares of its accused, its accuser, its channel and its domain, of which older cases give
// their bodies up, and within the whole. false: there is none.
func (r *Room) fit(number uint64, c *pb.Case, more int64) (bool, error) {
	share, is := r.cfg.MaxBytes/shares, holds(c)
	if is.bytes+more > share {
		return false, nil
	}
	for i, of := range is.of {
		if of == 0 {
			continue
		}
		alike := func(h *holding) bool { return h.of[i] == of }
		if over := r.sum(number, alike) + is.bytes + more - share; over > 0 {
			if err := r.strip(number, over, alike); err != nil {
				return false, err
			}
		}
	}
	return r.room(more, number)
}

// room makes room for more bytes, but not of one case: the cases that were closed first go first, then open cases give their bodies up, the oldest of the peer first
// that is accused in most. false: there is none.
func (r *Room) room(more int64, number uint64) (bool, error) {
	if r.used+more <= r.cfg.MaxBytes {
		return true, nil
	}
	b := r.ledger.Batch()
	for _, n := range r.older(number, func(h *holding) bool { return h.closed != 0 }) {
		if r.used+more <= r.cfg.MaxBytes {
			break
		}
		drop(b, n)
		r.used -= r.cases[n].bytes
		delete(r.cases, n)
	}
	if err := b.Flush(); err != nil {
		r.counted = false
		return false, err
	}
	for r.used+more > r.cfg.MaxBytes {
		sums, heaviest := map[uint64]int64{}, uint64(0)
		for n, h := range r.cases {
			if n == number || h.bytes == 0 {
				continue
			}
			a := h.of[0]
			sums[a] += h.bytes
			if s := sums[heaviest]; sums[a] > s || sums[a] == s && a < heaviest {
				heaviest = a
			}
		}
		if len(sums) == 0 {
			return false, nil // all of it is answers
		}
		if err := r.strip(number, 1, func(h *holding) bool { return h.of[0] == heaviest }); err != nil {
			return false, err
		}
	}
	return true, nil
}

// sum is what cases hold, but for one.
func (r *Room) sum(but uint64, which func(*holding) bool) (n int64) {
	for number, h := range r.cases {
		if number != but && which(h) {
			n += h.bytes
		}
	}
	return n
}

// older are the cases that hold something, but for one: the closed ones first, in the order in which they were closed, then the open ones, the oldest first.
func (r *Room) older(but uint64, which func(*holding) bool) (numbers []uint64) {
	for number, h := range r.cases {
		if number != but && which(h) && h.bytes > 0 {
			numbers = append(numbers, number)
		}
	}
	slices.SortFunc(numbers, func(x, y uint64) int {
		a, b := r.cases[x], r.cases[y]
		open := func(h *holding) int { return cmp.Compare(0, min(h.closed, 1)) }
		return cmp.Or(cmp.Compare(open(a), open(b)), cmp.Compare(a.closed, b.closed), cmp.Compare(a.opened, b.opened), cmp.Compare(x, y))
	})
	return numbers
}

// strip has cases give their bodies up until so many bytes are free. What they are about, what came of them and what was said to them stays.
func (r *Room) strip(but uint64, need int64, which func(*holding) bool) error {
	for _, number := range r.older(but, which) {
		if need <= 0 {
			return nil
		}
		h := r.cases[number]
		if h.bytes == 0 {
			continue
		}
		if err := ledger.Revised(func() error { return r.bare(number) }); err != nil {
			return err
		}
		need -= h.bytes
		r.used -= h.bytes
		h.bytes = 0
	}
	return nil
}

// bare takes the bodies out of a case. One that another manager has dropped stays so.
func (r *Room) bare(number uint64) error {
	c, was, err := r.header(number)
	if err != nil || was.Value == nil {
		return err
	}
	c.Bytes = 0
	changes, err := ledger.Put(nil, caseKey(number), c)
	if err != nil {
		return err
	}
	err = r.ledger.View(func(snap ledger.Snapshot) error {
		for s := Side(1); s < sides; s++ {
			m := new(pb.Fetch)
			found, err := ledger.Get(snap, sideKey(number, s), m)
			if err != nil {
				return err
			}
			if !found || len(m.Body) == 0 {
				continue
			}
			leaveOut(m, noRoom)
			if changes, err = ledger.Put(changes, sideKey(number, s), m); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	return r.ledger.Commit(&ledger.Job{Changes: ledger.Fixed(changes), Still: [2]ledger.Change{was}})
}
