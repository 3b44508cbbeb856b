package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"shoal/channel/badgerdb"
	"shoal/channel/order"
)

// noChannels makes the data folder of a network whose manager is stopped and has made its channel database and no archive yet.
func noChannels(t *testing.T) (data string) {
	t.Helper()
	data = t.TempDir()
	db, err := badgerdb.Open(t.Context(), badgerdb.Default(filepath.Join(data, channelsFolder)))
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	return data
}

// TestCommandsMakeNoArchive asks about a network whose manager has made its channel database and no archive yet, as in the moment of its first start. An
// archive in the folder would keep a manager from starting whose archive is to lie in a bucket.
func TestCommandsMakeNoArchive(t *testing.T) {
	t.Parallel()
	data := noChannels(t)
	var out, said buffer
	if code := run(t.Context(), []string{"channel", "list", "--data", data}, streams{&out, &said}); code != 0 {
		t.Errorf("status %d: %s", code, said.String())
	}
	if _, err := os.Stat(filepath.Join(data, "archive")); err == nil {
		t.Error("a command that asks has made an archive")
	}
}

// TestOrdersOfChannels: a channel takes the page orderings that peers can crawl by. One that needs an oracle would have every peer refuse its tasks.
func TestOrdersOfChannels(t *testing.T) {
	t.Parallel()
	data := noChannels(t)
	for _, x := range []struct {
		order, says string
		code        int
	}{
		{order.Historical, "", 0},
		{order.Omniscient, `no page ordering "omniscient": want one of breadth-first, `, 1},
	} {
		var out, said buffer
		code := run(t.Context(), []string{"channel", "add", "https://" + x.order + ".example/", "--order", x.order, "--data", data}, streams{&out, &said})
		if code != x.code || !strings.Contains(said.String(), x.says) {
			t.Errorf("%s: status %d, says %q; want %d, %q", x.order, code, said.String(), x.code, x.says)
		}
	}
}
