package main

import (
	"net"
	"net/url"
	"sync"
	"time"

	"shoal/peer/crawl"
	"shoal/peer/words"
)

// around is what is wrong around this computer, whichever network it works for.
type around struct {
	web       words.Text // why no Web site is reached; without a key: some are
	unplugged bool       // no cable, and no wireless network
	noPond    bool       // the network crawls a synthetic Web that this peer does not know
}

// unplugged reports whether this computer has no link to any other. Where the system does not tell, it has one.
func unplugged() bool {
	list, err := net.Interfaces()
	if err != nil || len(list) == 0 {
		return false
	}
	for _, i := range list {
		if i.Flags&net.FlagLoopback == 0 && i.Flags&net.FlagUp != 0 && i.Flags&net.FlagRunning != 0 {
			return false
		}
	}
	return true
}

// webLost notices that this computer reaches no Web site any more, though it may reach the company: a name server that hangs, a proxy that is down, a firewall. A
// single site that does not answer says nothing. It is safe for concurrent use.
type webLost struct {
	mu    sync.Mutex
	sites map[string]string // kind of error, of sites that did not answer; none of any kind has answered since
	since time.Time         // the first of them
	last  time.Time         // any visit that failed so

	inside      map[string]struct{} // sites since the last answer whose names led to addresses that may not be asked
	insideSince time.Time
}

// How many sites must have failed in a row, none answering between: each has a name server of its own, but hardly two fail at once by chance.
const (
	lostNames = 2  // where names were not found out, or the proxy did not help
	lostSites = 4  // where connections failed, or addresses were forbidden
	lostMost  = 16 // sites that are remembered

	lostFor = time.Hour // after the last of them: who asks nothing does not know whether it is mended
)

// visit notes a visit of any site.
func (l *webLost) visit(v crawl.Visit) {
	u, err := url.Parse(v.URL)
	if err != nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	switch v.Kind {
	case "dns", "dns-timeout", "proxy", "refused", "unreachable", "timeout":
		if v.Status != 0 {
			break
		}
		if l.sites == nil {
			l.sites, l.since = map[string]string{}, v.At
		}
		l.last = v.At
		if len(l.sites) < lostMost {
			l.sites[u.Host] = v.Kind
		}
		return
	case "forbidden-address": // the peer asked for nothing
		if l.inside == nil {
			l.inside, l.insideSince = map[string]struct{}{}, v.At
		}
		l.last = v.At
		if len(l.inside) < lostMost {
			l.inside[u.Host] = struct{}{}
		}
		return
	case "no-lease": // the peer asked for nothing
		return
	}
	l.sites, l.inside = nil, nil
}

// says is what a volunteer is told, and since when; an empty key: nothing.
func (l *webLost) says(now time.Time) words.Text {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now.Sub(l.last) > lostFor {
		return words.Text{}
	}
	names, proxy := 0, 0
	for _, kind := range l.sites {
		switch kind {
		case "dns", "dns-timeout":
			names++
		case "proxy":
			proxy++
		}
	}
	switch all := len(l.sites); {
	case proxy >= lostNames && proxy == all:
		return words.T("say.web.proxy", words.Moment(l.since, now), all)
	case names >= lostNames && 2*names >= all:
		return words.T("say.web.names", words.Moment(l.since, now), all)
	case all >= lostSites:
		return words.T("say.web.lost", words.Moment(l.since, now), all)
	case len(l.inside) >= lostSites:
		return words.T("say.web.inside", words.Moment(l.insideSince, now), len(l.inside))
	}
	return words.Text{}
}
