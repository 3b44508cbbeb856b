package manager

import (
	"time"

	"shoal/channel"
	"shoal/manager/archive"
	"shoal/overlay"
	"shoal/recrawl"
)

// complaints are channels whose last crawl failed, and who said so. A failure counts, for longer pauses and for giving the channel up, only if
// another party than the one before says so, or if there is no other. The next crawl is another party's, if there is one, and after the first
// failure it is soon. So no party can keep a channel from being crawled by its word alone. The notes do not outlive the manager; each party counts
// once more after that. Owned by the loop.
type complaints map[recrawl.Slot]complaint

type complaint struct {
	by      party // whose failure counted last
	peer    overlay.ID
	since   time.Time
	refused bool // the peer's owner does not want the host
}

// maxComplaints bounds the notes. Then all are forgotten, and the next failure of each channel counts, whichever party tells of it.
const maxComplaints = 1 << 16

// verdict is what follows from a failed crawl.
type verdict uint8

const (
	repeated verdict = iota // nothing: its party has said so before
	first                   // it counts, and another party is to look soon
	counts                  // it counts
)

// failed takes in that a crawl failed.
func (c complaints) failed(now time.Time, s recrawl.Slot, by party, peer overlay.ID, alone, refused bool) verdict {
	old, known := c[s]
	if !known && len(c) >= maxComplaints {
		clear(c)
	}
	v := counts
	switch {
	case alone:
	case !known:
		v = first
	case old.by.same(by):
		v, by = repeated, old.by
	}
	c[s] = complaint{by, peer, now, refused}
	return v
}

// pause is how long a channel, or its host, is left alone after a failed crawl, the n-th that counts.
func (le *learner) pause(v verdict, n int) time.Duration {
	switch v {
	case first:
		return min(le.clock.Step, le.cfg.Failing.pause(1))
	case repeated:
		n = 1
	}
	return le.cfg.Failing.pause(n)
}

// failing takes in a report of a crawl that brought nothing.
func (le *learner) failing(now time.Time, s recrawl.Slot, e *archive.Entry) verdict {
	v := le.cfg.Swarm.View()
	by := le.parties.of(v, e.Peer)
	return le.near.complaints.failed(now, s, by, overlay.ID(e.Peer), soleParty(v, by), e.Report.Outcome == channel.Refused)
}

// succeeded takes in that a peer brought pages of a channel. If another party's peer has just said that it could not be fetched, and has not brought
// anything of any channel since, that peer has wasted its task.
func (le *learner) succeeded(s recrawl.Slot, peer string) {
	c, known := le.near.complaints[s]
	if !known {
		return
	}
	delete(le.near.complaints, s)
	if by := le.parties.of(le.cfg.Swarm.View(), peer); !c.refused && !c.by.same(by) {
		le.cfg.Swarm.Wasted(c.peer, c.since)
	}
}
