package wire

import (
	"sync"

	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"
)

// callKey counts what one peer asks of one protocol.
type callKey struct {
	peer  peer.ID
	proto protocol.ID
}

// counts bounds the requests of one peer that run at a time.
type counts struct {
	most int

	mu sync.Mutex // guards all below
	of map[callKey]int
}

func newCounts(most int) *counts { return &counts{most: most, of: map[callKey]int{}} }

// begin counts a request in, if its peer may have one more.
func (c *counts) begin(k callKey) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.of[k] >= c.most {
		return false
	}
	c.of[k]++
	return true
}

func (c *counts) end(k callKey) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.of[k]--; c.of[k] == 0 {
		delete(c.of, k)
	}
}
