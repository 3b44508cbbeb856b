package overlaysim

import (
	"math/rand/v2"
	"time"

	"shoal/channel"
	"shoal/coords"
	"shoal/internal/sim"
	"shoal/overlay"
)

// judge is a manager that knows all members, as the product's knows up to overlay.MaxKnown: an overlay.Judge names the peer for each task. All
// peers have room. Its queries are those peers that measure the host at last, as those of a placing do.
type judge struct {
	n      *network
	j      *overlay.Judge
	tally  tally
	apart  tally      // of further tasks for the same host, each of which should go to another peer than the one before
	stayed int        // of these, those that went to the peer before all the same
	rng    *rand.Rand // draws who measures
}

func newJudge(n *network, known int) *judge {
	j, err := overlay.NewJudge(overlay.JudgeConfig{}, sim.Rand(1, "judge"))
	if err != nil {
		panic(err) // the configuration does not depend on flags
	}
	return &judge{n: n, j: j, rng: sim.Rand(1, "vantages"), tally: tally{name: "judge", tables: float64(known), tableMost: known},
		apart: tally{name: "apart", tables: float64(known), tableMost: known}}
}

// inTurn is how many more tasks come of each host for the tally apart.
const inTurn = 4

// place has the judge name a peer for a task.
func (k *judge) place(place int, record coords.HostRecord, known []overlay.PeerRecord) {
	n, now, host := k.n, k.n.time(), channel.HostKey(place)
	k.j.See(overlay.ViewOf(now, known))
	k.time(&record, place, known, overlay.Default("").Probes) // the last round of a survey, which others make when they place
	k.j.Locate(now, host, hostOf(place), record)
	ask := overlay.Ask{Host: host, Share: overlay.NearShare, Pages: 100, Gap: time.Second}
	named, verdict := k.j.Near(now, ask)
	if verdict != overlay.Go || named.Peer == "" {
		k.tally.empty++
		return
	}
	k.tally.land(n.ground.rtt(n.who(named.Peer), place), 1, 0)
	last := named.Peer
	ask.Rather = func(id overlay.ID) bool { return id != last }
	for range inTurn {
		if next, verdict := k.j.Near(now, ask); verdict == overlay.Go && next.Peer != "" {
			if next.Peer == last {
				k.stayed++
			}
			last = next.Peer
			k.apart.land(n.ground.rtt(n.who(last), place), 1, 0)
		}
	}
}

// time has some peers measure a host that are probably near it.
func (k *judge) time(record *coords.HostRecord, place int, known []overlay.PeerRecord, count int) {
	for _, p := range overlay.NearVantages(record, known, count, k.rng) {
		ms := k.n.ground.rtt(k.n.who(p.ID), place)
		record.Add(coords.Sample{Vantage: string(p.ID), At: p.Coord, RTT: time.Duration(ms * 1e6), When: k.n.time().Unix()})
		k.tally.queries++
	}
}
