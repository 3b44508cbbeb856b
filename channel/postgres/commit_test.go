package postgres

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"shoal/channel"
	"shoal/internal/lab/pglab"
)

func host(n int) channel.Channel {
	name := fmt.Sprintf("https://h%d.test", n)
	return channel.Channel{Scope: channel.Scope{Kind: channel.WholeHost, Host: name}, Seeds: []string{name + "/"}, Added: time.Now(), State: channel.Active}
}

// filled takes the database over and adds channels.
func filled(t testing.TB, db *DB, n int) (channel.Epoch, []channel.ID) {
	t.Helper()
	e, err := db.Take(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	chs := make([]channel.Channel, n)
	for i := range chs {
		chs[i] = host(i)
	}
	ids, refused, err := db.Add(t.Context(), e, chs)
	if err != nil || len(refused) > 0 {
		t.Fatal(refused, err)
	}
	return e, ids
}

// TestLostAnswer loses commits on their way and answers on their way back. Each write must be made exactly once.
func TestLostAnswer(t *testing.T) {
	db := open(t, pglab.Shared(t), "db")
	e, ids := filled(t, db, 4)
	chance := rand.New(rand.NewPCG(1, 2))
	lost := map[string]int{}
	var mu sync.Mutex
	db.cfg.Lose = func(stage string) error {
		mu.Lock()
		defer mu.Unlock()
		if chance.IntN(4) > 0 {
			return nil
		}
		lost[stage]++
		return errors.New("lost")
	}
	const writes = 60
	var wg sync.WaitGroup
	for w := range ids {
		wg.Go(func() {
			feed, at := fmt.Sprint("feed", w), ""
			for i := range writes {
				refused, err := db.Issue(t.Context(), e, []channel.Issue{{ID: ids[w], Gen: channel.Gen(i + 1), Lease: []byte{1}, At: time.Now()}})
				if err != nil || len(refused) > 0 {
					t.Errorf("Issue: %v, %v", refused, err)
				}
				to := fmt.Sprint(i + 1)
				if err := db.Apply(t.Context(), e, channel.Advance{Feed: feed, From: at, To: to, Counters: map[string]int64{feed: 1}}); err != nil {
					t.Error(err)
				}
				at = to
			}
		})
	}
	wg.Wait()
	sums, err := db.Counters(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for w := range ids {
		if n := sums[fmt.Sprint("feed", w)]; n != writes {
			t.Errorf("%d stretches counted %d times", writes, n)
		}
	}
	if lost["commit"] == 0 || lost["answer"] == 0 {
		t.Errorf("lost %v: nothing was tried", lost)
	}
}

// TestKill kills the server while handings-out are issued. Each one that was acknowledged must be there, and the
// writers go on by themselves once the server is back.
func TestKill(t *testing.T) {
	s := pglab.Shared(t)
	db := open(t, s, "db")
	db.cfg.Patience = time.Minute
	e, ids := filled(t, db, 6)
	acknowledged := make([]atomic.Int64, len(ids))
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for w, id := range ids {
		wg.Go(func() {
			for gen := int64(1); ; gen++ {
				select {
				case <-stop:
					return
				default:
				}
				if refused, err := db.Issue(t.Context(), e, []channel.Issue{{ID: id, Gen: channel.Gen(gen), Lease: []byte{1}, At: time.Now()}}); err != nil || len(refused) > 0 {
					t.Errorf("Issue: %v, %v", refused, err)
					return
				}
				acknowledged[w].Store(gen)
			}
		})
	}
	for round := range 3 {
		before := acknowledged[0].Load()
		for acknowledged[0].Load() < before+20 && !t.Failed() {
			time.Sleep(time.Millisecond)
		}
		s.Kill()
		floor := make([]int64, len(ids))
		for w := range ids {
			floor[w] = acknowledged[w].Load()
		}
		if err := s.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		for w, id := range ids {
			ch, err := db.Channel(t.Context(), id)
			if err != nil {
				t.Fatal(err)
			}
			if int64(ch.Learnt.Gen) < floor[w] {
				t.Errorf("round %d: generation %d of channel %d was acknowledged, %d is there", round, floor[w], id, ch.Learnt.Gen)
			}
		}
	}
	close(stop)
	wg.Wait()
}

// TestTakenOver checks that a manager that lost the channels writes nothing, and that two managers add a site once.
func TestTakenOver(t *testing.T) {
	s := pglab.Shared(t)
	one, two := open(t, s, "db"), open(t, s, "db")
	e1, ids := filled(t, one, 1)
	e2, err := two.Take(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := one.Issue(t.Context(), e1, []channel.Issue{{ID: ids[0], Gen: 1, Lease: []byte{1}}}); !errors.Is(err, channel.ErrStaleEpoch) {
		t.Errorf("the former owner wrote: %v", err)
	}
	var wg sync.WaitGroup
	var added, refused atomic.Int64
	for _, db := range []*DB{one, two, one, two} {
		wg.Go(func() {
			for i := range 40 {
				got, no, err := db.Add(t.Context(), e2, []channel.Channel{host(100 + i)})
				if err != nil {
					t.Error(err)
					return
				}
				refused.Add(int64(len(no)))
				if got[0] != 0 {
					added.Add(1)
				}
			}
		})
	}
	wg.Wait()
	if added.Load() != 40 || refused.Load() != 120 {
		t.Errorf("%d added, %d refused, want 40 and 120", added.Load(), refused.Load())
	}
}

func TestOpenRefuses(t *testing.T) {
	s := pglab.Shared(t)
	base := open(t, s, "db")
	if _, err := base.pool.Exec(t.Context(), `CREATE ROLE guest LOGIN; CREATE SCHEMA newer; CREATE TABLE newer.versions (one smallint PRIMARY KEY, version integer); INSERT INTO newer.versions VALUES (1, 99)`); err != nil {
		t.Fatal(err)
	}
	own := Default(s.URL())
	own.Schema, own.Network = "owned", [32]byte{1}
	db, err := Open(t.Context(), own)
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	ctx := context.WithoutCancel(t.Context())
	t.Cleanup(func() {
		if _, err := s.Ask(ctx, "DROP ROLE guest"); err != nil { // it is of all databases of the server
			t.Error(err)
		}
	})
	_, dir, _ := strings.Cut(s.URL(), "?")
	dir = "?" + dir
	for name, c := range map[string]struct {
		cfg  Config
		want error
		say  string
	}{
		"no URL":          {Config{Schema: "x"}, ErrURL, form},
		"not a URL":       {Default("postgres://a:secret@h:port/x"), ErrURL, form},
		"a parameter":     {Default("postgres://shoal@/postgres?host=/nowhere&password=secret&connect_timeout=1"), ErrUnreachable, "connect_timeout=1"},
		"no server":       {Default("postgres://shoal@/postgres?host=/nowhere"), ErrUnreachable, "start it"},
		"going away":      {Default("postgres://shoal@" + hangUp(t, "") + "/postgres?sslmode=require"), ErrUnreachable, "start it"},
		"neither way":     {Default("postgres://shoal@" + hangUp(t, "N") + "/postgres"), ErrUnreachable, "start it"},
		"no TLS":          {Default("postgres://shoal@" + hangUp(t, "N") + "/postgres?sslmode=require"), ErrUnreachable, "sslmode=disable"},
		"no database":     {Default("postgres://shoal@/none" + dir), ErrUnreachable, "createdb"},
		"no user":         {Default("postgres://nobody@/postgres" + dir), ErrRefused, "pg_hba.conf"},
		"no right":        {Default("postgres://guest@/postgres" + dir), ErrRights, "GRANT CREATE"},
		"no schema":       {Config{URL: strings.Replace(s.URL(), "shoal@", "guest@", 1), Schema: "owned"}, ErrRights, "GRANT USAGE, CREATE ON SCHEMA owned"},
		"newer":           {Config{URL: s.URL(), Schema: "newer"}, ErrNewer, "schema newer of"},
		"another network": {Config{URL: s.URL(), Schema: "owned", Network: [32]byte{2}}, ErrOtherNetwork, "0200000000000000"},
	} {
		t.Run(name, func(t *testing.T) {
			db, err := Open(t.Context(), c.cfg)
			if err == nil {
				err = errors.Join(errors.New("it opened"), db.Close())
			}
			if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.say) {
				t.Errorf("error %v; want %v, saying %q", err, c.want, c.say)
			}
			if strings.Contains(err.Error(), "secret") {
				t.Errorf("%q shows the password", err)
			}
		})
	}
}

// TestConnectTimeout connects to a server that takes connections and says nothing, as one whose disk hangs: it may answer later, so what is asked of it is asked
// again. A caller's own deadline ends that.
func TestConnectTimeout(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	_, err = pgconn.Connect(t.Context(), "postgres://shoal@"+l.Addr().String()+"/postgres?sslmode=disable&connect_timeout=1")
	if !errors.Is(err, context.DeadlineExceeded) || !Passes(err) {
		t.Errorf("%v is for good", err)
	}
	if Passes(context.DeadlineExceeded) {
		t.Error("a caller's deadline passes")
	}
}

// hangUp serves an address that reads a question for TLS, answers it, and closes the connection.
func hangUp(t *testing.T, answer string) (address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = io.CopyN(io.Discard, c, 8)
			_, _ = io.WriteString(c, answer)
			_ = c.Close()
		}
	}()
	return l.Addr().String()
}

// TestDeadlock has two transactions lock two rows in opposite orders. The server breaks one off; both are done in the end, once each.
func TestDeadlock(t *testing.T) {
	db := openAt(t, pglab.Shared(t).URL()+"&deadlock_timeout=10ms", "db")
	if _, err := db.pool.Exec(t.Context(), `CREATE TABLE rows_of_two (id int PRIMARY KEY, n int); INSERT INTO rows_of_two VALUES (0, 0), (1, 0)`); err != nil {
		t.Fatal(err)
	}
	var wg, met sync.WaitGroup
	var tries atomic.Int32
	met.Add(2)
	for w := range 2 {
		wg.Go(func() {
			first := true
			err := db.Patiently(t.Context(), func() error {
				tries.Add(1)
				return db.Transact(t.Context(), func(ctx context.Context, tx pgx.Tx) error {
					_, err := tx.Exec(ctx, `UPDATE rows_of_two SET n = n + 1 WHERE id = $1`, w)
					if first {
						first = false
						met.Done()
						met.Wait()
					}
					if err == nil {
						_, err = tx.Exec(ctx, `UPDATE rows_of_two SET n = n + 1 WHERE id = $1`, 1-w)
					}
					return err
				})
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	var sum int
	if err := db.pool.QueryRow(t.Context(), `SELECT sum(n) FROM rows_of_two`).Scan(&sum); err != nil || sum != 4 || tries.Load() < 3 {
		t.Errorf("%d updates after %d tries, %v; want 4 after 3 or more", sum, tries.Load(), err)
	}
}
