package peer

import "shoal/internal/wire"

// Wire returns the agent's place on the wire, or nil before it runs.
func (a *Agent) Wire() *wire.Node {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.wire
}
