package badgerdb

import (
	"cmp"
	"container/heap"
	"context"
	"fmt"
	"slices"

	"github.com/dgraph-io/badger/v4"

	"shoal/channel"
)

// Host returns the stored state of a Web host, named as in Scope.Host. For an unknown host only Name is set.
func (db *DB) Host(_ context.Context, name string) (h channel.Host, err error) {
	err = db.view(func(b *badger.Txn, _ ranges) error {
		h, err = loadHost(func(k []byte) ([]byte, error) { return read(b, k) }, name)
		return err
	})
	return h, err
}

// Hosts is Host of many as of one moment, in their order.
func (db *DB) Hosts(_ context.Context, names []string) (all []channel.Host, err error) {
	err = db.view(func(b *badger.Txn, _ ranges) error {
		for _, name := range names {
			h, err := loadHost(func(k []byte) ([]byte, error) { return read(b, k) }, name)
			if err != nil {
				return err
			}
			all = append(all, h)
		}
		return nil
	})
	return all, err
}

func loadHost(get getter, name string) (channel.Host, error) {
	raw, err := get(hostKey(keyHost, name))
	if err != nil {
		return channel.Host{}, err
	}
	h, err := parseHot(name, raw)
	if err != nil {
		return channel.Host{}, err
	}
	raw, err = get(hostKey(keyRecord, name))
	if err != nil || raw == nil {
		return h, err
	}
	if raw[0] != v1 {
		return h, damaged("host record", raw)
	}
	full, err := channel.ParseHost(raw[1:])
	if err != nil {
		return h, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	h.Record = full.Record
	return h, nil
}

// UpdateHost changes the stored state of a host, as an operator asks.
func (db *DB) UpdateHost(ctx context.Context, e Epoch, name string, change func(*channel.Host)) error {
	return db.write(ctx, e, func(t *tx) error {
		h, err := loadHost(t.get, name)
		if err != nil {
			return err
		}
		change(&h)
		h.Name = name
		return putHost(t, &h)
	})
}

func putHost(t *tx, h *channel.Host) error {
	hot := *h
	hot.Blocked = channel.Text(h.Blocked)
	if err := t.putIfNew(hostKey(keyHost, h.Name), encodeHot(&hot)); err != nil {
		return err
	}
	where := channel.Host{Name: h.Name, Record: h.Record}
	raw := where.Marshal()
	if _, err := channel.ParseHost(raw); err != nil { // never store a record that cannot be read back
		return fmt.Errorf("host %.80q: %w", h.Name, err)
	}
	if len(h.Record.Samples) == 0 && len(h.Record.Best) == 0 && !h.Record.Anycast {
		t.del(hostKey(keyRecord, h.Name))
		return nil
	}
	return t.putIfNew(hostKey(keyRecord, h.Name), append([]byte{v1}, raw...))
}

// ScanHosts reads everything but Record of all stored hosts, ordered by name. Politeness needs these fields.
func (db *DB) ScanHosts(ctx context.Context, f func(channel.Host) error) error {
	f = shielded(f)
	return db.view(func(b *badger.Txn, _ ranges) error {
		n := 0
		return each(b, []byte{keyHost}, func(key, value []byte) error {
			if n++; n%65536 == 0 && ctx.Err() != nil {
				return ctx.Err()
			}
			name, _, ok := parseHostKey(key)
			if !ok {
				return damaged("host", key)
			}
			h, err := parseHot(name, value)
			if err != nil {
				return err
			}
			return f(h)
		})
	})
}

// Candidates returns the n hosts without a channel that crawls found most often, in that order, of those that want takes; nil: of all.
func (db *DB) Candidates(ctx context.Context, n int, want func(host string) bool) ([]channel.Candidate, error) {
	var top topCandidates
	seen, wanted := 0, true
	ask := shielded(func(host string) error { wanted = want == nil || want(host); return nil })
	err := db.view(func(b *badger.Txn, _ ranges) error {
		return each(b, []byte{keyCandidate}, func(key, value []byte) error {
			if seen++; seen%65536 == 0 && ctx.Err() != nil {
				return ctx.Err()
			}
			host, _, ok := parseHostKey(key)
			if !ok {
				return damaged("candidate", key)
			}
			if err := ask(host); err != nil || !wanted {
				return err
			}
			c, err := parseCandidate(host, value)
			if err != nil {
				return err
			}
			heap.Push(&top, c)
			if len(top) > n {
				heap.Pop(&top)
			}
			return nil
		})
	})
	slices.SortFunc(top, func(a, b channel.Candidate) int { return compareCandidates(b, a) })
	return top, err
}

// compareCandidates orders the more valuable candidate first.
func compareCandidates(a, b channel.Candidate) int {
	return cmp.Or(cmp.Compare(a.Links, b.Links), cmp.Compare(b.Host, a.Host))
}

// topCandidates is a heap with the least candidate first.
type topCandidates []channel.Candidate

func (t topCandidates) Len() int           { return len(t) }
func (t topCandidates) Less(i, j int) bool { return compareCandidates(t[i], t[j]) < 0 }
func (t topCandidates) Swap(i, j int)      { t[i], t[j] = t[j], t[i] }
func (t *topCandidates) Push(x any)        { *t = append(*t, x.(channel.Candidate)) }
func (t *topCandidates) Pop() any {
	old := *t
	x := old[len(old)-1]
	*t = old[:len(old)-1]
	return x
}

// CountCandidates returns the number of hosts without a channel.
func (db *DB) CountCandidates(_ context.Context) (n int, err error) {
	err = db.view(func(b *badger.Txn, _ ranges) error {
		u, err := (&tx{base: b}).metaUint(metaFound)
		n = int(u)
		return err
	})
	return n, err
}

// DropCandidates forgets hosts that have a channel by now or are not wanted.
func (db *DB) DropCandidates(ctx context.Context, e Epoch, hosts []string) error {
	if len(hosts) > channel.MaxAdd {
		return fmt.Errorf("%w: %d candidates, at most %d", ErrTooLarge, len(hosts), channel.MaxAdd)
	}
	return db.write(ctx, e, func(t *tx) error {
		total, err := t.metaUint(metaFound)
		if err != nil {
			return err
		}
		for _, h := range hosts {
			key := hostKey(keyCandidate, h)
			raw, err := t.get(key)
			if err != nil {
				return err
			}
			if raw != nil {
				t.del(key)
				total -= min(total, 1)
			}
		}
		t.putMetaUint(metaFound, total)
		return nil
	})
}
