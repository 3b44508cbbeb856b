//go:build unix

package crawl

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"shoal/channel"
	"shoal/internal/lab/pond"
	"shoal/peer/limit"
)

// The benchmark beside wget -r and colly: `make bench-crawl`. Pond, crawl and rivals are processes of their own, so that each one's
// processor time is its own; the crawl's includes robots, filters, fingerprints, compression and the upload to this process.
const (
	rivalPages = 5000
	rivalHost  = "site-0000.pond.test"
)

func TestMain(m *testing.M) {
	switch os.Getenv("SHOAL_BENCH_ROLE") {
	case "pond":
		benchPond()
	case "crawl":
		benchCrawl()
	default:
		os.Exit(m.Run())
	}
}

func fail(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// benchPond serves the pond's pages from memory, so that what is compared is crawlers.
func benchPond() {
	w, err := pond.NewWorld(pond.Config{Seed: 1, Hosts: 1, Pages: rivalPages, MaxHost: rivalPages, Links: 20, Bytes: 8000, Static: true, Plain: true})
	fail(err)
	pages := make(map[string][]byte, rivalPages)
	for p := range rivalPages {
		pages[w.Path(0, p)] = w.AppendPage(nil, 0, p, pond.Version{})
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	fail(err)
	fmt.Println(l.Addr())
	go func() { io.Copy(io.Discard, os.Stdin); l.Close() }() // until the parent has ended
	http.Serve(l, http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		b, ok := pages[r.URL.RequestURI()]
		if !ok {
			http.NotFound(rw, r)
			return
		}
		rw.Header().Set("Content-Type", "text/html; charset=utf-8")
		rw.Header().Set("Content-Length", strconv.Itoa(len(b)))
		rw.Write(b)
	}))
}

// upload sends chunks as an agent does, less the frames of libp2p.
type upload struct {
	c    net.Conn
	head [32]byte
	seq  uint64
}

func (u *upload) Put(_ context.Context, raw []byte, _ bool) error {
	body, err := channel.CompressBody(raw)
	if err != nil {
		return err
	}
	u.seq++
	c := channel.Chunk{Channel: 1, Gen: 1, Seq: u.seq, Prev: u.head, Body: body}
	u.head = c.Hash()
	_, err = u.c.Write(c.Marshal())
	return err
}

func benchCrawl() {
	to, err := limit.ToPond(netip.MustParseAddrPort(os.Getenv("SHOAL_BENCH_POND")))
	fail(err)
	c, err := net.Dial("tcp", os.Getenv("SHOAL_BENCH_UPLOAD"))
	fail(err)
	dir, err := os.MkdirTemp("", "shoal-bench")
	fail(err)
	defer os.RemoveAll(dir)
	origin := "http://" + rivalHost
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	r, err := Run(context.Background(), Config{
		Header: channel.Header{Channel: 1, Gen: 1, Host: origin, Pages: rivalPages},
		Body:   channel.Body{Scope: channel.Scope{Kind: channel.WholeHost, Host: origin}, Seeds: []string{origin + "/"}},
		Dial:   (&limit.Guard{Pond: to}).DialContext, Sink: &upload{c: c}, Spool: dir, UserAgent: "Shoal/bench (+http://contact.test/)", Unpaced: true,
	})
	fail(err)
	runtime.ReadMemStats(&after)
	json.NewEncoder(os.Stdout).Encode(map[string]any{"pages": r.Pages, "allocs": (after.Mallocs - before.Mallocs) / uint64(max(r.Pages, 1)),
		"alloc_bytes": (after.TotalAlloc - before.TotalAlloc) / uint64(max(r.Pages, 1))})
}

// lap is one crawl by one crawler.
type lap struct {
	pages     int
	wall, cpu time.Duration
	peakKiB   int64
	allocs    string
}

func clocked(t *testing.T, cmd *exec.Cmd) (lap, string) {
	t.Helper()
	var errs strings.Builder
	cmd.Stderr = &errs
	start := time.Now()
	out, err := cmd.Output()
	l := lap{wall: time.Since(start), cpu: cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()}
	if u, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage); ok {
		l.peakKiB = int64(u.Maxrss)
	}
	if err != nil && cmd.ProcessState.ExitCode() != 8 { // 8: wget met a 404, as robots.txt is
		t.Fatalf("%s: %v\n%s", cmd.Path, err, errs.String())
	}
	return l, string(out)
}

func TestBenchRivals(t *testing.T) {
	laps, _ := strconv.Atoi(os.Getenv("SHOAL_BENCH_CRAWL"))
	if laps < 1 {
		t.Skip("SHOAL_BENCH_CRAWL is not set to a number of laps: see `make bench-crawl`")
	}
	addr := startPond(t)
	crawlers := rivals(t, addr, startSink(t))
	results := make([][]lap, len(crawlers))
	for range laps { // in turns, so that a slow moment of the machine strikes all
		for i, c := range crawlers {
			results[i] = append(results[i], c.run())
		}
	}
	fmt.Printf("%-8s %6s %12s %14s %14s %9s   median of %d, %s/%s, %d processors\n", "", "pages", "pages/s", "pages/CPU s", "CPU us/page", "peak MB", laps,
		runtime.GOOS, runtime.GOARCH, runtime.NumCPU())
	var rates, perCPU []float64
	for i, c := range crawlers {
		rate := median(results[i], func(l lap) float64 { return float64(l.pages) / l.wall.Seconds() })
		cpu := median(results[i], func(l lap) float64 { return float64(l.pages) / l.cpu.Seconds() })
		peak := median(results[i], func(l lap) float64 { return float64(l.peakKiB) / 1024 })
		rates, perCPU = append(rates, rate), append(perCPU, cpu)
		fmt.Printf("%-8s %6d %12.0f %14.0f %14.0f %9.1f   %s\n", c.name, results[i][0].pages, rate, cpu, 1e6/cpu, peak, results[i][0].allocs)
		for _, l := range results[i] {
			if i == 0 && l.pages != rivalPages {
				t.Errorf("%d pages of %d found", l.pages, rivalPages)
			}
		}
	}
	for i := 1; i < len(crawlers); i++ {
		fmt.Printf("beside %s: %.2f times its pages a second, %.2f times its pages a processor second\n", crawlers[i].name, rates[0]/rates[i], perCPU[0]/perCPU[i])
	}
}

// startPond starts the pond's process and gives its address.
func startPond(t *testing.T) string {
	t.Helper()
	server := exec.Command(os.Args[0])
	server.Env = append(os.Environ(), "SHOAL_BENCH_ROLE=pond")
	stdin, err := server.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := server.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stdin.Close(); server.Wait() })
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(line)
}

// startSink takes uploads and forgets them. It gives its address.
func startSink(t *testing.T) string {
	t.Helper()
	sink, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { sink.Close() })
	go func() {
		for {
			c, err := sink.Accept()
			if err != nil {
				return
			}
			go io.Copy(io.Discard, c)
		}
	}()
	return sink.Addr().String()
}

// rival is a crawler in the comparison.
type rival struct {
	name string
	run  func() lap
}

// rivals are ours and those that can be had on this machine.
func rivals(t *testing.T, addr, upload string) []rival {
	crawlers := []rival{{"shoal", func() lap {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), "SHOAL_BENCH_ROLE=crawl", "SHOAL_BENCH_POND="+addr, "SHOAL_BENCH_UPLOAD="+upload)
		l, out := clocked(t, cmd)
		var r struct {
			Pages, Allocs int
			Bytes         int `json:"alloc_bytes"`
		}
		if err := json.Unmarshal([]byte(out), &r); err != nil {
			t.Fatal(err)
		}
		l.pages, l.allocs = r.Pages, fmt.Sprintf("%d allocations of %d bytes a page", r.Allocs, r.Bytes)
		return l
	}}}
	if wget, err := exec.LookPath("wget"); err != nil {
		t.Log("wget is not installed")
	} else {
		crawlers = append(crawlers, rival{"wget -r", func() lap {
			dir, err := os.MkdirTemp("/dev/shm", "shoal-wget")
			if err != nil {
				t.Fatal(err)
			}
			defer os.RemoveAll(dir)
			l, _ := clocked(t, exec.Command(wget, "-q", "-r", "-l", "inf", "-nH", "-P", dir, "--header", "Host: "+rivalHost, "http://"+addr+"/"))
			filepath.WalkDir(dir, func(_ string, d os.DirEntry, err error) error {
				if err == nil && d.Type().IsRegular() && !strings.HasPrefix(d.Name(), "robots.txt") {
					l.pages++
				}
				return nil
			})
			return l
		}})
	}
	if colly := buildColly(t); colly != "" {
		crawlers = append(crawlers, rival{"colly", func() lap {
			l, out := clocked(t, exec.Command(colly, addr, rivalHost))
			l.pages, _ = strconv.Atoi(strings.TrimSpace(out))
			return l
		}})
	}
	return crawlers
}

func median(laps []lap, f func(lap) float64) float64 {
	var v []float64
	for _, l := range laps {
		v = append(v, f(l))
	}
	slices.Sort(v)
	return v[len(v)/2]
}

// buildColly compiles the colly crawler, a module of its own so that ours does not depend on it; "" where that cannot be had.
func buildColly(t *testing.T) string {
	src, err := os.ReadFile("testdata/colly/main.go.txt")
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(os.TempDir(), fmt.Sprintf("shoal-colly-%x", sha256.Sum256(src))[:24])
	bin := filepath.Join(dir, "colly")
	if _, err := os.Stat(bin); err == nil {
		return bin
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"main.go": string(src), "go.mod": "module rival\n\ngo 1.26.0\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, args := range [][]string{{"get", "github.com/gocolly/colly/v2@v2.2.0"}, {"build", "-o", bin, "."}} {
		cmd := exec.Command("go", args...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Logf("colly cannot be had: go %v: %v\n%s", args, err, out)
			return ""
		}
	}
	return bin
}
