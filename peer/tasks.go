package peer

import (
	"cmp"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/cespare/xxhash/v2"

	"shoal/channel"
	"shoal/overlay"
	"shoal/peer/queue"
)

// task is what the queue carries.
type task struct {
	Signed  channel.Signed
	Header  channel.Header
	Claimed bool // resumed after a restart: the archive knows it as ours
}

// tasks is the agent's queue: it is asked by the overlay's loop and driven by the agent's, and keeps a file for every task so that one
// that was killed goes on.
type tasks struct {
	dir    string
	refuse func(host string) error
	log    *slog.Logger
	wake   chan struct{} // something has changed

	mu    sync.Mutex
	q     *queue.Queue[task]
	asked queue.Mode // what the user wants, or who leaves, or rests
	until time.Time  // end of the user's pause
	rests bool       // the queue finishes for an update, which is no order of the user's
	order order      // the user's last
	holds [2]string  // why the queue is paused whatever the user wants: as its owner says, as the disk does; empty: it is not

	kept     []queue.Item[task] // of an earlier run, that wait for room in the queue
	late     []queue.Item[task] // of those, to be dropped with the next tick
	cfg      queue.Config
	accepted int
	refused  int
}

// order is what the user wants of an agent.
type order struct {
	mode  queue.Mode
	until time.Time // end of a pause; zero: it has none
}

func newTasks(cfg queue.Config, dir string, refuse func(string) error, log *slog.Logger) *tasks {
	return &tasks{dir: dir, refuse: refuse, log: log, wake: make(chan struct{}, 1), q: queue.New[task](cfg), cfg: cfg}
}

func keyOf(h channel.Header) uint64 {
	var b [16]byte
	for i := range 8 {
		b[i], b[8+i] = byte(h.Channel>>(8*i)), byte(h.Gen>>(8*i))
	}
	return xxhash.Sum64(b[:])
}

func itemOf(s channel.Signed, h channel.Header) queue.Item[task] {
	return queue.Item[task]{Key: keyOf(h), Pages: pagesOf(h), Gap: h.Gap, Latest: h.Latest, Value: task{Signed: s, Header: h}}
}

// pagesOf is how many pages a task will cost.
func pagesOf(h channel.Header) int {
	n := max(h.Pages, 1)
	if h.Budget > 0 {
		n = min(n, h.Budget)
	}
	return n
}

// Quote implements overlay.Queue.
func (t *tasks) Quote(now time.Time, h channel.Header) (time.Time, bool) {
	if t.refuse != nil && t.refuse(h.Host) != nil {
		return now.Add(24 * time.Hour), false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	start, ok := t.q.Quote(now, h.Latest)
	if !ok {
		t.refused++
	}
	return start, ok
}

// Take implements overlay.Queue.
func (t *tasks) Take(now time.Time, s channel.Signed, h channel.Header) error {
	if t.refuse != nil {
		if err := t.refuse(h.Host); err != nil {
			return err
		}
	}
	t.mu.Lock()
	err := t.q.Take(now, itemOf(s, h))
	if err == nil {
		t.accepted++
	} else {
		t.refused++
	}
	t.mu.Unlock()
	if err != nil {
		return err
	}
	if err := os.WriteFile(t.file(keyOf(h), false), s.Marshal(), 0o600); err != nil {
		t.log.Warn("task not kept over a restart", "err", err)
	}
	t.poke()
	return nil
}

// Load implements overlay.Queue.
func (t *tasks) Load(now time.Time) overlay.Load {
	t.mu.Lock()
	defer t.mu.Unlock()
	if m, _ := t.q.Mode(); m != queue.Open {
		return overlay.Load{}
	}
	return overlay.Load{
		Threads: uint8(t.cfg.Threads), Slots: uint8(min(t.cfg.Queue, 255)), Running: uint8(min(t.q.Running(), 255)), Queued: uint8(min(t.q.Waiting(), 255)),
		Backlog: min(t.q.Backlog(now), overlay.MaxBacklog),
	}
}

func (t *tasks) poke() {
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

// tick says what is due. The files of tasks that are dropped stay.
func (t *tasks) tick(now time.Time) ([]queue.Action[task], time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.admit(now)
	acts := t.q.Tick(now, nil)
	for _, it := range t.late {
		acts = append(acts, queue.Action[task]{Kind: queue.Drop, Item: it})
	}
	t.late = nil
	if len(acts) > 0 && len(t.kept) > 0 {
		t.poke() // there may be room now
	}
	return acts, t.q.Deadline()
}

// admit gives what an earlier run left the room that the queue has.
func (t *tasks) admit(now time.Time) {
	for len(t.kept) > 0 {
		it := t.kept[0]
		if !it.Latest.IsZero() && now.After(it.Latest) {
			t.late = append(t.late, it)
		} else if errors.Is(t.q.Force(it), queue.ErrFull) {
			return
		}
		t.kept = t.kept[1:]
	}
}

func (t *tasks) empty() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.q.Running()+t.q.Waiting()+len(t.kept)+len(t.late) == 0
}

// onDisk counts the tasks that a start would find.
func (t *tasks) onDisk() int {
	files, err := os.ReadDir(t.dir)
	if err != nil {
		t.log.Warn("tasks on disk cannot be counted", "err", err)
	}
	return len(files)
}

// headers are those of all tasks here.
func (t *tasks) headers() (out []channel.Header) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.q.Each(func(it queue.Item[task], _ time.Time) { out = append(out, it.Value.Header) })
	for _, it := range t.kept {
		out = append(out, it.Value.Header)
	}
	return out
}

func (t *tasks) setMode(m queue.Mode, until time.Time) {
	t.mu.Lock()
	t.asked, t.until, t.rests = m, until, false
	t.apply()
	t.mu.Unlock()
	t.poke()
}

// obey carries out an order of the user's.
func (t *tasks) obey(o order) {
	t.mu.Lock()
	t.order = o
	t.mu.Unlock()
	t.setMode(o.mode, o.until)
}

// rest has a queue that is open finish what runs, until rouse or an order of the user's.
func (t *tasks) rest() bool {
	t.mu.Lock()
	m, _ := t.mode(time.Now())
	rests := m == queue.Open && t.hold() == ""
	if rests {
		t.asked, t.until, t.rests = queue.Finish, time.Time{}, true
		t.apply()
	}
	t.mu.Unlock()
	t.poke()
	return rests
}

// rouse opens a queue that rests.
func (t *tasks) rouse() {
	t.mu.Lock()
	if t.rests {
		t.asked, t.rests = queue.Open, false
		t.apply()
	}
	t.mu.Unlock()
	t.poke()
}

func (t *tasks) setHold(why string)   { t.setHolds(0, why) }
func (t *tasks) setBroken(why string) { t.setHolds(1, why) }

func (t *tasks) setHolds(which int, why string) {
	t.mu.Lock()
	before := t.hold()
	t.holds[which] = why
	changed := (before == "") != (t.hold() == "")
	if changed {
		if m, _ := t.q.Mode(); t.asked == queue.Paused && m == queue.Open { // the user's timed pause is over
			t.asked = queue.Open
		}
		t.apply()
	}
	t.mu.Unlock()
	if changed {
		t.poke()
	}
}

// hold is why the queue is paused whatever the user wants.
func (t *tasks) hold() string { return cmp.Or(t.holds[0], t.holds[1]) }

// apply sets the queue's mode: a hold pauses it, unless its user wants to be rid of its tasks.
func (t *tasks) apply() {
	if t.hold() != "" && (t.asked == queue.Open || t.asked == queue.Paused) {
		t.q.SetMode(queue.Paused, time.Time{})
		return
	}
	t.q.SetMode(t.asked, t.until)
}

// mode is what the user wants, and until when, whatever holds the queue. Called with mu held.
func (t *tasks) mode(now time.Time) (queue.Mode, time.Time) {
	m, until := t.q.Mode()
	if t.hold() == "" || m != queue.Paused {
		return m, until
	}
	if t.asked == queue.Paused && !t.until.IsZero() && !t.until.After(now) { // a timed pause is over
		return queue.Open, time.Time{}
	}
	return t.asked, t.until
}

// paused reports whether crawls that run are to wait.
func (t *tasks) paused() (bool, time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	m, until := t.q.Mode()
	return m == queue.Paused || t.hold() != "" && m != queue.Drain, until
}

func (t *tasks) setLimits(threads, waiting int) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := t.q.SetLimits(threads, waiting); err != nil {
		return err
	}
	t.cfg.Threads, t.cfg.Queue = threads, waiting
	t.poke()
	return nil
}

// threads returns how many tasks may run at the same time.
func (t *tasks) threads() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return max(t.cfg.Threads, 1)
}

// takeRefused removes the waiting tasks whose hosts this computer does not fetch any more, and returns them with the keys of the running ones.
func (t *tasks) takeRefused() (waiting []task, running []uint64) {
	if t.refuse == nil {
		return nil, nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	var gone []uint64
	t.q.Each(func(it queue.Item[task], started time.Time) {
		switch {
		case t.refuse(it.Value.Header.Host) == nil:
		case started.IsZero() && !it.Value.Claimed:
			gone = append(gone, it.Key)
		case !started.IsZero():
			running = append(running, it.Key)
		}
	})
	for _, key := range gone {
		if it, ok := t.q.Remove(key); ok {
			waiting = append(waiting, it.Value)
		}
	}
	t.kept = slices.DeleteFunc(t.kept, func(it queue.Item[task]) bool {
		if it.Value.Claimed || t.refuse(it.Value.Header.Host) == nil {
			return false
		}
		waiting = append(waiting, it.Value)
		return true
	})
	return waiting, running
}

func (t *tasks) progress(now time.Time, key uint64, left int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.q.Progress(now, key, left)
}

// done frees a task's thread, and returns what a page costs by what is known now. The task's file goes with forget.
func (t *tasks) done(now time.Time, key uint64, pages int) (page time.Duration) {
	t.mu.Lock()
	t.q.Done(now, key, pages)
	page = t.q.Service()
	t.mu.Unlock()
	t.poke()
	return page
}

// given forgets a task that another peer or the manager has now, unless it has come back meanwhile.
func (t *tasks) given(key uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.q.Has(key) {
		t.forget(key)
	}
}

const claimedSuffix = ".claimed"

func (t *tasks) file(key uint64, claimed bool) string {
	name := fmt.Sprintf("%016x", key)
	if claimed {
		name += claimedSuffix
	}
	return filepath.Join(t.dir, name)
}

// claimed notes that a task has been claimed: it may go on after a restart though its latest start has passed.
func (t *tasks) claimed(key uint64) {
	if err := os.Rename(t.file(key, false), t.file(key, true)); err != nil && !errors.Is(err, os.ErrNotExist) {
		t.log.Warn("claim not kept over a restart", "err", err)
	}
}

func (t *tasks) forget(key uint64) {
	for _, claimed := range []bool{false, true} {
		if err := os.Remove(t.file(key, claimed)); err != nil && !errors.Is(err, os.ErrNotExist) {
			t.log.Warn("file of a task that is over remains", "err", err)
		}
	}
}

// readTask reads a task's file.
func readTask(path string) (it queue.Item[task], err error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return it, err
	}
	if most := channel.MaxHeader + channel.MaxDelegation + 4096; len(b) > most {
		return it, fmt.Errorf("%d bytes, at most %d", len(b), most)
	}
	s, err := channel.ParseSigned(b)
	if err != nil {
		return it, err
	}
	h, err := channel.ParseHeader(s.Raw)
	if err != nil {
		return it, err
	}
	return itemOf(s, h), nil
}

// reload takes up what an earlier run left, as the queue has room: claimed tasks go on, others if there is still time for them, else they
// are dropped with the next tick. The archive has the last word.
func (t *tasks) reload(now time.Time) {
	files, err := os.ReadDir(t.dir)
	if err != nil {
		t.log.Warn("tasks of an earlier run cannot be read", "err", err)
		return
	}
	for _, f := range files {
		path := filepath.Join(t.dir, f.Name())
		base, claimed := strings.CutSuffix(f.Name(), claimedSuffix)
		if _, err := hex.DecodeString(base); err != nil {
			continue
		}
		it, err := readTask(path)
		if err != nil {
			t.log.Warn("a task of an earlier run is damaged and dropped; the manager hands its channel out again", "file", path, "err", err)
			os.Remove(path)
			continue
		}
		if it.Value.Claimed = claimed; claimed {
			it.Latest = time.Time{}
		}
		t.mu.Lock()
		t.kept = append(t.kept, it)
		t.mu.Unlock()
	}
	t.mu.Lock()
	t.admit(now)
	t.mu.Unlock()
	t.poke()
}
