package channel

import (
	"crypto/sha256"
	"encoding/binary"
	"hash"
	"time"
)

// Item is one thing that a channel database holds, in a form that no database owns. Exactly one field is set. A dump
// has the items of a kind together, in the order of the fields, each kind in the order of its ids or names.
type Item struct {
	Channel   *Stored
	Host      *Host
	Candidate *Candidate
	Cursor    *Cursor
	Counter   *Counter
	State     *Blob
	Next      ID // no channel ever had this id or a higher one; the last item
}

// Stored is a channel with all that belongs to it. Its Inter is empty: Pending has the URLs.
type Stored struct {
	Channel
	Lease   []byte
	Pending []Pending
}

// Cursor is the position in a feed.
type Cursor struct{ Feed, At string }

// Counter is a sum of Advance.Counters.
type Counter struct {
	Name string
	N    int64
}

// Blob is the stored state of a strategy.
type Blob struct {
	Name string
	Body []byte
}

// Sum tells whether two databases hold the same, by the items of their dumps. It compares times to the millisecond,
// because that is what every database keeps.
type Sum struct {
	h hash.Hash
	n int
}

// Add takes in the next item.
func (s *Sum) Add(it *Item) {
	if s.h == nil {
		s.h = sha256.New()
	}
	s.n++
	switch {
	case it.Channel != nil:
		c := *it.Channel
		l := &c.Learnt
		for _, t := range []*time.Time{&c.Added, &l.Submitted, &l.Updated, &l.Changed} {
			*t = t.Truncate(time.Millisecond)
		}
		l.Service = l.Service.Truncate(time.Millisecond)
		s.put(1, c.Marshal(), c.Lease)
		for _, p := range c.Pending {
			s.put(2, []byte(p.URL), binary.AppendVarint(nil, p.Found.UnixMilli()))
		}
	case it.Host != nil:
		h := *it.Host
		h.NextVisit, h.Rest, h.CrawlDelay = h.NextVisit.Truncate(time.Millisecond), h.Rest.Truncate(time.Millisecond), h.CrawlDelay.Truncate(time.Millisecond)
		s.put(3, h.Marshal())
	case it.Candidate != nil:
		c := it.Candidate
		b := binary.AppendVarint(nil, int64(c.Links))
		b = binary.AppendUvarint(b, uint64(c.From))
		b = binary.AppendVarint(binary.AppendVarint(b, c.First.UnixMilli()), c.Last.UnixMilli())
		s.put(4, []byte(c.Host), b)
		for _, u := range c.Seeds {
			s.put(5, []byte(u))
		}
	case it.Cursor != nil:
		s.put(6, []byte(it.Cursor.Feed), []byte(it.Cursor.At))
	case it.Counter != nil:
		s.put(7, []byte(it.Counter.Name), binary.AppendVarint(nil, it.Counter.N))
	case it.State != nil:
		s.put(8, []byte(it.State.Name), it.State.Body)
	default:
		s.put(9, binary.AppendUvarint(nil, uint64(it.Next)))
	}
}

func (s *Sum) put(kind byte, parts ...[]byte) {
	s.h.Write([]byte{kind})
	for _, p := range parts {
		s.h.Write(binary.AppendUvarint(nil, uint64(len(p))))
		s.h.Write(p)
	}
}

// Equal reports whether two sums are of the same items.
func (s *Sum) Equal(t *Sum) bool {
	return s.n == t.n && (s.n == 0 || string(s.h.Sum(nil)) == string(t.h.Sum(nil)))
}

// Items is the number of items taken in.
func (s *Sum) Items() int { return s.n }
