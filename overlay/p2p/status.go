package p2p

import (
	"maps"
	"slices"
	"strings"
	"time"

	"shoal/coords"
	"shoal/overlay"
)

// showEvery is the beat on which the loop publishes what others may read. A table of thousands is copied so often, and not for every message.
const showEvery = 250 * time.Millisecond

// shown is what the loop publishes. It never changes.
type shown struct {
	coord  coords.Coord
	view   *overlay.View
	rings  []int
	counts map[string]int64
}

// show publishes. Called on the loop.
func (r *Runner) show(now time.Time) {
	rings := r.node.Rings()
	r.shown.Store(&shown{r.node.Coord(), r.node.View(now), slices.Clone(rings[:]), maps.Clone(r.node.Counts())})
}

// Status is what others may read of a runner, as it was a moment ago. What it points to is shared, and must not be changed.
type Status struct {
	Coord   coords.Coord
	Known   []overlay.PeerRecord
	Rings   []int
	Counts  map[string]int64
	Refused map[string]int64
	Rates   Rates
}

// Status of a moment ago.
func (r *Runner) Status() Status {
	now := r.shown.Load()
	s := Status{Coord: now.coord, Known: now.view.Peers, Rings: now.rings, Counts: now.counts, Rates: r.rate(), Refused: map[string]int64{}}
	for why, n := range r.cfg.Wire.Refused() {
		if own, ok := strings.CutPrefix(why, refusedPrefix); ok {
			s.Refused[own] = n
		}
	}
	return s
}

// Coord is where this member is.
func (r *Runner) Coord() coords.Coord { return r.shown.Load().coord }

// View is what this member knows of the others. It is the same one until the next beat.
func (r *Runner) View() *overlay.View { return r.shown.Load().view }

// Peers are the members that it knows. They are shared, and must not be changed.
func (r *Runner) Peers() []overlay.PeerRecord { return r.View().Peers }
