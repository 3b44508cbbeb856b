package manager

import (
	"strings"
	"time"

	"shoal/channel"
	"shoal/manager/dispatch"
	"shoal/overlay"
)

// tally counts what happened since the network's first start, and has what an operator should know of. Owned by the loop.
type tally struct {
	since   time.Time       // the first start
	started time.Time       // this manager's
	earlier dispatch.Counts // of managers before this one
	audits  int64           // that peers accepted of those

	updates, pages, unchanged, bytesDown int64
	visited                              int              // channels that were ever crawled
	errors                               map[string]int64 // by kind
	notices                              map[string]string

	// Of accepted tasks: the chosen peer's predicted round-trip time to the host, and a random peer's.
	placed                   int64
	hops, chosenMS, randomMS float64
}

func newTally(now time.Time) tally {
	return tally{since: now, started: now, errors: map[string]int64{}, notices: map[string]string{}}
}

// Keys of notices because of which nothing is handed out.
const (
	noticeStore = "store"
	noticeFeed  = "feed"
	noticeDisk  = "disk"
	noticeClock = "clock"
)

// notice sets what an operator should know; an empty text takes it back.
func (t *tally) notice(key, text string) {
	if text == "" {
		delete(t.notices, key)
		return
	}
	t.notices[key] = text
}

// blocking are the notices because of which nothing is handed out.
func (t *tally) blocking() (texts []string) {
	for _, key := range []string{noticeStore, noticeFeed, noticeDisk, noticeClock} {
		if text := t.notices[key]; text != "" {
			texts = append(texts, text)
		}
	}
	return texts
}

const maxErrorKinds = 100 // kinds of errors counted apart; the rest is "other"

// fault counts an error.
func (t *tally) fault(kind string) { t.faults(kind, 1) }

func (t *tally) faults(kind string, n int) {
	if _, ok := t.errors[kind]; !ok && len(t.errors) >= maxErrorKinds {
		kind = "other"
	}
	t.errors[kind] += int64(n)
}

// report counts what a task's report tells.
func (t *tally) report(r *channel.Report) {
	t.pages += int64(r.Pages)
	t.unchanged += int64(r.Unchanged + r.NearUnchanged)
	t.bytesDown += r.BytesDown
	why := false
	for kind, n := range r.Errors {
		t.faults(kind, n)
		why = why || n > 0 && !channel.Noted(kind)
	}
	if r.Outcome != channel.Updated && !why { // else it is counted already, by what the crawl met
		t.fault(outcomeKind(r.Outcome))
	}
}

// Kinds of errors that the manager itself finds, beside those that reports name (channel.ErrorKinds).
const (
	kindStore       = "store"     // the database refuses to write or to read
	kindArchive     = "archive"   // the archive took no task
	kindPlacing     = "placing"   // it is not known whether a peer has a task
	kindDiscovery   = "discovery" // channels that discovery found were not added
	kindGivenUp     = "given-up"
	kindHostBlocked = "host-blocked"
	kindHostAccused = "host-accused" // by one peer, who is not believed alone
	kindHostRests   = "host-rests"   // for as long as the host asked to be left alone
)

// outcomeKind is what a task is counted as that did not bring its channel's copy up to date, where its report does not name what the crawl met.
func outcomeKind(o channel.Outcome) string {
	switch o {
	case channel.Failed:
		return "task-failed"
	case channel.HostBlocked:
		return "task-blocked"
	case channel.Stopped:
		return "task-stopped"
	case channel.Refused:
		return "task-refused"
	case channel.Lapsed:
		return "task-lapsed"
	}
	return "task-other"
}

// hyphened are counts of errors by kinds as they are spelt now. Earlier versions kept some with spaces.
func hyphened(kept map[string]int64) map[string]int64 {
	before := map[string]string{"task blocked by its host": "task-blocked", "task refused by its peer": "task-refused"}
	out := make(map[string]int64, len(kept))
	for kind, n := range kept {
		if now, is := before[kind]; is {
			kind = now
		}
		out[strings.ReplaceAll(kind, " ", "-")] += n
	}
	return out
}

// landed counts how near a task landed.
func (t *tally) landed(p overlay.Placed) {
	t.placed++
	t.hops += float64(p.Hops)
	t.chosenMS += ms(p.RTT)
	t.randomMS += ms(p.RandomRTT)
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
