package manager

import (
	"time"

	"shoal/channel"
	"shoal/channel/lease"
	"shoal/manager/archive"
	"shoal/manager/dispatch"
	"shoal/overlay"
)

// accused are hosts of which one account has said that they refuse crawlers. It takes the word of two accounts to block a host: until then the host
// waits, as after a failed crawl. Where all peers are of one account its word is enough if it says so twice. A crawl of the host that brings
// pages clears it. The notes do not outlive the manager, after which it takes as many words again. Owned by the loop.
type accused map[channel.HostKey]accusation

type accusation struct {
	by    string // the account that said so first
	times int    // that it was said
	since time.Time
}

const maxAccused = 1 << 14

// accuse takes in that an account says so, and reports whether that is enough to block the host. alone says that there is no other account.
func (a accused) accuse(now time.Time, host channel.HostKey, account string, alone bool) bool {
	c, known := a[host]
	switch {
	case known && (c.by != account || alone):
		delete(a, host)
		return true
	case !known && len(a) >= maxAccused:
		a.forget()
	}
	if !known {
		c = accusation{by: account, since: now}
	}
	c.times++
	a[host] = c
	return false
}

// forget drops the oldest note. Such a host takes as many words again.
func (a accused) forget() {
	var oldest channel.HostKey
	var since time.Time
	for host, c := range a {
		if since.IsZero() || c.since.Before(since) || c.since.Equal(since) && host < oldest {
			oldest, since = host, c.since
		}
	}
	delete(a, oldest)
}

// refusedBy takes in a report that a host refuses crawlers, and reports whether the host is blocked for it. If not, the host waits.
func (le *learner) refusedBy(now time.Time, name string, e *archive.Entry) bool {
	key := channel.KeyOf(name)
	account, alone := le.accountOf(e.Peer)
	if le.accused.accuse(now, key, account, alone) {
		le.blockHost(now, name, e.Report.Reason)
		return true
	}
	h := le.keep.records[key]
	if until := now.Add(le.cfg.Failing.pause(le.accused[key].times)); until.After(h.NextVisit) {
		h.NextVisit = until
	}
	le.tally.fault("host accused")
	return false
}

// accountNumber is a number of a peer's account.
func (le *learner) accountNumber(peer dispatch.Peer) uint64 {
	account, _ := le.accountOf(string(peer))
	return uint64(lease.PeerOf(account))
}

// accountOf is the account of a peer, or the peer itself where that is not known, and whether all peers that take tasks are of the same one.
func (le *learner) accountOf(peer string) (account string, alone bool) {
	named := func(p *overlay.PeerRecord) string {
		if p.Account != "" {
			return "account " + p.Account
		}
		return string(p.ID)
	}
	v := le.cfg.Swarm.View()
	account = peer
	if p := v.Find(overlay.ID(peer)); p != nil {
		account = named(p)
	}
	for i := range v.Peers {
		if p := &v.Peers[i]; p.Load.Threads > 0 && named(p) != account {
			return account, false
		}
	}
	return account, true
}
