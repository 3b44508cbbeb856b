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
	at time.Time // when it was made; zero: before this was kept
}

// next is the claim after c. A crawl that goes on has the to-do list of all its claims, which is bounded as a whole: else each claim would make what the next
// one is told longer.
func (c *claim) next(now time.Time, goesOn bool) claim {
	n := claim{at: now}
	if goesOn {
		n.Frontier, n.FrontierBytes = c.Frontier, c.FrontierBytes
	}
	return n
}

func (c *claim) stored() *pb.Claim {
	if *c == (claim{}) {
		return nil
	}
	return &pb.Claim{
		ClaimedUs: schema.Micros(c.at), Pages: uint64(c.Pages), Answered: uint64(c.Answered), Bytes: c.Bytes, Frontier: uint64(c.Frontier), FrontierBytes: c.FrontierBytes,
		New: uint64(c.New), Changed: uint64(c.Changed), NearUnchanged: uint64(c.NearUnchanged), Unchanged: uint64(c.Unchanged), Gone: uint64(c.Gone), Wrong: uint64(c.Wrong),
	}
}

func (c *claim) parse(m *pb.Claim) {
	*c = claim{intake.Sum{
		Pages: int(m.GetPages()), Answered: int(m.GetAnswered()), Bytes: m.GetBytes(), Frontier: int(m.GetFrontier()), FrontierBytes: m.GetFrontierBytes(),
		New: int(m.GetNew()), Changed: int(m.GetChanged()), NearUnchanged: int(m.GetNearUnchanged()), Unchanged: int(m.GetUnchanged()), Gone: int(m.GetGone()), Wrong: int(m.GetWrong()),
	}, schema.Time(m.GetClaimedUs())}
}
