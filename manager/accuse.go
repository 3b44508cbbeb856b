package manager

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"shoal/channel"
	"shoal/manager/archive"
)

// accused are hosts of which one party has said that they refuse crawlers. It takes the word of two to block a host: until then the host
// waits, as after a failed crawl. Where all peers are of one party its word is enough if it says so twice. A crawl of the host that brings
// pages clears it. The notes do not outlive the manager, after which it takes as many words again. Owned by the loop.
type accused map[channel.HostKey]accusation

type accusation struct {
	by    party // that said so first
	since time.Time
}

const maxAccused = 1 << 14

// accuse takes in that a party says so, and reports whether that is enough to block the host. alone says that there is no other party.
func (a accused) accuse(now time.Time, host channel.HostKey, by party, alone bool) bool {
	c, known := a[host]
	switch {
	case known && (alone || !c.by.same(by)):
		delete(a, host)
		return true
	case known:
		return false
	case len(a) >= maxAccused:
		a.forget()
	}
	a[host] = accusation{by, now}
	return false
}

// forget drops the oldest quarter of the notes: one at a time, each new note would have to look at all. Such hosts take as many words again.
func (a accused) forget() {
	hosts := slices.SortedFunc(maps.Keys(a), func(x, y channel.HostKey) int {
		return cmp.Or(a[x].since.Compare(a[y].since), cmp.Compare(x, y))
	})
	for _, host := range hosts[:len(hosts)/4] {
		delete(a, host)
	}
}

// refusedBy takes in a report that a host refuses crawlers. One word has the host wait, and further ones of the same party no longer. With two words it is blocked or, if it has named a time, left alone
// for so long. said is what follows for the channel.
func (le *learner) refusedBy(now time.Time, name string, e *archive.Entry, said verdict) {
	key, v := channel.KeyOf(name), le.cfg.Swarm.View()
	by := le.parties.of(v, e.Peer)
	if le.accused.accuse(now, key, by, soleParty(v, by)) {
		if e.Report.Rest > channel.UsualRest { // it has said for how long, as hosts do that are being worked on
			le.leave(now, le.keep.records[key], now.Add(min(e.Report.Rest, channel.MostRest)))
			le.tally.fault(kindHostRests)
			return
		}
		le.blockHost(now, name, e.Report.Reason)
		return
	}
	le.leave(now, le.keep.records[key], now.Add(le.pause(said, 1)))
	le.tally.fault(kindHostAccused)
}
