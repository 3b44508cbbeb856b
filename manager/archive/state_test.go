package archive

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"shoal/channel"
)

// TestCloseInUse closes an archive that pages are still being sent to and read from, as when a manager stops while peers crawl: who is there
// is waited for, who comes later is told.
func TestCloseInUse(t *testing.T) {
	a := open(t, testConfig(t.TempDir()))
	var wg sync.WaitGroup
	var begun sync.WaitGroup
	use := func(f func(n int) error) {
		begun.Add(1)
		wg.Go(func() {
			for n := 0; ; n++ {
				err := f(n)
				if n == 0 {
					begun.Done()
				}
				if errors.Is(err, ErrClosed) {
					return
				}
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for id := channel.ID(1); id <= 4; id++ {
		r, _ := start(t, a, fmt.Sprint("peer ", id), id, 1)
		use(func(n int) error {
			var b channel.ChunkBody
			for i := range 40 {
				b.Pages = append(b.Pages, r.page(fmt.Sprintf("/%d", i), fmt.Sprintf("version %d", n), channel.Changed))
			}
			got, err := a.Put(context.Background(), r.peer, r.chunk(b))
			if err == nil {
				r.seq, r.head = got.Seq, got.Head
			}
			return err
		})
	}
	use(func(int) error { _, _, err := a.Feed(context.Background(), "", MaxFeed); return err })
	use(func(int) error { _, err := a.Rank(context.Background()); return err })
	use(func(int) error { return a.Scrub(t.Context()) })
	begun.Wait()
	time.Sleep(20 * time.Millisecond) // so that all are somewhere in the middle
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	wg.Wait()
}
