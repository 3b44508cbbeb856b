package queue

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestProperties drives a queue at random and compares it with a ledger of every task's state.
func TestProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cfg := Config{
			Threads: rapid.IntRange(0, 6).Draw(t, "threads"), Queue: rapid.IntRange(0, 6).Draw(t, "queue"),
			Service: time.Duration(rapid.IntRange(0, 2000).Draw(t, "service")) * time.Millisecond,
			MaxRun:  time.Duration(rapid.IntRange(0, 5).Draw(t, "maxrun")) * time.Minute,
		}
		q := New[int](cfg)
		now := epoch
		taken, left := map[uint64]int{}, map[uint64]int{}
		running := map[uint64]bool{}
		var order []uint64
		leave := func(k uint64) {
			if left[k]++; left[k] > taken[k] {
				t.Fatalf("task %d left %d times, taken %d times", k, left[k], taken[k])
			}
		}
		forget := func(k uint64) {
			for i := range order {
				if order[i] == k {
					order = append(order[:i], order[i+1:]...)
					return
				}
			}
			t.Fatalf("task %d was not waiting", k)
		}
		tick := func() {
			before := q.Running()
			for _, a := range q.Tick(now, nil) {
				k := a.Item.Key
				switch a.Kind {
				case Start:
					if order[0] != k {
						t.Fatalf("started %d before %d", k, order[0])
					}
					if !a.Item.Latest.IsZero() && now.After(a.Item.Latest) {
						t.Fatalf("task %d started %v after its latest start", k, now.Sub(a.Item.Latest))
					}
					if running[k] {
						t.Fatalf("task %d runs twice", k)
					}
					running[k] = true
					forget(k)
				case Drop:
					if !now.After(a.Item.Latest) {
						t.Fatalf("task %d dropped before its time", k)
					}
					leave(k)
					forget(k)
				case HandOver:
					leave(k)
					forget(k)
				case Stop:
					if !running[k] {
						t.Fatalf("stop of %d, which does not run", k)
					}
				}
			}
			if q.Running() > max(q.cfg.Threads, before) {
				t.Fatalf("%d run with %d threads", q.Running(), q.cfg.Threads)
			}
			if d := q.Deadline(); !d.IsZero() && !d.After(now) {
				t.Fatalf("deadline %v is not after now %v: a runner would spin", d, now)
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"take": func(t *rapid.T) {
				it := Item[int]{
					Key: uint64(rapid.IntRange(1, 40).Draw(t, "key")), Pages: rapid.IntRange(0, 300).Draw(t, "pages"),
					Gap: time.Duration(rapid.IntRange(0, 3).Draw(t, "gap")) * time.Second,
				}
				if m := rapid.IntRange(-1, 40).Draw(t, "latest"); m >= 0 {
					it.Latest = now.Add(time.Duration(m) * 10 * time.Second)
				}
				had := q.Has(it.Key)
				start, ok := q.Quote(now, it.Latest)
				err := q.Take(now, it)
				if (err == nil) != (ok && !had) {
					t.Fatalf("quote said %v, take said %v", ok, err)
				}
				if err != nil {
					return
				}
				if !it.Latest.IsZero() && start.After(it.Latest) {
					t.Fatalf("took a task with start %v, latest %v", start, it.Latest)
				}
				taken[it.Key]++
				order = append(order, it.Key)
				tick()
				if q.Waiting() > q.cfg.Queue {
					t.Fatalf("%d wait with room for %d", q.Waiting(), q.cfg.Queue)
				}
			},
			"done": func(t *rapid.T) {
				k := uint64(rapid.IntRange(1, 40).Draw(t, "key"))
				_, ok := q.Done(now, k, rapid.IntRange(0, 300).Draw(t, "pages"))
				if ok != running[k] {
					t.Fatalf("done of %d said %v, running %v", k, ok, running[k])
				}
				if ok {
					delete(running, k)
					leave(k)
				}
				tick()
			},
			"progress": func(t *rapid.T) {
				q.Progress(now, uint64(rapid.IntRange(1, 40).Draw(t, "key")), rapid.IntRange(-1, 300).Draw(t, "left"))
			},
			"pass": func(t *rapid.T) {
				now = now.Add(time.Duration(rapid.IntRange(0, 120).Draw(t, "s")) * time.Second)
				tick()
			},
			"mode": func(t *rapid.T) {
				m := Mode(rapid.IntRange(0, 3).Draw(t, "mode"))
				q.SetMode(m, now.Add(time.Duration(rapid.IntRange(1, 60).Draw(t, "s"))*time.Second))
				tick()
			},
			"limits": func(t *rapid.T) {
				if err := q.SetLimits(rapid.IntRange(0, 6).Draw(t, "threads"), cfg.Queue); err != nil {
					t.Fatal(err)
				}
			},
			"handover": func(t *rapid.T) {
				for _, it := range q.Handover(nil) {
					leave(it.Key)
					forget(it.Key)
				}
			},
			"": func(t *rapid.T) {
				anew := *q
				anew.free = nil
				anew.sure = unsure
				if got, want := q.Backlog(now), anew.Backlog(now); got != want {
					t.Fatalf("backlog %v, summed up anew %v", got, want)
				}
				if key, ok := q.Next(); ok != (len(order) > 0) || ok && key != order[0] {
					t.Fatalf("next is %d, %v; waiting in this order: %v", key, ok, order)
				}
				inside := 0
				for k, n := range taken {
					inside += n - left[k]
				}
				if inside != q.Running()+q.Waiting() || len(order) != q.Waiting() {
					t.Fatalf("taken and not left: %d; running %d, waiting %d", inside, q.Running(), q.Waiting())
				}
			},
		})
	})
}

func filled() *Queue[int32] {
	q := New[int32](Default())
	for k := range uint64(10) {
		if q.Take(epoch, Item[int32]{Key: k, Pages: 8000, Gap: time.Second}) != nil {
			panic("queue refused")
		}
		q.Tick(epoch, nil)
	}
	return q
}

func TestQuoteAllocatesNothing(t *testing.T) {
	q := filled()
	if n := testing.AllocsPerRun(100, func() { q.Quote(epoch.Add(time.Minute), epoch.Add(time.Hour)) }); n != 0 {
		t.Errorf("Quote allocates %v times", n)
	}
}

func BenchmarkQuote(b *testing.B) {
	q := filled()
	b.ReportAllocs()
	for b.Loop() {
		q.Quote(epoch.Add(time.Minute), epoch.Add(time.Hour))
	}
}

// BenchmarkLife runs the simulator's calls for one task: quote, take, start, deadline, done.
func BenchmarkLife(b *testing.B) {
	q := New[int32](Default())
	now := epoch
	var acts []Action[int32]
	b.ReportAllocs()
	for i := range uint64(b.N) {
		now = now.Add(time.Minute)
		latest := now.Add(time.Hour)
		if _, ok := q.Quote(now, latest); ok {
			if err := q.Take(now, Item[int32]{Key: i, Pages: 100, Gap: 200 * time.Millisecond, Latest: latest}); err != nil {
				b.Fatal(err)
			}
		}
		acts = q.Tick(now, acts[:0])
		if i >= 4 {
			q.Done(now, i-4, 100)
		}
		q.Deadline()
	}
}

// TestSleepCountsLittle has a task take a night, because its computer slept: the queue does not take every page for one of minutes afterwards.
func TestSleepCountsLittle(t *testing.T) {
	q, now := New[int](Default()), time.Unix(1_000_000, 0)
	if err := q.Take(now, Item[int]{Key: 1, Pages: 60}); err != nil {
		t.Fatal(err)
	}
	q.Tick(now, nil)
	q.Done(now.Add(8*time.Hour), 1, 60)
	if s := q.Service(); s > MostPage || s < time.Second {
		t.Errorf("a page costs %v, want %v at most", s, MostPage)
	}
}
