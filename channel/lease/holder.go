package lease

import "time"

// Elapsed is how much time has passed for a peer between two readings of its clock: the larger of what the monotonic and what the
// wall clock say. On a laptop that slept the monotonic clock stood still; on one whose clock was set back the wall clock did.
func Elapsed(from, to time.Time) time.Duration {
	return max(to.Sub(from), to.Round(0).Sub(from.Round(0)))
}

// Holder is the rule by which a peer knows that it may send requests to a channel's host. The zero value may not. Wall and monotonic
// readings must be left in the times handed in.
type Holder struct {
	sent    time.Time
	left    time.Duration // usable from sent on
	stopped bool
}

// Acked takes a reply of the archive to a request that was sent at sent, with Reply.Left. Only two thirds of that are used, counted
// from the sending, so that no delay of the reply and no ordinary drift of the clock can make two peers fetch at once.
func (h *Holder) Acked(sent time.Time, left time.Duration) {
	if left <= 0 || h.stopped {
		return
	}
	n := Holder{sent: sent, left: left / 3 * 2}
	if h.left == 0 || n.Left(sent) > h.Left(sent) {
		*h = n
	}
}

// Stop ends the right to fetch for good, whatever replies are still under way: before the final chunk or a release is sent, and when
// the archive said FENCED. Another claim has a Holder of its own.
func (h *Holder) Stop() { *h = Holder{stopped: true} }

// Left is for how long from now on the peer may begin requests; zero or less: it must not.
func (h *Holder) Left(now time.Time) time.Duration {
	if h.left == 0 {
		return 0
	}
	return h.left - Elapsed(h.sent, now)
}

// Lapses returns for how long from now on no other peer can have the task, so that requests may be under way. If it
// is zero or less, another one may.
func (h *Holder) Lapses(now time.Time) time.Duration {
	if h.left == 0 {
		return 0
	}
	return h.left/2*3 - Elapsed(h.sent, now)
}

// May reports whether the peer may begin a request at now.
func (h *Holder) May(now time.Time) bool { return h.Left(now) > 0 }

// Offset learns from signed replies how far a peer's wall clock is from the archive's, so that a latest start means the same moment on
// both. The zero value trusts the own clock.
type Offset struct {
	by, err time.Duration
	known   bool
}

// Learn takes one reply, made at the archive's time stamp to a request that was sent and answered at these times of the own clock.
// The most exact of all readings is kept; an older one loses a thousandth of the time passed of its exactness.
func (o *Offset) Learn(sent, received, stamp time.Time) {
	rtt := Elapsed(sent, received)
	if rtt < 0 {
		return
	}
	err := rtt / 2
	if o.known && err > o.err+o.err/8 {
		o.err += o.err/8 + time.Microsecond // age: a clock that was set is found out
		return
	}
	o.by, o.err, o.known = stamp.Round(0).Sub(sent.Round(0).Add(err)), err, true
}

// Time is what the archive's clock shows at now.
func (o *Offset) Time(now time.Time) time.Time { return now.Round(0).Add(o.by) }
