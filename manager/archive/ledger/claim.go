package ledger

import (
	"time"

	pb "shoal/manager/archive/archivepb"
	"shoal/manager/archive/intake"
	"shoal/manager/archive/schema"
)

// maxFault bounds the words in which an entry says why a claim was ended.
const maxFault = 200

// claim is what the claim of a fence's generation has brought. It is stored with the channel: a peer gains no second budget by a restart of the
// archive.
type claim struct {
	intake.Sum
	at       time.Time // when it was made; zero: before this was kept
	readBack bool      // at was read from the store, so that it is only what the clock showed
	undated  bool      // the clock was set back since, so that at does not tell how long ago it was made
}

// setBack is how far the clock may have been set back between a claim and the time when it was read from the store. A clock that is further ahead is mostly seen
// to be: the claim is dated later than now then, or Run sees the step.
const setBack = 5 * time.Minute

// mayBeSetBack is how far the clock may have been set back since the claim without being seen: not at all in the process that took the claim.
func (c *claim) mayBeSetBack() time.Duration {
	if c.readBack {
		return setBack
	}
	return 0
}

// lookAtClock notes of a claim that is dated later than now that it was made by a clock that was ahead. That clock is the archive's own: no peer can bring this about,
// nor by sending a chunk to another program than the one that took the claim, whose clock may be a little behind.
func (c *channelState) lookAtClock(now time.Time) {
	apart := time.Duration(0)
	if c.claim.readBack {
		apart = otherClock
	}
	if c.claim.at.After(now.Add(apart)) {
		c.undate()
	}
}

// undate has no chunk of the claim bounded by how long ago the claim seems to have been made. An honest peer would be refused.
func (c *channelState) undate() {
	c.claim.undated = true
	if c.task != nil {
		c.task.Unpaced = true
	}
}

// next is the claim after c. A crawl that goes on has the to-do list of all its claims, which is bounded as a whole: else each claim would make what the next
// one is told longer.
func (c *claim) next(now time.Time, goesOn bool) claim {
	n := claim{at: now}
	if goesOn {
		n.Frontier, n.FrontierBytes, n.Leads, n.LeadBytes = c.Frontier, c.FrontierBytes, c.Leads, c.LeadBytes
	}
	return n
}

func (c *claim) stored() *pb.Claim {
	if c.Sum == (intake.Sum{}) && c.at.IsZero() {
		return nil
	}
	return &pb.Claim{
		ClaimedUs: schema.Micros(c.at), Pages: uint64(c.Pages), Answered: uint64(c.Answered), Bytes: c.Bytes, Frontier: uint64(c.Frontier), FrontierBytes: c.FrontierBytes,
		New: uint64(c.New), Changed: uint64(c.Changed), NearUnchanged: uint64(c.NearUnchanged), Unchanged: uint64(c.Unchanged), Gone: uint64(c.Gone), Wrong: uint64(c.Wrong),
		Leads: uint64(c.Leads), LeadBytes: c.LeadBytes,
	}
}

func (c *claim) parse(m *pb.Claim) {
	*c = claim{Sum: intake.Sum{
		Pages: int(m.GetPages()), Answered: int(m.GetAnswered()), Bytes: m.GetBytes(), Frontier: int(m.GetFrontier()), FrontierBytes: m.GetFrontierBytes(),
		New: int(m.GetNew()), Changed: int(m.GetChanged()), NearUnchanged: int(m.GetNearUnchanged()), Unchanged: int(m.GetUnchanged()), Gone: int(m.GetGone()), Wrong: int(m.GetWrong()),
		Leads: int(m.GetLeads()), LeadBytes: m.GetLeadBytes(),
	}, at: schema.Time(m.GetClaimedUs()), readBack: m != nil}
}
