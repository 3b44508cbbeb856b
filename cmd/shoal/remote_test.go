package main

import (
	"context"
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"shoal/internal/lab/pglab"
	"shoal/internal/lab/s3lab"
	"shoal/manager/archive/archivecmd"
	"shoal/manager/archive/remote"
)

// archiveScript is what an operator does with the archive of a stopped manager. %P is a stored page, %H its host, %T a new folder.
var archiveScript = []string{
	"archive stats --json", "archive verify --json", "archive cdx", "archive cdx %P --json", "get %P", "get %P --json",
	"export --format json --body --json", "export --format text --limit 5", "export --format json --limit 3 --without-visitors",
	"archive compact --captures 1 --dry-run", "archive compact --captures 1 --yes --share 1 --json", "archive verify", "get %P",
	"host purge %H --yes", "archive compact --share 1", "archive verify", "archive cdx", "archive repair --json", "archive stats",
	"export --format json --json", "backup %T/backup", "restore %T/backup --data %T/restored", "archive verify --data %T/restored", "archive cdx --data %T/restored",
}

// where matches what tells in which file or object a record is, how many there are, and what goes with the time of day.
var where = regexp.MustCompile(`"(filename|offset|files|bytes|freed)": ?"?[^",}]*"?|\d+ (files|bytes)|shoal-[0-9a-z/-]*\.warc\.gz|"gone","fetched":"[^"]*"|"pages_counted":"[^"]*"|"text_delay_s":[0-9.]+|backup in .*|restored to [^;]*`)

// told matches the cursor of what the script itself has the feed tell: on servers each start goes on above all numbers that may have been told.
var told = regexp.MustCompile(`"cursor":"[^"]*"([^\n]*"event":"(gone|removed)")`)

// play runs the script on a data folder, and returns what it printed.
func play(t *testing.T, data, page, host string) (out []string) {
	t.Helper()
	words := strings.NewReplacer("%P", page, "%H", host, "%T", t.TempDir())
	for _, line := range archiveScript {
		args := strings.Fields(words.Replace(line))
		if !strings.Contains(line, "--data") {
			args = append(args, "--data", data)
		}
		var o, e strings.Builder
		if code := run(t.Context(), args, streams{&o, &e}); code != 0 {
			t.Errorf("%s: status %d\n%s%s", line, code, o.String(), e.String())
		}
		out = append(out, line+"\n"+where.ReplaceAllString(told.ReplaceAllString(o.String(), `"cursor":"-"$1`), "-"))
	}
	return out
}

// same compares what a command printed, line by line.
func same(t *testing.T, what, want, got string) {
	t.Helper()
	w, g := strings.Split(want, "\n"), strings.Split(got, "\n")
	for n := range min(len(w), len(g)) {
		if w[n] != g[n] {
			t.Errorf("%s: %s: line %d\n%.1000s\nwant\n%.1000s", what, w[0], n, g[n], w[n])
			return
		}
	}
	if len(w) != len(g) {
		t.Errorf("%s: %s: %d lines, want %d", what, w[0], len(g), len(w))
	}
}

// anyPage finds a page that is stored, and its host.
func anyPage(t *testing.T, data string) (page, host string) {
	t.Helper()
	for line := range strings.Lines(shoalIn(t, data, 0, "archive", "cdx", "--json")) {
		var c struct {
			URL    string
			Status int
		}
		if err := json.Unmarshal([]byte(line), &c); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		if c.Status == 200 {
			rest := strings.TrimPrefix(strings.TrimPrefix(c.URL, "http://"), "https://")
			host, _, _ = strings.Cut(rest, "/")
			return c.URL, host
		}
	}
	t.Fatal("no page is stored")
	return "", ""
}

// TestArchiveOnServers runs the same commands on an archive in a folder and on the same one on servers: they print the same. Then a network runs
// on the servers, and comes back.
func TestArchiveOnServers(t *testing.T) {
	t.Parallel()
	db, store := pglab.Start(t, pglab.Options{}), s3lab.Start(t, s3lab.Options{})
	home := t.TempDir()
	upUntil(t, home, 15)
	data, moved := filepath.Join(home, "up-pond"), filepath.Join(t.TempDir(), "up-pond")
	if err := archivecmd.CopyTree(context.Background(), data, moved); err != nil {
		t.Fatal(err)
	}
	shoalIn(t, moved, 0, "archive", "compact") // seals, as the migration does
	shoalIn(t, data, 0, "archive", "compact")
	if said := shoalIn(t, moved, 0, "migrate", "--to", db.URL(), "--bucket", store.URL()); !strings.Contains(said, "every record read back") {
		t.Errorf("migrate: %s", said)
	}
	if _, err := os.Stat(filepath.Join(moved, "archive", "warc")); err == nil {
		t.Error("there are WARC files in the folder still")
	}
	page, host := anyPage(t, data)
	var here, there []string
	var both sync.WaitGroup
	both.Go(func() { here = play(t, data, page, host) })
	both.Go(func() { there = play(t, moved, page, host) })
	both.Wait()
	for n := range here {
		same(t, "on the servers", here[n], there[n])
	}

	upUntil(t, filepath.Dir(moved), 3)
	if files, err := fs.Glob(os.DirFS(moved), "archive/warc/*"); err != nil || len(files) > 0 {
		t.Errorf("a network on servers wrote files: %v, %v", files, err)
	}
	if said := shoalIn(t, moved, 0, "archive", "verify"); !strings.Contains(said, " 0 problems") {
		t.Errorf("verify: %s", said)
	}
	before := where.ReplaceAllString(shoalIn(t, moved, 0, "archive", "cdx"), "-")
	if said := shoalIn(t, moved, 0, "migrate", "--to", "folder"); !strings.Contains(said, "every record read back") || !strings.Contains(said, "channels") {
		t.Errorf("back: %s", said)
	}
	for _, file := range []string{remote.DatabaseFile, remote.BucketFile} {
		if _, err := os.Stat(filepath.Join(moved, file)); err == nil {
			t.Errorf("the folder still remembers a %s", file)
		}
	}
	same(t, "back in the folder", before, where.ReplaceAllString(shoalIn(t, moved, 0, "archive", "cdx"), "-"))
	shoalIn(t, moved, 0, "archive", "verify")
	upUntil(t, filepath.Dir(moved), 1)
}

// TestWrongPlaces starts managers on places that they cannot use. Each error says what to do, and nothing is touched: neither the folder, nor a
// server that was right.
func TestWrongPlaces(t *testing.T) {
	t.Parallel()
	db, store, foreign := pglab.Start(t, pglab.Options{}), s3lab.Start(t, s3lab.Options{}), s3lab.Start(t, s3lab.Options{})
	other := stationForTest(t)
	other.db, other.bucket = pglab.Start(t, pglab.Options{}).URL(), foreign.URL()
	st, err := openStation(t.Context(), other)
	if err != nil {
		t.Fatal(err)
	}
	if err := st.close(); err != nil {
		t.Fatal(err)
	}
	own := stationForTest(t)
	if st, err = openStation(t.Context(), own); err != nil {
		t.Fatal(err)
	}
	if err := st.close(); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(own.data, channelsFolder)); err != nil { // so that the archive alone is in the way
		t.Fatal(err)
	}
	empty := filepath.Join(t.TempDir(), "d")
	for name, c := range map[string]struct{ data, db, bucket, say string }{
		"a bucket alone":             {empty, "", store.URL(), "--bucket needs --db"},
		"no such bucket":             {empty, db.URL(), store.URLOf(s3lab.Access, s3lab.Secret, "missing"), "create it"},
		"a wrong secret":             {empty, db.URL(), store.URLOf(s3lab.Access, "wrong", "bucket"), "correct the key"},
		"no bucket's URL":            {empty, db.URL(), "/somewhere", "s3://KEY:SECRET@host:port/bucket"},
		"another network's bucket":   {empty, db.URL(), foreign.URL(), "choose another bucket"},
		"another network's database": {empty, other.db, store.URL(), "choose another database"},
		"no server":                  {empty, "postgres://shoal@/none?host=/nowhere", store.URL(), "start it"},
		"an archive in the folder":   {own.data, db.URL(), store.URL(), "shoal migrate"},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := stationForTest(t)
			cfg.data, cfg.db, cfg.bucket = c.data, c.db, c.bucket
			st, err := openStation(t.Context(), cfg)
			if err == nil {
				t.Fatal("it opened", st.close())
			}
			if !strings.Contains(err.Error(), c.say) {
				t.Errorf("%v; it does not say %q", err, c.say)
			}
			for _, file := range []string{remote.DatabaseFile, remote.BucketFile} {
				if _, err := os.Stat(filepath.Join(c.data, file)); err == nil {
					t.Errorf("the folder remembers a %s", file)
				}
			}
			if names, err := store.Objects(); err != nil || len(names) > 0 {
				t.Errorf("objects %q, %v", names, err)
			}
		})
	}
	right := stationForTest(t)
	right.data, right.db, right.bucket = empty, db.URL(), store.URL()
	if st, err = openStation(t.Context(), right); err != nil { // also after all of these
		t.Fatal(err)
	}
	if err := st.close(); err != nil {
		t.Error(err)
	}
}
