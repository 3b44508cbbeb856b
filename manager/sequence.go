package manager

// sequence divides room between channels that were never crawled and those that were, as the ratios of old and new in section 3 of
// Edwards, McCurley, Tomlin, "An Adaptive Model for Optimizing Performance of an Incremental Web Crawler" (WWW 2001). What an operator
// wants crawled now, and what is handed out again, comes before both. Within each the strategy's order holds. Owned by the loop.
type sequence struct {
	share              float64 // of room that new channels get while both wait; 0: the strategy's order alone
	noNew, noOld       bool    // there were too few of them last time: the others get their room
	newLeft, oldLeft   int
	newTaken, oldTaken int
	passed             int // put off in this dispatch
}

const passMost = 4096 // put off in one dispatch; then it is better to use the room than to look on

// begin divides the room of one dispatch.
func (q *sequence) begin(room int) {
	q.newTaken, q.oldTaken, q.passed = 0, 0, 0
	q.newLeft, q.oldLeft = room, room
	if q.share <= 0 || room <= 0 {
		return
	}
	mine := min(max(int(q.share*float64(room)+.5), 1), room)
	if !q.noOld {
		q.newLeft = mine
	}
	if !q.noNew {
		q.oldLeft = max(room-mine, min(room, 1))
	}
}

// may tells whether a channel's part has room left.
func (q *sequence) may(isNew bool) bool {
	if isNew && q.newLeft > 0 || !isNew && q.oldLeft > 0 || q.passed >= passMost {
		return true
	}
	q.passed++
	return false
}

// took counts one.
func (q *sequence) took(isNew bool) {
	if isNew {
		q.newLeft--
		q.newTaken++
		return
	}
	q.oldLeft--
	q.oldTaken++
}

// end notes which part did not use its room.
func (q *sequence) end(room int) {
	if q.share <= 0 || room <= 0 {
		return
	}
	q.noNew, q.noOld = q.newTaken == 0, q.oldTaken == 0
}
