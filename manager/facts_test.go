package manager_test

import (
	"testing"
	"time"

	"shoal/channel"
	"shoal/channel/badgerdb"
	"shoal/manager"
	"shoal/recrawl"
)

func TestReadFacts(t *testing.T) {
	b := open(t, t.TempDir(), nil)
	b.add(t, "https://a.example", "https://b.example")
	until(t, "updates", func() bool { return b.m.Overview().Updates >= 2 })
	b.stop()
	seen := 0
	db, err := badgerdb.Open(t.Context(), badgerdb.Default(b.dir+"/db"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	err = manager.ReadFacts(t.Context(), db, time.Minute, time.Now(), func(tick recrawl.Tick, ch channel.Channel, f recrawl.Facts) error {
		seen++
		if tick < 1 || ch.Scope.Host == "" || !(f.Est.Rate() > 0) {
			t.Errorf("tick %d, %+v, %+v", tick, ch.Scope, f)
		}
		return nil
	})
	if err != nil || seen != 2 {
		t.Errorf("%d channels, %v", seen, err)
	}
}
