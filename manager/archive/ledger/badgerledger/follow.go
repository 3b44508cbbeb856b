package badgerledger

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	"google.golang.org/protobuf/proto"

	pb "shoal/manager/archive/archivepb"
	"shoal/manager/archive/ledger"
	"shoal/manager/archive/schema"
)

// A store may be the copy of a log that lies elsewhere: the log's entries, applied in their order, make the same records in each copy. How far a
// copy has come is in the same transaction as what it has made of an entry, so that a crash neither leaves one out nor applies one twice.

// Position is how far a copy has come in its log.
type Position struct {
	Seq  uint64   // of the last entry that is applied
	Key  [16]byte // of that entry
	Done uint32   // writes of the next entry that are applied; a large entry takes several transactions
}

// positionKey is in the table State, whose own record has the key without the second byte.
var positionKey = []byte{schema.State, 'p'}

// IsPosition reports whether a record is the copy's own, and no part of what the log says.
func IsPosition(key []byte) bool { return bytes.Equal(key, positionKey) }

func (p *Position) encode() []byte {
	b := binary.BigEndian.AppendUint64([]byte{schema.ValueV1}, p.Seq)
	return append(binary.BigEndian.AppendUint32(b, p.Done), p.Key[:]...)
}

// Position is how far the copy has come; false: it follows no log.
func (s *Store) Position() (p Position, ok bool, err error) {
	err = s.View(func(snap ledger.Snapshot) error {
		p, ok, err = PositionIn(snap)
		return err
	})
	return p, ok, err
}

// PositionIn is Position in a snapshot.
func PositionIn(snap ledger.Snapshot) (p Position, ok bool, err error) {
	ok, err = snap.Get(positionKey, func(v []byte) error {
		if len(v) != 29 || v[0] != schema.ValueV1 {
			return fmt.Errorf("%w: position of %d bytes", schema.ErrValue, len(v))
		}
		p = Position{Seq: binary.BigEndian.Uint64(v[1:]), Done: binary.BigEndian.Uint32(v[9:]), Key: [16]byte(v[13:])}
		return nil
	})
	return p, ok, err
}

// Logged is an entry of a log.
type Logged struct {
	Seq    uint64
	Key    [16]byte
	Writes []ledger.Write
}

// Apply makes the writes of the log's next entries durable, as Commit does, together with the position behind them. What an earlier call has done of
// the first one before a crash is not done again: refused then has nothing to say of those writes. With an error, refused is of the entries that are durable
// all the same: a later call goes on behind them.
func (s *Store) Apply(entries ...Logged) (refused [][]error, err error) {
	err = s.use(func() error {
		at, _, err := s.Position()
		if err != nil {
			return err
		}
		b := batch{s: s, head: proto.CloneOf(&s.head), at: &at}
		defer b.discard()
		for _, e := range entries {
			if e.Seq != at.Seq+1 || int(at.Done) > len(e.Writes) {
				err = fmt.Errorf("%w: entry %d of the log does not follow on %d", ledger.ErrState, e.Seq, at.Seq)
				break
			}
			said := append(make([]error, 0, len(e.Writes)), s.partly.of(e.Seq, int(at.Done))...)
			more, aerr := b.addAll(e.Writes[at.Done:])
			refused = append(refused, append(said, more...))
			if err = aerr; err != nil {
				break
			}
			at = Position{Seq: e.Seq, Key: e.Key}
		}
		if err == nil {
			err = b.finish()
		}
		if err != nil {
			var kerr error
			refused, kerr = s.keep(entries, refused)
			return errors.Join(err, kerr)
		}
		return nil
	})
	return refused, err
}

// partly is what is wrong with the first writes of an entry, those that were made durable before an error. It is in memory alone: after a crash nobody here has
// been told of the entry, and none wants to know.
type partly struct {
	seq     uint64
	refused []error
}

// of is what is known of the first n writes of an entry.
func (p *partly) of(seq uint64, n int) []error {
	if p.seq != seq || len(p.refused) != n {
		return make([]error, n)
	}
	return p.refused
}

// keep returns what is known of the entries that are durable after an error, and keeps what is known of a part of the next one.
func (s *Store) keep(entries []Logged, refused [][]error) ([][]error, error) {
	at, _, err := s.Position()
	if err != nil || len(entries) == 0 {
		return nil, err
	}
	whole := 0
	for whole < len(refused) && entries[whole].Seq <= at.Seq {
		whole++
	}
	if whole < len(refused) && at.Done > 0 {
		s.partly = partly{entries[whole].Seq, refused[whole][:at.Done]}
	}
	return refused[:whole], nil
}

// Fits reports whether a write is small enough for one transaction, so that it may be in a log.
func (s *Store) Fits(w *ledger.Write) bool {
	b := batch{s: s}
	return b.fits(weigh(w))
}

// Load fills a new store with the records of another copy, up to a position. next gives them in any order, and no key at the end.
func (s *Store) Load(at Position, next func() (key, value []byte, err error)) error {
	return s.use(func() error {
		w := s.db.NewWriteBatch()
		defer w.Cancel()
		for {
			key, value, err := next()
			if err != nil {
				return err
			}
			if key == nil {
				break
			}
			if err := w.Set(bytes.Clone(key), bytes.Clone(value)); err != nil {
				return err
			}
		}
		if err := w.Flush(); err != nil {
			return err
		}
		s.mu.Lock()
		s.head = pb.State{}
		s.mu.Unlock()
		return s.follow(at)
	})
}

// Follow has a store go on as the copy of a log, of which it holds all up to a position.
func (s *Store) Follow(at Position) error {
	return s.use(func() error { return s.follow(at) })
}

func (s *Store) follow(at Position) error {
	if err := s.readHead(); err != nil {
		return err
	}
	b := batch{s: s, head: proto.CloneOf(&s.head), at: &at}
	defer b.discard()
	return b.finish()
}
