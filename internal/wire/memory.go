package wire

import (
	"fmt"
	"net/netip"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	manet "github.com/multiformats/go-multiaddr/net"

	"shoal/internal/member"
	"shoal/internal/wire/frame"
)

// A frame that comes, or an answer that leaves, must move: each piece of it within a time. That is far below what the whole exchange
// needs to come through, so that a slow line that carries many frames at once is left alone.
const pieceTime = 30 * time.Second // for each frame.Step bytes, and for a request's first ones

// memory bounds what members make a node hold in frames: in all, for an address prefix, for an account and for one member.
type memory struct {
	total, perPrefix, perAccount, perMember int64
	piece                                   time.Duration // pieceTime

	mu   sync.Mutex // guards used
	used map[string]int64
}

func newMemory(l Limits) *memory {
	return &memory{total: l.Memory, perPrefix: l.MemoryPerPrefix, perAccount: l.MemoryPerAccount, perMember: l.MemoryPerMember,
		piece: pieceTime, used: map[string]int64{}}
}

// holding is what one exchange holds. It belongs to one goroutine.
type holding struct {
	of    *memory
	keys  []string // what it is counted under, the widest first
	most  []int64  // of each
	bytes int64
}

// hold begins to count for a member, or for one of the network's own servers, which only the total bounds.
func (m *memory) hold(who Member, from netip.Addr) *holding {
	h := &holding{of: m, keys: []string{""}, most: []int64{m.total}}
	if who.Role == member.Peer {
		h.keys = append(h.keys, "prefix "+member.Prefix(from), "account "+who.Account, "peer "+string(who.Peer))
		h.most = append(h.most, m.perPrefix, m.perAccount, m.perMember)
	}
	return h
}

// reserve asks for more.
func (h *holding) reserve(bytes int) error { return h.take(int64(bytes), h.most) }

// answer asks for more, for an answer that is there already. A member that holds nothing else is given its answer, whatever its size.
func (h *holding) answer(bytes int) error {
	h.of.mu.Lock()
	alone := h.of.used[h.keys[len(h.keys)-1]] == h.bytes
	h.of.mu.Unlock()
	if alone {
		return h.take(int64(bytes), h.most[:1])
	}
	return h.take(int64(bytes), h.most)
}

func (h *holding) take(bytes int64, most []int64) error {
	h.of.mu.Lock()
	defer h.of.mu.Unlock()
	for i, limit := range most {
		if used := h.of.used[h.keys[i]]; used+bytes > limit {
			return fmt.Errorf("%d bytes more beside %d, at most %d", bytes, used, limit)
		}
	}
	for _, k := range h.keys {
		h.of.used[k] += bytes
	}
	h.bytes += bytes
	return nil
}

// end gives all of it back.
func (h *holding) end() {
	h.of.mu.Lock()
	defer h.of.mu.Unlock()
	for _, k := range h.keys {
		if h.of.used[k] -= h.bytes; h.of.used[k] == 0 {
			delete(h.of.used, k)
		}
	}
	h.bytes = 0
}

// incoming is what a request may take: memory by what has arrived, and for each piece a time that ends before the whole exchange's.
func incoming(s network.Stream, h *holding, until time.Time) frame.Budget {
	return frame.Budget{Reserve: h.reserve, Piece: func(int) error { return s.SetReadDeadline(sooner(until, h.of.piece)) }}
}

// sooner is the end of a term that begins now, or until, if that comes first.
func sooner(until time.Time, term time.Duration) time.Time {
	if at := time.Now().Add(term); at.Before(until) {
		return at
	}
	return until
}

// moving writes to a stream whose other end must go on reading.
type moving struct {
	network.Stream
	until time.Time
	piece time.Duration
}

// Write writes piece by piece, each within its time.
func (m moving) Write(b []byte) (n int, err error) {
	for {
		if err := m.SetWriteDeadline(sooner(m.until, m.piece)); err != nil {
			return n, err
		}
		k, err := m.Stream.Write(b[n:min(n+frame.Step, len(b))])
		n += k
		if err != nil || n == len(b) {
			return n, err
		}
	}
}

// publicPrefix is the network of a connection's other end; empty: it is not a public address, or a relay's.
func publicPrefix(c network.Conn) string {
	if a := remoteAddr(c).Unmap(); !c.Stat().Limited && a.IsGlobalUnicast() && !a.IsPrivate() {
		return member.Prefix(a)
	}
	return ""
}

// remoteAddr is where a connection comes from; invalid: not from an address.
func remoteAddr(c network.Conn) netip.Addr {
	ip, err := manet.ToIP(c.RemoteMultiaddr())
	if err != nil {
		return netip.Addr{}
	}
	a, _ := netip.AddrFromSlice(ip)
	return a
}
