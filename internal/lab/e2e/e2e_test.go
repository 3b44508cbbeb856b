package e2e

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"shoal/channel"
	"shoal/internal/lab/pond"
	"shoal/internal/lab/standstill"
	"shoal/internal/lab/waiting"
	"shoal/manager/archive"
	"shoal/manager/archive/pages"
	"shoal/manager/desk"
)

var bin string // folder of the programs

func TestMain(m *testing.M) {
	code, err := withPrograms(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// programsEnv names the folder of the programs for a test that runs another one in a process of its own.
const programsEnv = "SHOAL_TEST_PROGRAMS"

func withPrograms(m *testing.M) (code int, err error) {
	if bin = os.Getenv(programsEnv); bin != "" {
		return m.Run(), nil
	}
	if bin, err = os.MkdirTemp("", "shoal-e2e-*"); err != nil {
		return 1, err
	}
	defer os.RemoveAll(bin)
	cmd := exec.Command("go", "build", "-ldflags", "-s -w", "-o", bin+string(filepath.Separator), "./cmd/shoal", "./cmd/shoal-peer")
	cmd.Dir = filepath.Join("..", "..", "..")
	if out, err := cmd.CombinedOutput(); err != nil {
		return 1, fmt.Errorf("build the programs: %w\n%s", err, out)
	}
	return waiting.Run(m, 4), nil // tests of memory and of distances are not parallel
}

// drivesPrograms is called first by tests that only drive the programs. The race detector does not look into these, as they are built without it: its run
// would do the same as the plain one a second time.
func drivesPrograms(t *testing.T) {
	t.Helper()
	if underRace {
		t.Skip("it runs without the race detector, which would see nothing of the programs")
	}
}

// process is a running program with the lines that it has written to standard error.
type process struct {
	t    *testing.T
	name string
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended
	out  bytes.Buffer  // standard output; read after done

	mu    sync.Mutex
	lines []string
}

func start(t *testing.T, program string, args ...string) *process {
	t.Helper()
	if runtime.GOOS == "windows" {
		program += ".exe"
	}
	return launch(t, program, exec.Command(filepath.Join(bin, program), args...))
}

// launch runs a command, which may be one that runs the program elsewhere.
func launch(t *testing.T, program string, cmd *exec.Cmd) *process {
	t.Helper()
	p := &process{t: t, name: program, cmd: cmd, done: make(chan struct{})}
	home := t.TempDir() // an empty configuration
	p.cmd.Env = append(cmd.Environ(), "HOME="+home, "XDG_CONFIG_HOME="+home, "XDG_STATE_HOME="+home)
	p.cmd.Stdout = &p.out
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	p.cmd.Stderr = w
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	w.Close()
	read := make(chan struct{})
	go func() {
		defer close(read)
		defer r.Close()
		for s := bufio.NewScanner(r); s.Scan(); {
			p.mu.Lock()
			p.lines = append(p.lines, s.Text())
			p.mu.Unlock()
		}
	}()
	go func() {
		p.cmd.Wait() // tests that want to know how it ended look at ProcessState
		select {     // its last words are read first; but a program that it has started may live on, and holds the pipe
		case <-read:
		case <-time.After(5 * time.Second):
		}
		close(p.done)
	}()
	t.Cleanup(func() {
		p.cmd.Process.Kill()
		<-p.done
	})
	return p
}

func (p *process) said() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.Join(p.lines, "\n")
}

// dump ends the process, and returns what it has said and what its goroutines were doing.
func (p *process) dump() string {
	select {
	case <-p.done:
		return p.said() + "\nIt has ended: " + p.cmd.ProcessState.String()
	default:
	}
	if p.cmd.Process.Signal(syscall.SIGQUIT) != nil { // as on Windows
		return p.said()
	}
	select {
	case <-p.done:
	case <-time.After(patience):
	}
	return p.said()
}

// word waits for a line with a mark and returns the word after the mark.
func (p *process) word(mark string) string {
	p.t.Helper()
	var found string
	p.until("says "+mark, func() bool {
		for _, l := range strings.Split(p.said(), "\n") {
			if _, rest, ok := strings.Cut(l, mark); ok {
				if f := strings.Fields(rest); len(f) > 0 {
					found = f[0]
					return true
				}
			}
		}
		return false
	})
	return found
}

const patience = 3 * time.Minute // for steps that take seconds on a quiet machine

// until polls for an effect of the process.
func (p *process) until(what string, is func() bool) {
	p.t.Helper()
	p.within(patience, what, is)
}

// within is like until for effects that may take long, such as the next handing-out of a task that a peer took and
// lost: it comes after the task's latest start.
func (p *process) within(long time.Duration, what string, is func() bool) {
	p.t.Helper()
	for end := time.Now().Add(long); ; {
		began := time.Now()
		if is() {
			return
		}
		time.Sleep(min(max(20*time.Millisecond, 2*time.Since(began)), time.Second)) // a look may start a program; most of the machine is for those that are looked at
		select {
		case <-p.done:
			p.t.Fatalf("%s ended before it %s:\n%s\n%s", p.name, what, p.said(), p.out.String())
		default:
		}
		if time.Now().After(end) {
			p.t.Fatalf("%s never %s:\n%s", p.name, what, p.said())
		}
	}
}

// kill sends SIGKILL: no defer, no flush.
func (p *process) kill() {
	p.cmd.Process.Kill()
	<-p.done
}

// endsWithin is how long each program may stand still before it ends. README.md promises it of `shoal up`; a peer gives up handing over after 10 s.
var endsWithin = map[string]time.Duration{"shoal": 5 * time.Second, "shoal-peer": 12 * time.Second}

// end asks the process to stop and expects success, in time: what other processes take of the machine does not count.
func (p *process) end() {
	p.t.Helper()
	w := standstill.Of(p.cmd.Process.Pid)
	if err := p.cmd.Process.Signal(os.Interrupt); err != nil {
		p.t.Fatal(err)
	}
	for ended := false; !ended; {
		select {
		case <-p.done:
			ended = true
		case <-time.After(20 * time.Millisecond):
			if d := w.For(); d > endsWithin[p.name] {
				p.t.Fatalf("%s has not ended, and has stood still for %v since it was asked to:\n%s", p.name, d, p.said())
			}
		}
	}
	if code := p.cmd.ProcessState.ExitCode(); code != 0 {
		p.t.Errorf("%s ended with status %d:\n%s", p.name, code, p.said())
	}
}

// page is the operator's page of a running manager.
type page struct {
	t           *testing.T
	base, token string
	client      *http.Client
}

// pageOf finds the page by the address that the process printed: http://HOST/?token=TOKEN.
func pageOf(p *process, mark string) page {
	p.t.Helper()
	base, token, ok := strings.Cut(p.word(mark), "/?token=")
	if !ok {
		p.t.Fatalf("no address of the page: %s", p.said())
	}
	return page{p.t, base, token, http.DefaultClient}
}

func (g page) get(path string, v any) error {
	b, err := g.read(path)
	if err != nil {
		return err
	}
	return json.Unmarshal(b, v)
}

// read returns the body of a page.
func (g page) read(path string) ([]byte, error) {
	_, b, err := g.answer(path)
	return b, err
}

// captured is what the archive shows of a URL: with which status the page was served, and its body. The query may name a time.
func (g page) captured(query url.Values) (status int, body []byte, err error) {
	head, body, err := g.answer("/api/v1/archive/page?" + query.Encode())
	if err == nil {
		status, err = strconv.Atoi(head.Get("Shoal-Status"))
	}
	return status, body, err
}

// answer asks for a path, and returns what came with it.
func (g page) answer(path string) (http.Header, []byte, error) {
	ctx, cancel := context.WithTimeout(g.t.Context(), time.Minute)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, g.base+path, nil)
	if err != nil {
		return nil, nil, err
	}
	req.Header.Set("Authorization", "Bearer "+g.token)
	res, err := g.client.Do(req)
	if err != nil {
		return nil, nil, err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusOK {
		return nil, nil, fmt.Errorf("%s: %s %w", path, res.Status, err)
	}
	return res.Header, b, nil
}

func (g page) overview() (o desk.Overview) {
	if err := g.get("/api/v1/overview", &o); err != nil {
		return desk.Overview{}
	}
	return o
}

func (g page) rows() ([]desk.Row, error) {
	var list struct{ Channels []desk.Row }
	err := g.get("/api/v1/channels?n=1000", &list)
	return list.Channels, err
}

// captures returns the pages in a stopped archive's index for each host, with the time of their first capture.
func captures(t *testing.T, data string) map[string]map[string]time.Time {
	t.Helper()
	a, err := archive.Open(t.Context(), archive.Config{Dir: filepath.Join(data, "archive"),
		Verify: func(time.Time, channel.Signed) (channel.Header, error) {
			return channel.Header{}, errors.New("takes no tasks")
		}})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	v, err := a.Verify(t.Context(), nil)
	if err != nil || len(v.Problems) > 0 {
		t.Errorf("the archive has %d problems: %v %v", len(v.Problems), v.Problems, err)
	}
	var b bytes.Buffer
	if err := a.CDXJ(t.Context(), &b, pages.Index{}); err != nil {
		t.Fatal(err)
	}
	out := map[string]map[string]time.Time{}
	for _, l := range strings.Split(strings.TrimSpace(b.String()), "\n") {
		f := strings.SplitN(l, " ", 3)
		var line struct{ URL string }
		if len(f) < 3 || json.Unmarshal([]byte(f[2]), &line) != nil {
			t.Fatalf("a line of the index that cannot be read: %q", l)
		}
		at, err := time.Parse("20060102150405", f[1][:14])
		if err != nil {
			t.Fatal(err)
		}
		host := channel.Origin(line.URL)
		if out[host] == nil {
			out[host] = map[string]time.Time{}
		}
		if first, ok := out[host][line.URL]; !ok || at.Before(first) {
			out[host][line.URL] = at
		}
	}
	return out
}

// servePond serves a world until the test ends.
func servePond(t *testing.T, w *pond.World) *pond.Server {
	t.Helper()
	s, err := pond.NewServer(w, "", nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, drain := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- s.Run(ctx) }()
	t.Cleanup(func() {
		drain()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return s
}

// TestKill kills a network in the middle of its work and starts it again. Nothing acknowledged may be lost, and the
// work must go on.
func TestKill(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	args := []string{"up", "--peers", "3", "--hosts", "60", "--pages", "600", "--data", data, "--page", "127.0.0.1:0"}
	p := start(t, "shoal", args...)
	g := pageOf(p, "page ")
	p.until("has updates while tasks are out", func() bool { o := g.overview(); return o.Updates >= 8 && o.Out > 0 })
	rows, err := g.rows()
	if err != nil {
		t.Fatal(err)
	}
	seen := g.overview()
	killed := time.Now()
	p.kill()

	data = filepath.Join(data, "up-pond")
	again := start(t, "shoal", args...)
	g = pageOf(again, "page ")
	again.until("goes on with updates", func() bool { return g.overview().Updates >= seen.Updates+3 })
	after, err := g.rows()
	if err != nil {
		t.Fatal(err)
	}
	if len(after) != 60 || len(rows) != 60 {
		t.Errorf("%d channels before, %d after, want 60", len(rows), len(after))
	}
	visits := map[channel.ID]int{}
	for _, r := range after {
		visits[r.ID] = r.Visits
	}
	before, now := 0, 0
	for _, r := range rows {
		if before, now = before+r.Visits, now+visits[r.ID]; visits[r.ID] < r.Visits {
			t.Errorf("%s was updated %d times before it was killed, %d after", r.Host, r.Visits, visits[r.ID])
		}
	}
	if before < 8 || now <= before {
		t.Errorf("%d updates before, %d after", before, now)
	}
	if o := g.overview(); o.Archived < seen.Archived {
		t.Errorf("%d pages archived before it was killed, %d after", seen.Archived, o.Archived)
	}
	again.end()

	stored := captures(t, data)
	pages := 0
	for _, r := range rows {
		n := 0
		for _, at := range stored["http://"+strings.TrimPrefix(r.Host, "http://")] {
			if !at.After(killed) {
				n++
			}
		}
		if pages += n; r.Visits > 0 && n < r.Pages {
			t.Errorf("%s: the manager was told of %d pages before it was killed, the archive has %d of then", r.Host, r.Pages, n)
		}
	}
	if int64(pages) < seen.Archived {
		t.Errorf("%d pages were acknowledged before it was killed, the archive has %d of then", seen.Archived, pages)
	}
}

// TestProcesses runs a manager and four peers as separate processes, kills one peer in the middle of a task, and
// expects an update of every channel.
func TestProcesses(t *testing.T) {
	drivesPrograms(t)
	t.Parallel()
	w, err := pond.NewWorld(pond.Config{Seed: 3, Hosts: 16, Pages: 300, MaxHost: 30, Plain: true})
	if err != nil {
		t.Fatal(err)
	}
	s := servePond(t, w)
	addr := s.Addr().String()
	m := start(t, "shoal", "manager", "--data", t.TempDir(), "--listen", "/ip4/127.0.0.1/tcp/0", "--page", "127.0.0.1:0", "--pond", addr, "--lease", "8s")
	g := pageOf(m, "Page ")
	join := m.word("shoal-peer join ")

	type volunteer struct {
		dir string
		*process
	}
	var peers []volunteer
	for range 4 {
		dir := t.TempDir()
		j := start(t, "shoal-peer", "join", "--yes", join, "--data", dir)
		if <-j.done; j.cmd.ProcessState.ExitCode() != 0 {
			t.Fatalf("join: %s", j.said())
		}
		peers = append(peers, volunteer{dir, start(t, "shoal-peer", "run", "--data", dir, "--pond", addr, "--port", "0", "--listen", "127.0.0.1", "--no-quic",
			"--no-low-priority", "--log-level", "warn")})
	}
	victim := -1
	m.until("has a peer in the middle of a task", func() bool {
		for i, p := range peers {
			ask := start(t, "shoal-peer", "status", "--json", "--data", p.dir)
			<-ask.done
			// Tasks waiting in its queue are missed only after their latest start, which is the channel's interval
			// away.
			var st struct{ Running, Waiting []json.RawMessage }
			if json.Unmarshal(ask.out.Bytes(), &st) == nil && len(st.Running) > 0 && len(st.Waiting) == 0 {
				victim = i
				p.kill()
				return true
			}
		}
		return false
	})
	m.within(5*time.Minute, "updates every channel", func() bool {
		rows, err := g.rows()
		if err != nil || len(rows) != 16 {
			return false
		}
		for _, r := range rows {
			if r.Visits == 0 {
				return false
			}
		}
		return true
	})
	if st := s.Stats(); st.MaxInFlight != 1 {
		t.Errorf("at most %d requests in flight to one host, want 1: %v", st.MaxInFlight, st.Violations)
	}
	for i, p := range peers {
		if i != victim {
			p.end()
		}
	}
	m.end()
}

// volunteers has n peers join, and starts them.
func volunteers(t *testing.T, n int, join string, more ...string) (dirs []string, out []*process) {
	t.Helper()
	for range n {
		dir := t.TempDir()
		j := start(t, "shoal-peer", "join", "--yes", join, "--data", dir)
		if <-j.done; j.cmd.ProcessState.ExitCode() != 0 {
			t.Fatalf("join: %s", j.said())
		}
		dirs = append(dirs, dir)
		out = append(out, start(t, "shoal-peer", append([]string{"run", "--data", dir, "--port", "0", "--listen", "127.0.0.1"}, more...)...))
	}
	return dirs, out
}
