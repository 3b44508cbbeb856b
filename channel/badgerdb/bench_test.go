package badgerdb

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"time"

	"shoal/channel"
)

// benchChannels returns the size of the large benchmarks: SHOAL_BENCH_CHANNELS, else 20,000. The targets apply to
// 1,000,000.
func benchChannels(b *testing.B) int {
	n, err := strconv.Atoi(os.Getenv("SHOAL_BENCH_CHANNELS"))
	if err != nil || n < 1 {
		return 20_000
	}
	return n
}

func benchLines(n int) func(yield func(channel.Line) bool) {
	return func(yield func(channel.Line) bool) {
		now := time.Now()
		for i := range n {
			c := host((i * 7919) % n) // not in the order of names
			c.Added = now
			if !yield(channel.Line{N: i + 1, Channel: c}) {
				return
			}
		}
	}
}

// filled returns a database of n channels that were all handed out and updated once.
func filled(b *testing.B, n int) (*DB, Epoch, string) {
	dir := b.TempDir()
	db := open(b, dir)
	e, err := db.Take(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	got, err := db.Import(b.Context(), e, benchLines(n))
	if err != nil || got.Added != n {
		b.Fatalf("%+v, %v", got, err)
	}
	const step = 1000
	for i := 0; i < n; i += step {
		a := channel.Advance{Feed: "f", From: cursor(i), To: cursor(i + step), At: time.Now()}
		for id := i + 1; id <= min(i+step, n); id++ {
			a.Edits = append(a.Edits, channel.Edit{
				ID: channel.ID(id), Gen: 1, Lease: make([]byte, 44), Facts: make([]byte, 44), Learnt: &channel.Learnt{Visits: 1, Updated: time.Now()},
			})
		}
		if err := db.Apply(b.Context(), e, a); err != nil {
			b.Fatal(err)
		}
	}
	return db, e, dir
}

func BenchmarkImport(b *testing.B) {
	n := benchChannels(b)
	b.ReportAllocs()
	for b.Loop() {
		b.StopTimer()
		db := open(b, b.TempDir())
		e, err := db.Take(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
		got, err := db.Import(b.Context(), e, benchLines(n))
		if err != nil || got.Added != n {
			b.Fatalf("%+v, %v", got, err)
		}
	}
	b.ReportMetric(float64(n)*float64(b.N)/b.Elapsed().Seconds(), "channels/s")
}

func BenchmarkStart(b *testing.B) {
	n := benchChannels(b)
	db, _, dir := filled(b, n)
	if err := db.Close(); err != nil {
		b.Fatal(err)
	}
	type kept struct {
		id   channel.ID
		host channel.HostKey
		blob []byte
	}
	var heap uint64
	b.ReportAllocs()
	for b.Loop() {
		var before, after runtime.MemStats
		b.StopTimer()
		runtime.GC()
		runtime.ReadMemStats(&before)
		b.StartTimer()
		db := open(b, dir)
		all := make([]kept, 0, n)
		if err := db.Scan(b.Context(), 0, 0, func(h channel.Hot) error {
			all = append(all, kept{h.ID, h.Host, append([]byte(nil), h.Facts...)})
			return nil
		}); err != nil || len(all) != n {
			b.Fatal(len(all), err)
		}
		b.StopTimer()
		runtime.GC()
		runtime.ReadMemStats(&after)
		heap = after.HeapAlloc - before.HeapAlloc
		runtime.KeepAlive(all)
		if err := db.Close(); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
	b.ReportMetric(float64(n)*float64(b.N)/b.Elapsed().Seconds(), "channels/s")
	b.ReportMetric(float64(heap)/float64(n), "heap-B/channel")
}

// BenchmarkIssue makes handings-out durable: one at a time, from many callers, and in batches.
func BenchmarkIssue(b *testing.B) {
	db, e, _ := filled(b, benchChannels(b))
	n := benchChannels(b)
	gen := channel.Gen(1)
	issue := func(b *testing.B, first, count int, g channel.Gen) {
		batch := make([]channel.Issue, count)
		for i := range batch {
			batch[i] = channel.Issue{ID: channel.ID((first+i)%n + 1), Gen: g, Lease: make([]byte, 44), At: time.Now()}
		}
		if refused, err := db.Issue(b.Context(), e, batch); err != nil || len(refused) > 0 {
			b.Error(refused, err)
		}
	}
	rate := func(b *testing.B, each int) {
		b.ReportMetric(float64(b.N*each)/b.Elapsed().Seconds(), "issues/s")
	}
	b.Run("one caller", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			gen++
			issue(b, 0, 1, gen)
		}
		rate(b, 1)
	})
	for _, callers := range []int{32, 256} {
		b.Run(fmt.Sprintf("%d callers", callers), func(b *testing.B) {
			b.ReportAllocs()
			var wg sync.WaitGroup
			gen++
			from := gen
			for c := range callers {
				wg.Go(func() {
					for i := c; i < b.N; i += callers {
						issue(b, c, 1, from+channel.Gen(i/callers)+1)
					}
				})
			}
			wg.Wait()
			gen += channel.Gen(b.N)
			rate(b, 1)
		})
	}
	b.Run("batches of 256", func(b *testing.B) {
		b.ReportAllocs()
		i := 0
		for b.Loop() {
			gen++
			issue(b, i, 256, gen)
			i += 256
		}
		rate(b, 256)
	})
}

func BenchmarkApply(b *testing.B) {
	n := benchChannels(b)
	db, e, _ := filled(b, n)
	at, err := db.Cursor(b.Context(), "f")
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		i++
		a := channel.Advance{Feed: "f", From: at, To: fmt.Sprint("x", i), At: time.Now(), Counters: map[string]int64{"pages": 1}}
		at = a.To
		for j := range 256 {
			id := channel.ID((i*256+j)%n + 1)
			a.Edits = append(a.Edits, channel.Edit{ID: id, Gen: 2, Lease: make([]byte, 44), Facts: make([]byte, 44), Learnt: &channel.Learnt{Visits: i}})
		}
		if err := db.Apply(b.Context(), e, a); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N*256)/b.Elapsed().Seconds(), "reports/s")
}

// BenchmarkHolders asks which channels hold as many URLs as a manager asks for at once while its loop waits, each three directories deep.
func BenchmarkHolders(b *testing.B) {
	n := benchChannels(b)
	db, _, _ := filled(b, n)
	urls := make([]string, 32_768)
	for i := range urls {
		c := host((i * 31) % n)
		urls[i] = fmt.Sprintf("%s/a%d/b%d/c%d/page.html", c.Scope.Host, i%7, i%11, i)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := db.Holders(b.Context(), urls); err != nil {
			b.Fatal(err)
		}
	}
}
