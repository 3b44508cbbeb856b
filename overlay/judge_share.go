package overlay

import (
	"math"
	"time"
)

// However near a peer says that it is, and however many threads it says that it has, it gets no more than a share of the tasks. So do all peers of one
// account, and of one network prefix. The share is at most shareFactor times what is fair by threads, and at least shareLeast tasks. It is taken of
// the tasks that are out, of those that wait to go out, and of those that ended of late, as far as the peers can run them. So of many tasks that are
// due at once the first and the last ones go to the peers near them as the others do. Threads beyond threadsMost times the median count for
// nothing; of a peer that has delivered nothing yet those beyond the median do, and what ended of late counts as if the peer still had it. Else one
// that ends each task at once, and brings nothing, would be free for the next.
const (
	shareFactor = 2
	shareLeast  = 2
	threadsMost = 4
	lately      = time.Minute // in which what ended comes to count a third
	queuedMost  = 2           // tasks for each thread that count as what a peer can run, those that wait for it included
)

// together is the peers of an account or of a prefix that take tasks.
type together struct {
	held, threads int
	ended         recent
	proven        bool // one of them has delivered
}

// recent counts tasks that ended, each for less as time passes.
type recent struct {
	n  float64
	at time.Time
}

func (r *recent) add(now time.Time, n float64) { r.n, r.at = r.count(now)+n, now }

func (r *recent) count(now time.Time) float64 {
	if r.n == 0 {
		return 0
	}
	return r.n * math.Exp(-max(now.Sub(r.at), 0).Seconds()/lately.Seconds())
}

// allot counts what each peer's share is taken of, after a new view came in.
func (j *Judge) allot(v *View) {
	median := j.medianThreads()
	clear(j.groups)
	j.threads, j.able = 0, 0
	for i := range v.Peers {
		k, ok := j.slotOf[v.Peers[i].ID]
		if !ok {
			continue
		}
		s := &j.slots[k]
		most := threadsMost * median
		if s.stands != usual {
			most = median
		}
		s.threads = min(int(s.rec.Load.Threads), most)
		n := j.counted(s)
		j.threads += n
		j.able += min(Holds(s.rec.Load), queuedMost*n)
		s.groups = [2]*together{}
		if a := s.rec.Account; a != "" {
			s.groups[0] = j.join("account "+a, s)
		}
		if v.prefixes != nil && v.prefixes[i] != "" {
			s.groups[1] = j.join("prefix "+v.prefixes[i], s)
		}
	}
}

func (j *Judge) join(name string, s *slot) *together {
	g := j.groups[name]
	if g == nil {
		g = &together{}
		j.groups[name] = g
	}
	g.held += int(s.held)
	g.threads += s.threads
	g.ended.add(j.now, s.ended.count(j.now))
	g.proven = g.proven || s.stands == usual
	return g
}

func (j *Judge) medianThreads() int {
	var count [256]int
	for _, k := range j.takers {
		count[j.slots[k].rec.Load.Threads]++
	}
	seen := 0
	for threads, n := range count {
		if seen += n; 2*seen >= len(j.takers) && seen > 0 {
			return threads
		}
	}
	return 1
}

// weigh prepares the shares for a task that goes now.
func (j *Judge) weigh(now time.Time, a *Ask) {
	j.now, j.late, j.may = now, int(j.ended.count(now)), a.May
	j.exclude(a.Not)
}

// exclude has a peer, and all of its account and prefix, passed over until the next call, unless there is no other.
func (j *Judge) exclude(id ID) {
	j.not = absent
	k, ok := j.slotOf[id]
	if !ok {
		return
	}
	for _, t := range j.takers {
		if j.slots[t].stands != avoided && !j.allied(k, t) {
			j.not = k
			return
		}
	}
}

// allied reports whether two peers are of one account or prefix.
func (j *Judge) allied(k, t int32) bool {
	a, b := &j.slots[k].groups, &j.slots[t].groups
	return k == t || a[0] != nil && a[0] == b[0] || a[1] != nil && a[1] == b[1]
}

// passes reports whether a peer is passed over, though it has room.
func (j *Judge) passes(k int32) bool {
	return j.not != absent && j.allied(j.not, k) || j.over(k)
}

// bars reports whether a peer must not have the task.
func (j *Judge) bars(k int32) bool { return j.may != nil && !j.may(j.slots[k].rec.ID) }

// over reports whether one more task would be more than a peer's share, or that of its account or prefix.
func (j *Judge) over(k int32) bool {
	s := &j.slots[k]
	if j.beyond(int(s.held), s.threads, &s.ended, s.stands == usual) {
		return true
	}
	for _, g := range s.groups {
		if g != nil && j.beyond(g.held, g.threads, &g.ended, g.proven) {
			return true
		}
	}
	return false
}

// beyond reports whether some with so many threads have all the tasks that they may have.
func (j *Judge) beyond(held, threads int, ended *recent, proven bool) bool {
	all := j.held + int(j.wants[0]+j.wants[1]) + j.late
	if j.unfair(held, min(all, j.able), threads) { // more than all are able to run cannot be out
		return true
	}
	return !proven && j.unfair(held+int(ended.count(j.now)), all, threads)
}

// unfair reports whether one more than some tasks of all would be more than the share of so many threads.
func (j *Judge) unfair(held, all, threads int) bool {
	return held >= shareLeast && (held+1)*j.threads > shareFactor*max(all, j.held+1)*threads
}

// want notes whether the task of a host, whose peer was just asked for, waits.
func (j *Judge) want(h *located, waits bool) {
	switch j.round - h.wanted {
	case 0:
		j.wants[0]--
	case 1:
		j.wants[1]--
	}
	if h.wanted = j.round - 2; waits { // else as if it had not waited for long
		h.wanted = j.round
		j.wants[0]++
	}
}

// turnRound begins a new round of looking at what is due. What was not asked for in the last one waits no more.
func (j *Judge) turnRound() {
	j.round++
	j.wants[0], j.wants[1] = 0, j.wants[0]
}

// toldLeast is how many tasks a peer, account or prefix must have so that people are told that it has its share: at light load a few are everyone's.
const toldLeast = 8

// AtShare are the peers that have all the tasks that one member may have, and many: by themselves, or with their account or prefix; each with its account.
func (j *Judge) AtShare() map[string]string {
	out := map[string]string{}
	for _, k := range j.takers {
		s := &j.slots[k]
		many := int(s.held) >= toldLeast
		for _, g := range s.groups {
			many = many || g != nil && g.held >= toldLeast && s.held > 0
		}
		if many && j.over(k) {
			out[string(s.rec.ID)] = s.rec.Account
		}
	}
	return out
}
