package badgerdb

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dgraph-io/badger/v4"

	"shoal/channel"
)

const childEnv = "BADGERDB_TEST_CHILD"

// TestMain runs a test's child process instead of the tests when asked to.
func TestMain(m *testing.M) {
	if what := os.Getenv(childEnv); what != "" {
		if err := child(what, os.Args[len(os.Args)-1]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

func host(i int) channel.Channel {
	origin := fmt.Sprintf("https://host%07d.test", i)
	return channel.Channel{Scope: channel.Scope{Kind: channel.WholeHost, Host: origin}, Seeds: []string{origin + "/"}}
}

// child writes until it is killed, and prints what was acknowledged.
func child(what, dir string) error {
	ctx := context.Background()
	cfg := Default(dir)
	if what == "small" {
		cfg.memTable = 256 << 10
	}
	db, err := Open(ctx, cfg)
	if err != nil {
		return err
	}
	e, err := db.Take(ctx)
	if err != nil {
		return err
	}
	switch what {
	case "hold":
		fmt.Println("open")
		_, err := io.Copy(io.Discard, os.Stdin)
		return errors.Join(err, db.Close())
	case "import":
		_, err := db.Import(ctx, e, func(yield func(channel.Line) bool) {
			for i := 0; yield(channel.Line{N: i, Channel: host(i)}); i++ {
				if i == 3*importBatch {
					fmt.Println("staged", i)
				}
			}
		})
		return err
	}
	var mu sync.Mutex
	say := func(args ...any) {
		mu.Lock()
		defer mu.Unlock()
		fmt.Println(args...)
	}
	var chs []channel.Channel
	for i := range 8 {
		chs = append(chs, host(i))
	}
	ids, _, err := db.Add(ctx, e, chs)
	if err != nil {
		return err
	}
	var wg sync.WaitGroup
	for _, id := range ids {
		wg.Go(func() {
			for g := channel.Gen(1); ; g++ {
				if _, err := db.Issue(ctx, e, []channel.Issue{{ID: id, Gen: g, Lease: make([]byte, 45), At: time.Now()}}); err != nil {
					say("failed", err)
					return
				}
				say("issued", id, g)
			}
		})
	}
	wg.Go(func() {
		for n := 0; ; n++ {
			a := channel.Advance{Feed: "f", From: cursor(n), To: cursor(n + 1), At: time.Now(), Counters: map[string]int64{"n": 1}, Edits: []channel.Edit{
				{ID: ids[n%8], Learnt: &channel.Learnt{Visits: n, LastError: strings.Repeat("x", 300)}, Inter: []string{fmt.Sprintf("https://host0000000.test/%d", n)}},
			}}
			if err := db.Apply(ctx, e, a); err != nil {
				say("failed", err)
				return
			}
			say("applied", n+1, 0)
		}
	})
	wg.Wait()
	return nil
}

func cursor(n int) string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(n)
}

func startChild(t *testing.T, what, dir string) (*exec.Cmd, *bufio.Scanner, io.Closer) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe, dir)
	cmd.Env = append(os.Environ(), childEnv+"="+what)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	return cmd, bufio.NewScanner(out), in
}

// TestKilled checks several times that acknowledged writes survive kill -9.
func TestKilled(t *testing.T) {
	dir := t.TempDir()
	for round, enough := range []int{1, 200, 3000} {
		sub := filepath.Join(dir, strconv.Itoa(round))
		cmd, out, _ := startChild(t, "write", sub)
		gens := make(map[channel.ID]channel.Gen)
		applied, lines := 0, 0
		for out.Scan() {
			var kind string
			var a, b uint64
			if _, err := fmt.Sscan(out.Text(), &kind, &a, &b); err != nil {
				t.Fatalf("child: %s", out.Text())
			}
			if kind == "issued" {
				gens[channel.ID(a)] = max(gens[channel.ID(a)], channel.Gen(b))
			} else {
				applied = max(applied, int(a))
			}
			if lines++; lines == enough {
				if err := cmd.Process.Kill(); err != nil {
					t.Fatal(err)
				}
			}
		}
		_ = cmd.Wait()
		db := open(t, sub)
		t.Logf("round %d: %d lines", round, lines)
		acknowledged(t, db, gens, applied)
	}
}

// acknowledged checks that the database holds everything that the child printed.
func acknowledged(t *testing.T, db *DB, gens map[channel.ID]channel.Gen, applied int) {
	t.Helper()
	for id, want := range gens {
		ch, err := db.Channel(t.Context(), id)
		if err != nil || ch.Learnt.Gen < want {
			t.Fatalf("channel %d has generation %d, %v; %d was acknowledged", id, ch.Learnt.Gen, err, want)
		}
	}
	at, err := db.Cursor(t.Context(), "f")
	if err != nil {
		t.Fatal(err)
	}
	sums, err := db.Counters(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if n, _ := strconv.Atoi(at); n < applied || sums["n"] != int64(n) {
		t.Fatalf("cursor %q with %d effects; %d were acknowledged", at, sums["n"], applied)
	}
}

// TestImportKilled checks that a killed import leaves nothing behind.
func TestImportKilled(t *testing.T) {
	dir := t.TempDir()
	db := open(t, dir)
	e, err := db.Take(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := db.Add(t.Context(), e, []channel.Channel{host(7)}); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	cmd, out, _ := startChild(t, "import", dir)
	if !out.Scan() {
		t.Fatal("child said nothing")
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	db = open(t, dir)
	n := 0
	if err := db.Scan(t.Context(), 0, 0, func(channel.Hot) error { n++; return nil }); err != nil || n != 1 {
		t.Fatalf("%d channels, %v", n, err)
	}
	if e, err = db.Take(t.Context()); err != nil {
		t.Fatal(err)
	}
	ids, refused, err := db.Add(t.Context(), e, []channel.Channel{host(0), host(importBatch), host(7)})
	if err != nil || len(refused) != 1 || ids[0] <= 2*importBatch {
		t.Fatalf("%v, %v, %v", ids, refused, err)
	}
	if raw := db.records(t); raw != 3*3 { // facts, cold, place
		t.Fatalf("%d records of channels, of 3 channels", raw)
	}
}

// records counts the stored records of channels.
func (db *DB) records(t *testing.T) (n int) {
	err := db.view(func(b *badger.Txn, _ ranges) error {
		return each(b, nil, func(key, _ []byte) error {
			if strings.IndexByte("fltcipu", key[0]) >= 0 {
				n++
			}
			return nil
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestWriteFails checks that a failed commit or sync reaches every writer of the group, stops all further writing,
// and leaves the stored data as it was.
func TestWriteFails(t *testing.T) {
	for _, stage := range []string{"commit", "sync"} {
		for nth := 1; nth <= 4; nth++ {
			dir := t.TempDir()
			db := open(t, dir)
			e, err := db.Take(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			gone := errors.New("disk gone")
			n := 0
			db.fail = func(at string) error {
				if at == stage {
					n++
				}
				if n >= nth {
					return gone
				}
				return nil
			}
			done := 0
			for i := range 6 {
				_, _, err := db.Add(t.Context(), e, []channel.Channel{host(i)})
				switch {
				case err == nil:
					done++
				case !errors.Is(err, ErrBroken) || !errors.Is(err, gone):
					t.Fatalf("%s %d: %v", stage, nth, err)
				}
			}
			if done != nth-1 {
				t.Fatalf("%s %d: %d writes were acknowledged", stage, nth, done)
			}
			if _, err := db.List(t.Context(), 0, 10); err != nil {
				t.Fatalf("%s %d: reading: %v", stage, nth, err)
			}
			if err := db.Close(); err != nil {
				t.Fatal(err)
			}
			db = open(t, dir)
			got, err := db.List(t.Context(), 0, 10)
			if err != nil || len(got) < done || len(got) > done+1 {
				t.Fatalf("%s %d: %d channels, %v; %d were acknowledged", stage, nth, len(got), err, done)
			}
		}
	}
}

// TestUnsynced checks that the one sync error that Badger does not return is caught in its log.
func TestUnsynced(t *testing.T) {
	db := open(t, t.TempDir())
	e, err := db.Take(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	db.said.Errorf("Error while curlf sync: %v\n", errors.New("no such device"))
	if _, _, err := db.Add(t.Context(), e, []channel.Channel{host(0)}); !errors.Is(err, ErrBroken) || !strings.Contains(err.Error(), "no such device") {
		t.Fatal(err)
	}
}

func TestDiskFull(t *testing.T) {
	dir := t.TempDir()
	db := open(t, dir)
	e, err := db.Take(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	db.cfg.MinFree = 1 << 62
	_, _, err = db.Add(t.Context(), e, []channel.Channel{host(0)})
	if !errors.Is(err, ErrDiskFull) || !strings.Contains(err.Error(), dir) {
		t.Fatal(err)
	}
	db.cfg.MinFree = 0
	if _, _, err = db.Add(t.Context(), e, []channel.Channel{host(0)}); err != nil {
		t.Fatal(err)
	}
}

func TestTooLarge(t *testing.T) {
	db := open(t, t.TempDir())
	err := db.submit(t.Context(), &op{run: func(x *tx) error {
		for i := range 20_000 {
			x.put(fmt.Appendf(nil, "x%d", i), []byte{v1})
		}
		return nil
	}})
	if !errors.Is(err, ErrTooLarge) {
		t.Fatal(err)
	}
	// Ops that fit one by one are spread over several commits.
	var ops []*op
	for n := range 10 {
		o := &op{run: func(x *tx) error {
			for i := range 3000 {
				x.put(fmt.Appendf(nil, "x%d/%d", n, i), []byte{v1})
			}
			return nil
		}}
		ops = append(ops, o)
	}
	big := &op{run: func(x *tx) error {
		for i := range 20_000 {
			x.put(fmt.Appendf(nil, "y%d", i), []byte{v1})
		}
		return nil
	}}
	group := append(ops[:5:5], append([]*op{big}, ops[5:]...)...)
	if err := db.halt(); err != nil { // the test is the committer now
		t.Fatal(err)
	}
	if err := db.doGroup(group); err != nil {
		t.Fatal(err)
	}
	for i, o := range group {
		if (o.err != nil) != (o == big) {
			t.Fatalf("write %d: %v", i, o.err)
		}
	}
	n := 0
	if err := db.b.View(func(b *badger.Txn) error {
		return each(b, []byte("x"), func(_, _ []byte) error { n++; return nil })
	}); err != nil || n != 30_000 {
		t.Fatalf("%d records, %v", n, err)
	}
	if err := db.b.Close(); err != nil {
		t.Fatal(err)
	}
}
