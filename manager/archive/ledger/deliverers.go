package ledger

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	pb "shoal/manager/archive/archivepb"
	"shoal/manager/archive/schema"
)

// Deliverer is a peer that has claimed tasks of this archive.
type Deliverer struct {
	Number  uint64 // by which captures and feeds name it
	Peer    string
	Account string
	First   time.Time
	Last    time.Time // when it claimed, to the day
}

// noteEvery is how often a deliverer's last claim is noted.
const noteEvery = 24 * time.Hour

// DelivererNumber is the number by which captures name a peer or an account. It is stable within this archive, tells strangers nothing, and is never zero.
func (l *Ledger) DelivererNumber(name string) uint64 {
	h := sha256.New()
	h.Write([]byte("shoal deliverer 1\x00"))
	h.Write(l.id[:])
	h.Write([]byte(name))
	return max(binary.BigEndian.Uint64(h.Sum(nil))>>16, 1)
}

// DelivererName is how people are shown a deliverer's number; empty: none is known.
func DelivererName(number uint64) string {
	if number == 0 {
		return ""
	}
	return fmt.Sprintf("d-%012x", number)
}

// DelivererOf reads what DelivererName writes; 0: it is none.
func DelivererOf(name string) uint64 {
	hex, ok := strings.CutPrefix(name, "d-")
	if !ok || len(hex) != 12 {
		return 0
	}
	n, err := strconv.ParseUint(hex, 16, 48)
	if err != nil || DelivererName(n) != name {
		return 0
	}
	return n
}

// accountOf names the account of a peer: the one of before if its connection has ended since it asked, and itself where nothing is known.
func (l *Ledger) accountOf(peer string) string {
	if l.cfg.AccountOf != nil {
		if a := l.cfg.AccountOf(peer); a != "" {
			return a
		}
	}
	if h, known := l.holders.get(peer); known {
		return h.name
	}
	var m pb.Deliverer
	err := l.store.View(func(s Snapshot) error {
		_, err := Get(s, schema.Key(schema.Deliverer, l.DelivererNumber(peer)), &m)
		return err
	})
	if err != nil || m.Account == "" {
		return peer
	}
	return m.Account
}

// prefixOf is the number of the network of a peer's address; 0: it is not known.
func (l *Ledger) prefixOf(peer string) uint64 {
	if l.cfg.PrefixOf == nil {
		return 0
	}
	if p := l.cfg.PrefixOf(peer); p != "" {
		return l.PrefixNumber(p)
	}
	return 0
}

// PrefixNumber is the number by which deliveries name the network of an address, as DelivererNumber is of a peer.
func (l *Ledger) PrefixNumber(prefix string) uint64 { return l.DelivererNumber("prefix " + prefix) }

// note writes down who claims. It gives the change, or none where it is written down already.
func (l *Ledger) note(h holder, peer string, now time.Time) ([]Change, error) {
	key := schema.Key(schema.Deliverer, h.deliverer)
	var m pb.Deliverer
	err := l.store.View(func(s Snapshot) error {
		_, err := Get(s, key, &m)
		return err
	})
	if err != nil {
		return nil, err
	}
	h.last = schema.Time(m.LastUs)
	if m.Account == h.name && now.Sub(h.last) < noteEvery {
		l.holders.put(peer, h)
		return nil, nil
	}
	first := m.FirstUs
	if first == 0 {
		first = schema.Micros(now)
	}
	return Put(nil, key, &pb.Deliverer{Peer: peer, Account: h.name, FirstUs: first, LastUs: schema.Micros(now)})
}

// holder is what is written down of a peer that claims.
type holder struct {
	name               string // of its account
	deliverer, account uint64
	last               time.Time
}

// maxHolders bounds the holders in memory.
const maxHolders = 4096

// holders are the peers that claimed lately, as the store has them, so that a claim need not read it.
type holders struct {
	mu sync.Mutex
	by map[string]holder
}

func (h *holders) get(peer string) (holder, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	known, ok := h.by[peer]
	return known, ok
}

// put keeps a holder. A full table is begun anew.
func (h *holders) put(peer string, known holder) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.by == nil || len(h.by) >= maxHolders {
		h.by = map[string]holder{}
	}
	h.by[peer] = known
}

// Deliverers lists the peers that have claimed, by number. A name, of a peer or an account, limits them; empty: all. A number that captures show need not be
// known otherwise: a rebuilt archive no longer knows whose it was.
func (l *Ledger) Deliverers(ctx context.Context, name string) (out []Deliverer, err error) {
	one := DelivererOf(name)
	err = l.store.View(func(s Snapshot) error {
		if one != 0 {
			var m pb.Deliverer
			known, err := Get(s, schema.Key(schema.Deliverer, one), &m)
			if known {
				out = append(out, delivererAt(one, &m))
			}
			return err
		}
		return s.Scan([]byte{schema.Deliverer}, nil, true, func(key, value []byte) (bool, error) {
			var m pb.Deliverer
			if err := schema.Decode(value, &m); err != nil {
				return false, err
			}
			d := delivererAt(schema.Number(key, 0), &m)
			if name == "" || name == d.Peer || name == d.Account {
				out = append(out, d)
			}
			return true, ctx.Err()
		})
	})
	if err != nil {
		return nil, fmt.Errorf("deliverers: %w", err)
	}
	if one != 0 && len(out) == 0 {
		out = append(out, Deliverer{Number: one})
	}
	return out, nil
}

func delivererAt(number uint64, m *pb.Deliverer) Deliverer {
	return Deliverer{Number: number, Peer: m.Peer, Account: m.Account, First: schema.Time(m.FirstUs), Last: schema.Time(m.LastUs)}
}

// Several reports whether more than one account has delivered to this archive. If there is only one, no other can
// confirm what it says.
func (l *Ledger) Several() bool { return l.accounts.several.Load() }

// countAccounts looks, when the ledger is opened, whether several accounts have delivered.
func (l *Ledger) countAccounts(ctx context.Context) error {
	all, err := l.Deliverers(ctx, "")
	if err != nil {
		return err
	}
	for _, d := range all {
		l.accounts.note(l.DelivererNumber(d.Account))
	}
	return nil
}

// accounts tells whether more than one account has delivered.
type accounts struct {
	only    atomic.Uint64 // the first
	several atomic.Bool   // there are others
}

// note notes that an account delivers.
func (a *accounts) note(number uint64) {
	if number != 0 && !a.only.CompareAndSwap(0, number) && a.only.Load() != number {
		a.several.Store(true)
	}
}

// setHolder notes in a channel's state who holds its claim. It gives what is to be stored with the claim.
func (l *Ledger) setHolder(c *channelState, peer string, now time.Time) ([]Change, error) {
	name := l.accountOf(peer)
	h, known := l.holders.get(peer)
	if known = known && h.name == name; !known {
		h = holder{name: name, deliverer: l.DelivererNumber(peer), account: l.DelivererNumber(name)}
	}
	c.deliverer, c.account, c.prefix = h.deliverer, h.account, l.prefixOf(peer)
	l.accounts.note(c.account)
	if known && now.Sub(h.last) < noteEvery {
		return nil, nil
	}
	return l.note(h, peer, now)
}
