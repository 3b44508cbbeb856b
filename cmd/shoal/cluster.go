package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"shoal/internal/member"
	"shoal/internal/pgserver"
	"shoal/internal/plain"
	"shoal/internal/smallbucket"
	"shoal/manager/api"
	"shoal/manager/desk"
)

// `shoal up --cluster N` is for a look at a network of several managers. Each is a process of this program, as `shoal manager --several` runs it, so that one
// can be killed and seen to come back. The servers are PostgreSQL as it is installed, and a small object store in this process.

// Bounds of --cluster. A network document names so many working keys.
const (
	leastCluster = 2
	mostCluster  = member.MaxDelegations
)

// restartWait is how long a manager that ended stays away, for its work to be seen taken over.
const restartWait = 15 * time.Second

// cluster is managers, as processes, and what they need.
type cluster struct {
	up   *upCmd
	data string
	err  io.Writer
	log  *slog.Logger
	env  []string // of the managers: where the servers are
	args []string // of each
	join string
	// backup is the network's keys, of which further managers make theirs.
	backup string
	pages  []string // addresses
	pg     string   // PostgreSQL's data folder; empty: it is another's
	all    []*clusterManager

	mu    sync.Mutex // guards what follows
	last  desk.Overview
	began time.Time
	first time.Time // when the first page was there; zero: there is none yet
}

// clusterManager is one manager.
type clusterManager struct {
	n      int
	data   string
	page   string // address
	listen int
	client *api.Client // made at each start, as its folder may be another; guarded by cluster.mu
	join   string      // likewise
	cmd    *exec.Cmd
	end    io.Closer // its standard input: it ends when this is closed
	done   chan error
}

func (c *upCmd) checkCluster() error {
	if c.Cluster == 0 {
		return nil
	}
	if c.Cluster < leastCluster || c.Cluster > mostCluster {
		return fmt.Errorf("--cluster %d: want %d to %d managers, as a network has at most %d working keys", c.Cluster, leastCluster, mostCluster, mostCluster)
	}
	if (c.DB == "") != (c.Bucket == "") {
		return errors.New("--cluster takes --db and --bucket together, or starts servers of its own without both")
	}
	if _, port, err := net.SplitHostPort(c.Page); err != nil || port == "0" {
		return fmt.Errorf("--page %q: --cluster needs an address with a port; the managers' pages follow each other from there", c.Page)
	}
	return nil
}

// clusterPages chooses the addresses of the managers' pages, before anything starts: the first is as asked, and the others have the next ports that are free.
func (c *upCmd) clusterPages() (pages []string, err error) {
	host, port, err := net.SplitHostPort(c.Page)
	if err != nil {
		return nil, err
	}
	first, err := strconv.Atoi(port)
	if err != nil {
		return nil, fmt.Errorf("--page %q: the port is no number", c.Page)
	}
	for n := first; len(pages) < c.Cluster; n++ {
		at := net.JoinHostPort(host, strconv.Itoa(n))
		l, err := net.Listen("tcp", at)
		switch {
		case err == nil && l.Close() == nil:
			pages = append(pages, at)
		case n == first:
			return nil, fmt.Errorf("the first manager's page cannot be served at %s: %w; choose another address with --page", at, err)
		case n >= first+mostPagePorts:
			return nil, fmt.Errorf("of the %d ports from %d on too few are free for %d pages: %w; choose another address with --page", mostPagePorts, first, c.Cluster, err)
		}
	}
	return pages, nil
}

// mostPagePorts is among how many ports the managers' pages lie.
const mostPagePorts = 100

// runCluster is Run with --cluster.
func (c *upCmd) runCluster(ctx context.Context, s streams) (err error) {
	began := time.Now()
	cl := &cluster{up: c, began: began, data: filepath.Join(c.Data, upCluster), err: s.err, log: slog.New(slog.DiscardHandler)}
	if c.Verbose {
		cl.log = slog.New(plain.CutAddresses(slog.NewTextHandler(s.err, nil)))
	}
	if busy, err := inUse(ctx, filepath.Join(cl.data, "manager-1")); err == nil && busy {
		return fmt.Errorf("managers run on %s already: end that `shoal up` first, or name another folder with --data", cl.data)
	}
	if cl.pages, err = c.clusterPages(); err != nil {
		return err
	}
	w := &swimmers{n: c.peers(), dir: filepath.Join(cl.data, "peers"), log: cl.log}
	if len(c.URLs) == 0 {
		if w.pond, err = c.openPond(cl.data); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, ignoreClosed(w.pond.Close())) }()
	}
	undo, err := cl.servers(ctx, w)
	defer func() { err = errors.Join(err, undo()) }()
	if err != nil {
		return err
	}
	if err := cl.keys(); err != nil {
		return err
	}
	if c.For > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, began.Add(c.For))
		defer cancel()
	}
	run, end := context.WithCancel(context.WithoutCancel(ctx)) // managers outlive peers
	var wg sync.WaitGroup
	defer func() { end(); wg.Wait() }()
	if err := cl.startAll(ctx, run, &wg); err != nil {
		return err
	}
	cl.greet(w)
	before := cl.overview()
	err = cl.swim(ctx, w)
	sum := summarise(before, cl.settled())
	sum.Peers, sum.Data, sum.Seconds = c.peers(), cl.data, time.Since(began).Seconds()
	if !cl.first.IsZero() {
		sum.FirstPageS = cl.first.Sub(began).Seconds()
	}
	if w.pond != nil {
		sum.MaxInFlight = w.pond.Stats().MaxInFlight
	}
	fmt.Fprintf(s.err, "Stopped. The data is in %s; start again to go on from there.\n", cl.data)
	if c.JSON {
		err = errors.Join(err, json.NewEncoder(s.out).Encode(sum))
	}
	return err
}

// servers starts PostgreSQL, the object store and the pond, unless the first two are named.
func (cl *cluster) servers(ctx context.Context, w *swimmers) (undo func() error, err error) {
	var undos []func() error
	undo = func() error {
		var all []error
		for i := len(undos) - 1; i >= 0; i-- {
			all = append(all, undos[i]())
		}
		return errors.Join(all...)
	}
	db, bucket := cl.up.DB, cl.up.Bucket
	if db == "" {
		if _, err := pgserver.Find(); err != nil {
			return undo, fmt.Errorf("%w; or name servers with --db and --bucket", err)
		}
		if err := os.MkdirAll(cl.data, 0o700); err != nil {
			return undo, err
		}
		pg, err := pgserver.Start(ctx, filepath.Join(cl.data, "postgres"))
		if err != nil {
			return undo, err
		}
		keep, enough := context.WithCancel(context.WithoutCancel(ctx)) // managers need it to their end
		kept := make(chan struct{})
		go func() {
			defer close(kept)
			pg.Keep(keep, restartWait, func(what string) { fmt.Fprintf(cl.err, "\n%s\n", what) })
		}()
		undos = append(undos, func() error { enough(); <-kept; return pg.Stop() })
		cl.pg = pg.Data()
		for _, at := range pg.Before() {
			fmt.Fprintf(cl.err, "The data of a PostgreSQL whose folder is not at %s any more is in %s: delete it, unless you have moved that folder.\n", cl.data, at)
		}
		store, err := smallbucket.Open(filepath.Join(cl.data, "bucket"))
		if err != nil {
			return undo, err
		}
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return undo, err
		}
		front := &http.Server{Handler: store, ReadHeaderTimeout: 10 * time.Second}
		go func() { _ = front.Serve(l) }() // it ends with Close
		undos = append(undos, front.Close)
		db, bucket = pg.URL(), store.URL(l.Addr().String())
	}
	cl.env = append(os.Environ(), "SHOAL_DB="+db, "SHOAL_BUCKET="+bucket, "SHOAL_SEVERAL=true")
	cl.args = []string{"manager", "--json", "--with-input", "--strategy", cl.up.Strategy, "--name", cl.up.Name, "--contact", cl.up.Contact}
	if cl.up.Verbose {
		cl.args = append(cl.args, "--verbose")
	}
	if cl.up.ClockRight {
		cl.args = append(cl.args, "--clock-right")
	}
	if w.pond == nil {
		return undo, nil
	}
	pctx, drain := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan error, 1)
	go func() { done <- w.pond.Run(pctx) }()
	undos = append(undos, func() error { drain(); return <-done })
	cl.args = append(cl.args, "--pond", w.pond.Addr().String())
	return undo, nil
}

// keys makes the managers' identities: all of one network, which is that of the first folder that has keys.
func (cl *cluster) keys() error {
	first := 0
	for i, page := range cl.pages {
		m := &clusterManager{n: i + 1, data: filepath.Join(cl.data, fmt.Sprint("manager-", i+1)), page: page}
		var err error
		if m.listen, err = keptPort(m.data); err != nil {
			return err
		}
		if first == 0 && hasKeys(m.data) {
			first = m.n
		}
		cl.all = append(cl.all, m)
	}
	k, err := member.LoadOrCreate(keyFolder(cl.all[max(first, 1)-1].data), time.Now())
	if err != nil {
		return err
	}
	if cl.backup, err = k.Backup(); err != nil {
		return err
	}
	for _, m := range cl.all {
		if err := cl.key(m); err != nil {
			return err
		}
	}
	return nil
}

func keyFolder(data string) string { return filepath.Join(data, "keys") }

// hasKeys reports whether there is a folder of keys.
func hasKeys(data string) bool {
	_, err := os.Stat(keyFolder(data))
	return err == nil
}

// key makes a manager's identity, if it has none: its folder is new, or somebody has deleted it.
func (cl *cluster) key(m *clusterManager) error {
	if hasKeys(m.data) {
		return nil
	}
	_, err := member.Join(keyFolder(m.data), cl.backup, time.Now())
	return err
}

// startAll starts the managers, and keeps them running until run ends.
func (cl *cluster) startAll(ctx, run context.Context, wg *sync.WaitGroup) error {
	for _, m := range cl.all {
		if err := cl.start(ctx, m); err != nil {
			return fmt.Errorf("manager %d: %w", m.n, err)
		}
		cl.join = m.join // it names those that were there before
		wg.Go(func() { cl.keep(run, m) })
	}
	return nil
}

// start starts a manager and waits until it says that it has.
func (cl *cluster) start(ctx context.Context, m *clusterManager) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	logs, err := os.OpenFile(m.data+".log", os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer logs.Close() // the manager has its own
	args := append([]string{}, cl.args...)
	args = append(args, "--data", m.data, "--page", m.page, "--listen", fmt.Sprintf("/ip4/127.0.0.1/tcp/%d", m.listen))
	if m.n == 1 {
		for _, u := range cl.up.URLs {
			args = append(args, "--add", u)
		}
	}
	m.cmd = exec.Command(self, args...)
	m.cmd.Env, m.cmd.Stderr = cl.env, logs
	ownGroup(m.cmd) // ctrl-C is for this process alone: peers leave first
	in, err := m.cmd.StdinPipe()
	if err != nil {
		return err
	}
	out, err := m.cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := m.cmd.Start(); err != nil {
		return err
	}
	m.end, m.done = in, make(chan error, 1)
	var started struct{ Join, Page string }
	said := make(chan error, 1)
	go func() {
		said <- json.NewDecoder(out).Decode(&started)
		_, _ = io.Copy(io.Discard, out)
		m.done <- m.cmd.Wait()
	}()
	select {
	case err = <-said:
	case <-ctx.Done():
		err = ctx.Err()
	}
	if err != nil {
		_ = in.Close()
		ended := <-m.done
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return fmt.Errorf("it did not start (%w); its log, %s.log, ends: %s", errors.Join(notEOF(err), ended), m.data, lastLine(m.data+".log"))
	}
	token, err := member.ReadSecret(filepath.Join(m.data, "operator.token"))
	if err != nil {
		return err
	}
	cl.mu.Lock()
	defer cl.mu.Unlock()
	m.client, m.join = &api.Client{Base: started.Page, Token: strings.TrimSpace(token), HTTP: &http.Client{Timeout: 3 * time.Second}}, started.Join
	return nil
}

// notEOF is an error, but for the end of what a program says: why it ended is told otherwise.
func notEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// lastLine is the last line of a file that says something.
func lastLine(file string) string {
	b, err := os.ReadFile(file)
	if err != nil {
		return err.Error()
	}
	b = bytes.TrimSpace(b)
	return string(b[bytes.LastIndexByte(b, '\n')+1:])
}

// keep waits for a manager's end, and starts it again until ctx ends. One that does not start is tried again: PostgreSQL may be away.
func (cl *cluster) keep(ctx context.Context, m *clusterManager) {
	for {
		select {
		case <-ctx.Done():
			_ = m.end.Close()
			<-m.done
			return
		case err := <-m.done:
			fmt.Fprintf(cl.err, "\nManager %d has ended (%v). The others take its share of the hosts over; it is started again in %v.\n", m.n, err, restartWait)
		}
		for runs := false; !runs; {
			select {
			case <-ctx.Done():
				return
			case <-time.After(restartWait):
			}
			err := cl.key(m)
			if err == nil {
				err = cl.start(ctx, m)
			}
			if runs = err == nil; !runs && ctx.Err() == nil {
				fmt.Fprintf(cl.err, "\nManager %d: %v. It is tried again in %v.\n", m.n, err, restartWait)
			}
		}
		fmt.Fprintf(cl.err, "\nManager %d runs again, as process %d.\n", m.n, m.cmd.Process.Pid)
	}
}

func (cl *cluster) greet(w *swimmers) {
	what := fmt.Sprint(len(cl.up.URLs), " sites")
	if w.pond != nil {
		cfg := w.pond.World().Config()
		what = fmt.Sprintf("the pond, a synthetic Web of %d hosts and %d pages on loopback", cfg.Hosts, cfg.Pages)
	}
	fmt.Fprintf(cl.err, "Shoal crawls %s with %s and %s that share the work.\n", what, plain.Count(w.n, "peer"), plain.Count(len(cl.all), "manager"))
	for _, m := range cl.all {
		fmt.Fprintf(cl.err, "  manager %d  %s/?token=%s  process %d\n", m.n, m.client.Base, m.client.Token, m.cmd.Process.Pid)
	}
	fmt.Fprintf(cl.err, "  each page shows all of it. Kill one, as with kill -9 %d, and see the others take its share over.\n", cl.all[0].cmd.Process.Pid)
	if cl.pg != "" {
		fmt.Fprintf(cl.err, "  PostgreSQL %s\n", cl.pg)
	}
	fmt.Fprintf(cl.err, "  data       %s\n  end with   ctrl-C\n", cl.data)
}

// client asks one of the managers.
func (cl *cluster) client(i int) *api.Client {
	cl.mu.Lock()
	defer cl.mu.Unlock()
	return cl.all[i].client
}

// settled is overview once all managers count as many channels as the database has: while one hands some over to another, both count them, or neither does, for
// some seconds.
func (cl *cluster) settled() desk.Overview {
	stored, told := cl.stored()
	for range 15 {
		o, agreed := cl.look()
		if agreed && (o.Channels == stored || !told) {
			return o
		}
		time.Sleep(time.Second)
		stored, told = cl.stored()
	}
	o := cl.overview()
	if told {
		o.Channels = stored
	}
	return o
}

// stored is how many channels the database has, and whether a manager has told. It has to look through all.
func (cl *cluster) stored() (n int, told bool) {
	for i := range cl.all {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		var rows api.Rows
		err := cl.client(i).Do(ctx, http.MethodGet, "/channels", url.Values{"sort": {"host"}, "n": {"1"}}, nil, &rows)
		cancel()
		if err == nil {
			return rows.Total, true
		}
	}
	return 0, false
}

// overview is the state of the whole, of the manager that knows most of it: one that has just started knows little. If none answers it is as it was last.
func (cl *cluster) overview() desk.Overview {
	o, _ := cl.look()
	return o
}

// look is overview, and whether all managers that answer count as many channels.
func (cl *cluster) look() (_ desk.Overview, agreed bool) {
	cl.mu.Lock()
	defer cl.mu.Unlock()
	heard := false
	counts := map[int]bool{}
	for _, m := range cl.all {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		var o desk.Overview
		err := m.client.Do(ctx, http.MethodGet, "/overview", nil, nil, &o)
		cancel()
		if err != nil {
			continue
		}
		counts[o.Channels] = true
		if cl.first.IsZero() && o.Archived > 0 {
			cl.first = time.Now()
		}
		if l := &cl.last; !heard || o.Channels > l.Channels || o.Channels == l.Channels && o.Updates > l.Updates {
			cl.last, heard = o, true
		}
	}
	cl.last.Started = cl.began // not that of one manager
	return cl.last, len(counts) == 1
}

// swim runs the peers until ctx ends, and shows what happens.
func (cl *cluster) swim(ctx context.Context, w *swimmers) error {
	w.own = func(id string) { // the operator's own need no probation
		if err := cl.client(0).Do(ctx, http.MethodPost, "/peers/vouch", nil, api.Vouch{Peer: id, Ahead: true}, nil); err != nil {
			cl.log.Warn("a peer of this program is a newcomer", "peer", id, "err", err)
		}
	}
	shown := make(chan struct{})
	look, stop := context.WithCancel(ctx)
	go func() { defer close(shown); live(look, cl.err, cl.overview) }()
	defer func() { stop(); <-shown }()
	err := w.run(ctx, cl.join)
	time.Sleep(settleTime) // for the last reports to be taken in
	return err
}
