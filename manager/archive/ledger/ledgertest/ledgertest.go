// Package ledgertest says what a store of the ledger must do, as tests that every store runs. It is not for what only one of them promises: its
// speed, its files, what its disk does to it.
package ledgertest

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"shoal/manager/archive/ledger"
	"shoal/manager/archive/schema"
)

// Subject is a store to be tested.
type Subject struct {
	Store ledger.Store // new and empty
	// Reopen closes the store and opens it again.
	Reopen func(t *testing.T) ledger.Store
	// Crash is Reopen without an orderly end. Nil: it cannot be tried.
	Crash func(t *testing.T) ledger.Store
}

// Run runs the suite; each test has a store of its own.
func Run(t *testing.T, make func(t *testing.T) Subject) {
	for name, test := range map[string]func(*testing.T, Subject){
		"Records": testRecords, "Scan": testScan, "ScanBack": testScanBack, "Snapshot": testSnapshot, "Whole": testWhole, "Condition": testCondition,
		"Order": testOrder, "Feeds": testFeeds, "Head": testHead, "Large": testLarge, "Durable": testDurable, "Closed": testClosed,
	} {
		t.Run(name, func(t *testing.T) { test(t, make(t)) })
	}
}

// change makes changes of a table for tests from "key=value", or "key" to delete it.
func change(specs ...string) (out []ledger.Change) {
	for _, s := range specs {
		key, value, set := strings.Cut(s, "=")
		c := ledger.Change{Key: []byte(key)}
		if set {
			c.Value = []byte(value)
		}
		out = append(out, c)
	}
	return out
}

// commit wants writes to be taken.
func commit(t *testing.T, s ledger.Store, writes ...ledger.Write) {
	t.Helper()
	refused, err := s.Commit(writes)
	if err != nil || len(refused) != len(writes) {
		t.Fatalf("commit: %v, %d answers to %d writes", err, len(refused), len(writes))
	}
	for n, err := range refused {
		if err != nil {
			t.Fatalf("write %d: %v", n, err)
		}
	}
}

// dump reads what a scan gives, as "key=value ...".
func dump(t *testing.T, s ledger.Store, prefix, start string, values bool) string {
	t.Helper()
	var out []string
	err := s.View(func(now ledger.Snapshot) error {
		var from []byte
		if start != "" {
			from = []byte(start)
		}
		return now.Scan([]byte(prefix), from, values, func(key, value []byte) (bool, error) {
			out = append(out, fmt.Sprintf("%s=%s", key, value))
			return true, nil
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(out, " ")
}

func wants(t *testing.T, what, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("%s: %q, want %q", what, got, want)
	}
}

func testRecords(t *testing.T, s Subject) {
	commit(t, s.Store, ledger.Write{Changes: change("pa=1", "pb=", "pc=3")})
	commit(t, s.Store, ledger.Write{Changes: change("pa=2", "pc", "pz")}) // deleting what is not there is no error
	wants(t, "records", dump(t, s.Store, "p", "", true), "pa=2 pb=")
	err := s.Store.View(func(now ledger.Snapshot) error {
		for key, want := range map[string]bool{"pa": true, "pb": true, "pc": false, "p": false, "pab": false} {
			called := false
			found, err := now.Get([]byte(key), func([]byte) error { called = true; return nil })
			if err != nil || found != want || called != want {
				t.Errorf("get %s: %v, read %v, %v", key, found, called, err)
			}
		}
		stop := errors.New("stop")
		if _, err := now.Get([]byte("pa"), func([]byte) error { return stop }); !errors.Is(err, stop) {
			t.Errorf("an error of the reader: %v", err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	stop := errors.New("stop")
	if err := s.Store.View(func(ledger.Snapshot) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("an error of a view: %v", err)
	}
}

func testScan(t *testing.T, s Subject) {
	commit(t, s.Store, ledger.Write{Changes: change("o=0", "pb=2", "pa=1", "pba=3", "p\xff=4", "q=5")})
	wants(t, "a table", dump(t, s.Store, "p", "", true), "pa=1 pb=2 pba=3 p\xff=4")
	wants(t, "without values", dump(t, s.Store, "p", "", false), "pa= pb= pba= p\xff=")
	wants(t, "a longer prefix", dump(t, s.Store, "pb", "", true), "pb=2 pba=3")
	wants(t, "from a key on", dump(t, s.Store, "p", "pb", true), "pb=2 pba=3 p\xff=4")
	wants(t, "from between keys on", dump(t, s.Store, "p", "pab", true), "pb=2 pba=3 p\xff=4")
	wants(t, "nothing", dump(t, s.Store, "x", "", true), "")
	seen, stop := 0, errors.New("stop")
	err := s.Store.View(func(now ledger.Snapshot) error {
		err := now.Scan([]byte("p"), nil, true, func([]byte, []byte) (bool, error) { seen++; return seen < 2, nil })
		if err != nil || seen != 2 {
			t.Errorf("two wanted, %d seen, %v", seen, err)
		}
		return now.Scan([]byte("p"), nil, true, func([]byte, []byte) (bool, error) { return true, stop })
	})
	if !errors.Is(err, stop) {
		t.Errorf("an error on the way: %v", err)
	}
}

func testScanBack(t *testing.T, s Subject) {
	commit(t, s.Store, ledger.Write{Changes: change("o=0", "pa=1", "pb=2", "pc=3", "q=5")})
	back := func(prefix, start string, most int) string {
		var out []string
		err := s.Store.View(func(now ledger.Snapshot) error {
			return now.ScanBack([]byte(prefix), []byte(start), func(key, value []byte) (bool, error) {
				out = append(out, fmt.Sprintf("%s=%s", key, value))
				return len(out) < most, nil
			})
		})
		if err != nil {
			t.Fatal(err)
		}
		return strings.Join(out, " ")
	}
	wants(t, "from a key that is there", back("p", "pb", 9), "pb=2 pa=1")
	wants(t, "from between keys", back("p", "pbb", 9), "pb=2 pa=1")
	wants(t, "from the end", back("p", "p\xff", 9), "pc=3 pb=2 pa=1")
	wants(t, "one", back("p", "p\xff", 1), "pc=3")
	wants(t, "before the first", back("p", "p", 9), "")
	wants(t, "a longer prefix", back("pb", "pb\xff", 9), "pb=2")
}

// testSnapshot writes while a view reads.
func testSnapshot(t *testing.T, s Subject) {
	commit(t, s.Store, ledger.Write{Changes: change("pa=1", "pb=1", "pc=1")})
	err := s.Store.View(func(now ledger.Snapshot) error {
		var seen []string
		err := now.Scan([]byte("p"), nil, true, func(key, value []byte) (bool, error) {
			seen = append(seen, string(key)+"="+string(value))
			commit(t, s.Store, ledger.Write{Changes: change("pb=2", "pc", "pd=2")})
			return true, nil
		})
		wants(t, "what a scan sees", strings.Join(seen, " "), "pa=1 pb=1 pc=1")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	wants(t, "afterwards", dump(t, s.Store, "p", "", true), "pa=1 pb=2 pd=2")
}

// testWhole refuses a write, of which then nothing is there, and takes the others.
func testWhole(t *testing.T, s Subject) {
	commit(t, s.Store, ledger.Write{Changes: change("ca=1")})
	refused, err := s.Store.Commit([]ledger.Write{
		{Changes: change("pa=1")},
		{If: change("ca=2")[0], Early: change("early=1"), Changes: change("pb=1"), Entries: []ledger.Entry{{Feed: schema.Feed, Value: []byte("x")}}, Add: ledger.Totals{Pages: 9}, Segment: 9},
		{Changes: change("pc=1")},
	})
	if err != nil || len(refused) != 3 || refused[0] != nil || !errors.Is(refused[1], ledger.ErrConflict) || refused[2] != nil {
		t.Fatalf("%v, %v", refused, err)
	}
	wants(t, "records", dump(t, s.Store, "p", "", true), "pa=1 pc=1")
	wants(t, "the feed", dump(t, s.Store, string(schema.Feed), "", true), "")
	wants(t, "early changes", dump(t, s.Store, "early", "", true), "")
	if h := s.Store.Head(); h.Totals.Pages != 0 || h.Segment != 0 {
		t.Errorf("head %+v", h)
	}
}

func testCondition(t *testing.T, s Subject) {
	try := func(cond ledger.Change, changes ...string) error {
		t.Helper()
		refused, err := s.Store.Commit([]ledger.Write{{If: cond, Changes: change(changes...)}})
		if err != nil {
			t.Fatal(err)
		}
		return refused[0]
	}
	if err := try(change("c=1")[0], "c=2"); !errors.Is(err, ledger.ErrConflict) {
		t.Errorf("a value where there is none: %v", err)
	}
	if err := try(change("c")[0], "c=1"); err != nil {
		t.Errorf("nothing where there is nothing: %v", err)
	}
	if err := try(change("c")[0], "c=2"); !errors.Is(err, ledger.ErrConflict) {
		t.Errorf("nothing where there is something: %v", err)
	}
	if err := try(change("c=2")[0], "c=3"); !errors.Is(err, ledger.ErrConflict) {
		t.Errorf("another value: %v", err)
	}
	if err := try(change("c=1")[0], "c="); err != nil {
		t.Errorf("the value: %v", err)
	}
	if err := try(change("c=")[0], "c=4"); err != nil {
		t.Errorf("an empty value: %v", err)
	}
	// A condition sees what writes of the same commit have done.
	refused, err := s.Store.Commit([]ledger.Write{{If: change("c=4")[0], Changes: change("c=5")}, {If: change("c=4")[0], Changes: change("c=6")}, {If: change("c=5")[0], Changes: change("c=7")}})
	if err != nil || refused[0] != nil || !errors.Is(refused[1], ledger.ErrConflict) || refused[2] != nil {
		t.Errorf("%v, %v", refused, err)
	}
	wants(t, "the record", dump(t, s.Store, "c", "", true), "c=7")
	// Of two conditions both must hold.
	refused, err = s.Store.Commit([]ledger.Write{{If: change("c=7")[0], Also: change("d")[0], Changes: change("c=8", "d=1")}, {If: change("c=8")[0], Also: change("d")[0], Changes: change("c=9")},
		{Also: change("d=2")[0], Changes: change("c=9")}, {Also: change("d=1")[0], Changes: change("d=3")}})
	if err != nil || refused[0] != nil || !errors.Is(refused[1], ledger.ErrConflict) || !errors.Is(refused[2], ledger.ErrConflict) || refused[3] != nil {
		t.Errorf("%v, %v", refused, err)
	}
	wants(t, "the record", dump(t, s.Store, "c", "", true), "c=8")
	wants(t, "the other one", dump(t, s.Store, "d", "", true), "d=3")
}

// testOrder changes a record several times in one commit: the last one counts.
func testOrder(t *testing.T, s Subject) {
	commit(t, s.Store, ledger.Write{Early: change("pa=0"), Changes: change("pa=1", "pa=2", "pb=1")}, ledger.Write{Changes: change("pb", "pc=1")}, ledger.Write{Changes: change("pb=3", "pc")})
	wants(t, "records", dump(t, s.Store, "p", "", true), "pa=2 pb=3")
}

func entries(feed byte, values ...string) (out []ledger.Entry) {
	for _, v := range values {
		out = append(out, ledger.Entry{Feed: feed, Value: []byte(v)})
	}
	return out
}

// numbers reads a feed: the entries' numbers and values.
func numbers(t *testing.T, s ledger.Store, feed byte) (seqs []uint64, values string) {
	t.Helper()
	err := s.View(func(now ledger.Snapshot) error {
		return now.Scan([]byte{feed}, nil, true, func(key, value []byte) (bool, error) {
			seqs = append(seqs, schema.Number(key, 0))
			values += string(value)
			return true, nil
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	return seqs, values
}

// testFeeds numbers entries: upwards, over both feeds and over a restart.
func testFeeds(t *testing.T, s Subject) {
	commit(t, s.Store, ledger.Write{Entries: append(entries(schema.Feed, "a"), append(entries(schema.Changes, "x"), entries(schema.Feed, "b")...)...)}, ledger.Write{Entries: entries(schema.Feed, "c")})
	st := s.Reopen(t)
	commit(t, st, ledger.Write{Entries: entries(schema.Feed, "d")}, ledger.Write{Entries: entries(schema.Changes, "y")})
	feed, values := numbers(t, st, schema.Feed)
	wants(t, "the feed", values, "abcd")
	changes, values := numbers(t, st, schema.Changes)
	wants(t, "the changes", values, "xy")
	if !slices.IsSorted(feed) || !slices.IsSorted(changes) || feed[0] == 0 || len(slices.Compact(slices.Sorted(slices.Values(slices.Concat(feed, changes))))) != 6 {
		t.Errorf("numbers %v, %v", feed, changes)
	}
	// An entry that was forgotten gives its number to no other.
	last := feed[len(feed)-1]
	commit(t, st, ledger.Write{Changes: []ledger.Change{{Key: schema.Key(schema.Feed, last)}}})
	commit(t, st, ledger.Write{Entries: entries(schema.Feed, "e")})
	if again, _ := numbers(t, st, schema.Feed); again[len(again)-1] <= last {
		t.Errorf("a number twice: %v after %v", again, feed)
	}
	const jump = 1 << 52
	commit(t, st, ledger.Write{Number: jump, Entries: entries(schema.Feed, "f")}, ledger.Write{Number: 7, Entries: entries(schema.Feed, "g")}, ledger.Write{Number: jump + 100})
	st = s.Reopen(t)
	commit(t, st, ledger.Write{Entries: entries(schema.Feed, "h")})
	if seqs, _ := numbers(t, st, schema.Feed); len(seqs) < 3 || seqs[len(seqs)-3] < jump || seqs[len(seqs)-3] >= seqs[len(seqs)-2] || seqs[len(seqs)-1] < jump+100 {
		t.Errorf("numbers %v do not go on from %d", seqs, jump)
	}
}

func testHead(t *testing.T, s Subject) {
	first := s.Store.Head()
	if first.ID == ([8]byte{}) || first.Segment != 0 || first.Totals != (ledger.Totals{}) {
		t.Errorf("a new archive: %+v", first)
	}
	commit(t, s.Store, ledger.Write{Add: ledger.Totals{Pages: 1, Unchanged: 2, Chunks: 3, Bytes: 4, Events: 5}, Segment: 7}, ledger.Write{Add: ledger.Totals{Pages: 10}, Segment: 3})
	want := ledger.Head{ID: first.ID, Segment: 7, Totals: ledger.Totals{Pages: 11, Unchanged: 2, Chunks: 3, Bytes: 4, Events: 5}}
	if got := s.Store.Head(); got != want {
		t.Errorf("head %+v, want %+v", got, want)
	}
	if got := s.Reopen(t).Head(); got != want {
		t.Errorf("head when opened again %+v, want %+v", got, want)
	}
}

// testLarge takes writes of the sizes that the archive makes, and refuses one that is too large, alone.
func testLarge(t *testing.T, s Subject) {
	var many []ledger.Change
	for n := range 2*ledger.MaxPages + 100 {
		many = append(many, ledger.Change{Key: schema.Key2(schema.Page, 1, uint64(n)), Value: bytes.Repeat([]byte{byte(n)}, 180)})
	}
	var early []ledger.Change
	for n := range 5 * ledger.MaxPages {
		early = append(early, ledger.Change{Key: schema.Key2(schema.Links, 1, uint64(n)), Value: bytes.Repeat([]byte{byte(n)}, 200)})
	}
	var most []ledger.Change
	for n := range 1_000_000 {
		most = append(most, ledger.Change{Key: schema.Key(schema.Owner, uint64(n))})
	}
	refused, err := s.Store.Commit([]ledger.Write{{Changes: many, Early: early}, {Changes: most}, {Changes: change("c=1")}})
	if err != nil || refused[0] != nil || !errors.Is(refused[1], ledger.ErrTooLarge) || refused[2] != nil {
		t.Fatalf("%v, %v", refused, err)
	}
	st := s.Reopen(t)
	for table, want := range map[byte]int{schema.Page: len(many), schema.Links: len(early), 'c': 1} {
		n := 0
		err := st.View(func(now ledger.Snapshot) error {
			return now.Scan([]byte{table}, nil, false, func([]byte, []byte) (bool, error) { n++; return true, nil })
		})
		if err != nil || n != want {
			t.Errorf("table %c: %d records of %d, %v", table, n, want, err)
		}
	}
}

// testDurable keeps what was committed, whatever happens to the process, and says that it is whole.
func testDurable(t *testing.T, s Subject) {
	if s.Crash == nil {
		t.Skip("this store cannot be crashed by a test")
	}
	st := s.Store
	for n := range 5 {
		commit(t, st, ledger.Write{Changes: change(fmt.Sprintf("p%d=%d", n, n)), Entries: entries(schema.Feed, fmt.Sprint(n)), Add: ledger.Totals{Chunks: 1}})
		st = s.Crash(t)
		if h := st.Head(); h.Totals.Chunks != uint64(n+1) {
			t.Errorf("after %d commits: %+v", n+1, h)
		}
	}
	wants(t, "records", dump(t, st, "p", "", true), "p0=0 p1=1 p2=2 p3=3 p4=4")
	if _, values := numbers(t, st, schema.Feed); values != "01234" {
		t.Errorf("the feed holds %q", values)
	}
	if err := st.Check(t.Context(), 0); err != nil {
		t.Errorf("check: %v", err)
	}
	st.Tidy(t.Context())
	var backup bytes.Buffer
	if err := st.Backup(&backup); err != nil || backup.Len() == 0 {
		t.Errorf("a backup of %d bytes, %v", backup.Len(), err)
	}
}

// testClosed closes a store while it is read: the reader ends first, and later calls get an error.
func testClosed(t *testing.T, s Subject) {
	commit(t, s.Store, ledger.Write{Changes: change("pa=1")})
	reading, read := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(read)
		err := s.Store.View(func(now ledger.Snapshot) error {
			close(reading)
			time.Sleep(10 * time.Millisecond) // Close comes meanwhile, or does not: both must do
			_, err := now.Get([]byte("pa"), func([]byte) error { return nil })
			return err
		})
		if err != nil {
			t.Errorf("the reader: %v", err)
		}
	}()
	<-reading
	if err := s.Store.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
	<-read
	if err := s.Store.View(func(ledger.Snapshot) error { return nil }); !errors.Is(err, ledger.ErrClosed) {
		t.Errorf("a view after that: %v", err)
	}
	if _, err := s.Store.Commit([]ledger.Write{{}}); !errors.Is(err, ledger.ErrClosed) {
		t.Errorf("a commit after that: %v", err)
	}
}
