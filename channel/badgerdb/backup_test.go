package badgerdb

import (
	"errors"
	"path/filepath"
	"sync"
	"testing"

	"shoal/channel"
)

// TestCopyTo copies a database during writes. The copy must open, work, and hold what was there when it began.
func TestCopyTo(t *testing.T) {
	ctx := t.Context()
	db, err := Open(ctx, Default(t.TempDir()))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	e, err := db.Take(ctx)
	if err != nil {
		t.Fatal(err)
	}
	add := func(i int) error {
		_, _, err := db.Add(ctx, e, []channel.Channel{host(i)})
		return err
	}
	const before = 200
	for i := range before {
		if err := add(i); err != nil {
			t.Fatal(err)
		}
	}
	var wg sync.WaitGroup
	stop := make(chan struct{})
	wg.Go(func() {
		for i := before; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			if err := add(i); err != nil {
				t.Error(err)
				return
			}
		}
	})
	dir := filepath.Join(t.TempDir(), "copy")
	err = db.CopyTo(ctx, dir)
	close(stop)
	wg.Wait()
	if err != nil {
		t.Fatal(err)
	}
	if err := db.CopyTo(ctx, dir); err == nil {
		t.Error("a copy was written over")
	}
	c, err := Open(ctx, Default(dir))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for i := range before {
		if id, err := c.Lookup(ctx, host(i).Seeds[0]); err != nil || id == 0 {
			t.Fatalf("channel %d is not in the copy: %v", i, err)
		}
	}
	if next, err := c.Take(ctx); err != nil || next <= e {
		t.Errorf("epoch %d after %d, %v", next, e, err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if err := db.CopyTo(ctx, dir+"2"); !errors.Is(err, ErrClosed) {
		t.Errorf("copy of a closed database: %v", err)
	}
}
