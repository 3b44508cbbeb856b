package postgres

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"shoal/channel"
	"shoal/internal/lab/pglab"
)

// TestImportBetween imports while others take ids in between: each line's channel has an id of its own, in the order of the lines, in all tables alike.
func TestImportBetween(t *testing.T) {
	db := open(t, pglab.Shared(t), "db")
	e, err := db.Take(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.pool.Exec(t.Context(), `ALTER SEQUENCE channel_ids INCREMENT BY 3`); err != nil { // as if two others took one each time
		t.Fatal(err)
	}
	const lines = 20
	got, err := db.Import(t.Context(), e, func(yield func(channel.Line) bool) {
		for i := range lines {
			ch := host(i)
			ch.Reason = fmt.Sprint("reason ", i)
			if !yield(channel.Line{N: i + 1, Channel: ch}) {
				return
			}
		}
	})
	if err != nil || got.Added != lines || got.Last-got.First != 3*(lines-1) {
		t.Fatalf("%+v, %v", got, err)
	}
	for i := range lines {
		ch, err := db.Channel(t.Context(), got.First+channel.ID(3*i))
		if want := host(i); err != nil || ch.Scope.Host != want.Scope.Host || ch.Reason != fmt.Sprint("reason ", i) {
			t.Errorf("line %d: %+v, %v", i+1, ch, err)
		}
	}
}

// TestLoadNamesChannelsOfOneScope: a folder of an older version may have a channel of a directory, and one that names it twice. Who moves it is told which.
func TestLoadNamesChannelsOfOneScope(t *testing.T) {
	db := open(t, pglab.Shared(t), "db")
	of := func(id channel.ID, kind channel.Kind, dirs ...string) channel.Item {
		return channel.Item{Channel: &channel.Stored{Channel: channel.Channel{ID: id, State: channel.Active, Seeds: []string{"https://a.test/x/"},
			Scope: channel.Scope{Kind: kind, Host: "https://a.test", Dirs: dirs}}}}
	}
	err := db.Load(t.Context(), func(yield func(channel.Item, error) bool) {
		if yield(of(5, channel.Directory, "/x/"), nil) {
			yield(of(7, channel.Directories, "/x/", "/x/"), nil)
		}
	})
	if !errors.Is(err, channel.ErrDuplicate) || !strings.Contains(err.Error(), "is channel 5, and channel 7 too") {
		t.Error(err)
	}
	if err := db.MustBeEmpty(t.Context()); err != nil {
		t.Error(err)
	}
}
