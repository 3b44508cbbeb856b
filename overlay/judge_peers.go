package overlay

import "time"

// slot is a peer that takes tasks.
type slot struct {
	rec     *PeerRecord // of the view; nil: the slot is free
	life    uint32      // of the slot: it grows with every new peer
	turn    uint32      // of the last view that has the peer
	held    int32
	changed time.Time // when held changed
	stands  standing
	full    bool
	threads int          // that count
	ended   recent       // tasks
	groups  [2]*together // its account's and its prefix's; nil: not known
	spare   bool         // it had room after the last look at all that was due
}

// See takes the newest view in. One that was taken in already costs nothing.
func (j *Judge) See(v *View) {
	if v == j.view {
		return
	}
	j.view = v
	j.turn++
	j.takers = j.takers[:0]
	j.trusted, j.proven = false, 0
	for i := range v.Peers {
		p := &v.Peers[i]
		if p.Load.Threads == 0 {
			continue
		}
		k := j.slotFor(p)
		s := &j.slots[k]
		s.turn, s.rec, s.stands, s.full = j.turn, p, usual, false
		if v.stands != nil {
			s.stands, s.full = v.stands[i]&^full, v.stands[i]&full != 0
		}
		j.trusted = j.trusted || s.stands != avoided && !s.full
		if s.stands == usual {
			j.proven++
		}
		j.takers = append(j.takers, k)
	}
	for k := range j.slots {
		if s := &j.slots[k]; s.rec != nil && s.turn != j.turn {
			j.leave(int32(k))
		}
	}
	j.allot(v)
	j.holds, j.held, j.running, j.idle = 0, 0, 0, 0
	for _, k := range j.takers {
		s := &j.slots[k]
		j.holds, j.held = j.holds+j.holdsOf(s), j.held+int(s.held)
		j.running, j.idle = j.running+j.counted(s), j.idle+j.idleOf(s)
		j.mark(k)
	}
}

// slotFor is the slot of a peer, with its place in the index.
func (j *Judge) slotFor(p *PeerRecord) int32 {
	if k, ok := j.slotOf[p.ID]; ok {
		if j.index.at[k] != p.Coord {
			j.index.put(int(k), &p.Coord)
		}
		return k
	}
	var k int32
	if n := len(j.free); n > 0 {
		k, j.free = j.free[n-1], j.free[:n-1]
	} else {
		k, j.slots = int32(len(j.slots)), append(j.slots, slot{})
	}
	j.slotOf[p.ID] = k
	j.joined++
	j.slots[k] = slot{life: j.slots[k].life + 1, held: int32(j.astray[p.ID])}
	delete(j.astray, p.ID)
	j.index.put(int(k), &p.Coord)
	return k
}

// leave frees the slot of a peer that is in the view no more. Its tasks are kept count of: it may come back.
func (j *Judge) leave(k int32) {
	s := &j.slots[k]
	delete(j.slotOf, s.rec.ID)
	if s.held > 0 {
		j.astray[s.rec.ID] = int(s.held)
	}
	j.index.drop(int(k))
	j.slots[k] = slot{life: s.life}
	j.free = append(j.free, k)
}

// mark tells the index whether a peer has room, and whether tasks from far away may have it: those that nothing near wanted when all had been
// looked at, and only for a free thread. A place in a queue is worth more to the next near task.
func (j *Judge) mark(k int32) {
	s := &j.slots[k]
	room := j.hasRoom(s)
	j.index.mark(int(k), withRoom, room)
	j.index.mark(int(k), withSpare, room && s.spare && s.free())
}

// The marks of the index.
const (
	withRoom = iota
	withSpare
)

func (j *Judge) hasRoom(s *slot) bool {
	switch {
	case s.stands == avoided || s.full:
		return !j.trusted && int(s.held) < Holds(s.rec.Load)
	case s.stands == trial:
		return s.held == 0
	}
	return int(s.held) < Holds(s.rec.Load)
}

// Holds is how many tasks a peer is given at a time: as many as it has threads, and a fifth of its queue.
func Holds(l Load) int { return int(l.Threads) + int(l.Slots)/heldShare }

// Held says that a peer has n tasks of ours now, with those on their way to it.
func (j *Judge) Held(now time.Time, id ID, n int) {
	k, ok := j.slotOf[id]
	if !ok {
		if j.astray[id] = n; n <= 0 {
			delete(j.astray, id)
		}
		return
	}
	s := &j.slots[k]
	more := n - int(s.held)
	j.held += more
	if more < 0 {
		j.ended.add(now, float64(-more))
		s.ended.add(now, float64(-more))
	}
	for _, g := range s.groups {
		if g == nil {
			continue
		}
		if g.held += more; more < 0 {
			g.ended.add(now, float64(-more))
		}
	}
	j.idle, j.holds = j.idle-j.idleOf(s), j.holds-j.holdsOf(s)
	s.held, s.changed = int32(n), now
	j.idle, j.holds = j.idle+j.idleOf(s), j.holds+j.holdsOf(s)
	j.mark(k)
}

// holdsOf is how many tasks of ours a peer may have, by threads that count. One to which none goes now has what it has: else there would seem to be room for a task that has
// none, and all that is due would be looked at for it, over and over, and go in another order than its rank's.
func (j *Judge) holdsOf(s *slot) int {
	n := s.threads + int(s.rec.Load.Slots)/heldShare
	switch {
	case s.stands == avoided || s.full:
		if j.trusted {
			return min(n, int(s.held))
		}
	case s.stands == trial:
		return min(n, max(int(s.held), 1))
	}
	return n
}

// free says whether a peer has a thread without a task of ours.
func (s *slot) free() bool { return s.held < int32(s.rec.Load.Threads) }

// counted is how many threads of a peer there are for our tasks: none of one that is avoided; of one that is full those that have tasks of ours, whatever it says.
func (j *Judge) counted(s *slot) int {
	switch {
	case !j.trusted:
	case s.stands == avoided:
		return 0
	case s.full:
		return min(s.threads, int(s.held))
	}
	return s.threads
}

// idleOf is how many threads of a peer wait for tasks of ours.
func (j *Judge) idleOf(s *slot) int {
	if !j.hasRoom(s) {
		return 0
	}
	return max(s.threads-int(s.held), 0)
}

// Threads is how many tasks the peers run at once to which tasks go, and how many of these threads wait for one. Of what a peer says of itself it counts what
// shares count, so that one member cannot make the swarm look larger than it is.
func (j *Judge) Threads() (all, idle int) { return j.running, j.idle }

// Capacity is how many peers take tasks, how many tasks they may have at a time, by threads that count, and how many of ours they have.
func (j *Judge) Capacity() (peers, holds, held int) { return len(j.takers), j.holds, j.held }

// Looked says that all that is due was looked at. A peer that still has room is wanted by nothing near it.
func (j *Judge) Looked() {
	j.turnRound()
	for _, k := range j.takers {
		j.slots[k].spare = j.hasRoom(&j.slots[k])
		j.mark(k)
	}
}
