// Package standstill measures how long processes stood still by their own choice, such as in a timer or for a lock. A test that promises "within 5
// seconds" would fail on a busy machine if it looked at a clock. So the time that a process computed, waited for a processor, or may have waited for
// a disk does not count. The kernel counts these. Of work that several programs share, such as a manager, its database and peers, the same is measured for the
// machine as a whole. The package is for tests.
package standstill

import "time"

// Watch follows some processes.
type Watch struct {
	began   time.Time
	pids    []int
	stalled time.Duration // what the kernel had counted for the disk when the watch began
	short   time.Duration // and for processors, where the watch is of the machine
	machine bool
	threads map[thread]counted
}

// thread names a thread of a process.
type thread struct {
	pid int
	id  string
}

// counted is how long a thread has computed or waited for a processor: at its first look and at its last.
type counted struct{ first, last time.Duration }

// Of begins to watch processes.
func Of(pids ...int) *Watch {
	w := &Watch{began: time.Now(), pids: pids, stalled: disk(), threads: map[thread]counted{}}
	w.Look()
	for t, c := range w.threads { // a thread that is seen later is new
		w.threads[t] = counted{c.last, c.last}
	}
	return w
}

// OfMachine begins to watch the machine: while any thread on it waits for a processor, it does not stand still.
func OfMachine() *Watch {
	return &Watch{began: time.Now(), stalled: disk(), short: processors(), machine: true}
}

// Look reads the kernel's counters. Call it from time to time, since those of a thread are gone when it ends.
func (w *Watch) Look() {
	for _, pid := range w.pids {
		for id, d := range threads(pid) {
			t := thread{pid, id}
			w.threads[t] = counted{w.threads[t].first, d}
		}
	}
}

// For returns how long the processes have stood still since the watch began: all of that time, less what the machine took.
func (w *Watch) For() time.Duration {
	w.Look()
	d := time.Since(w.began) - (disk() - w.stalled)
	if w.machine {
		d -= processors() - w.short
	}
	for _, c := range w.threads {
		d -= c.last - c.first
	}
	return max(d, 0)
}
