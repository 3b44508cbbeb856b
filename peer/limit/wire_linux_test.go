package limit

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"shoal/internal/lab/netlab"
)

// TestMain runs a downloader instead of the tests if a test asks for it in another network.
func TestMain(m *testing.M) {
	addr := os.Getenv("SHOAL_TEST_DOWNLOAD")
	if addr == "" {
		os.Exit(m.Run())
	}
	kib, err := strconv.Atoi(os.Getenv("SHOAL_TEST_KIB"))
	if err != nil {
		panic(err)
	}
	s := DefaultSettings()
	s.DownKiBPerS = kib
	l, meter := New(s, "a test", nil), NewMeter(nil)
	meter.SetRates(kib, 0)
	g := &Guard{Wrap: meter.Wrap, Control: func(network, addr string, c syscall.RawConn) error {
		f := l.At(time.Now())
		return f.Socket(network, addr, c)
	}}
	for range 5 { // as many as channels that are crawled at once
		go func() {
			for {
				c, err := g.DialContext(context.Background(), "tcp", addr)
				if err != nil {
					panic(err)
				}
				io.Copy(io.Discard, c)
				c.Close()
			}
		}()
	}
	io.Copy(io.Discard, os.Stdin) // until the parent has ended
}

// TestRateOnTheWire measures a limit of 200 KiB/s where a router would: at the packets that the kernel counts on an
// interface, headers included. A process in a network of its own downloads over five connections. In no 10 s may it
// exceed the limit by more than 3%. The test lasts until what the limit allows in 12 s has come, however long a busy
// machine takes. SHOAL_WIRE_S makes it longer, and makes it also check for a shortfall, which TestMeter does in virtual
// time.
func TestRateOnTheWire(t *testing.T) {
	if testing.Short() {
		t.Skip("takes 12 seconds of real time")
	}
	lab := netlab.Open(t, "the limit on the wire is")
	server, err := lab.Site("s", "11.0.1.1/24")
	if err != nil {
		t.Fatal(err)
	}
	client, err := lab.Site("c", "11.0.2.1/24")
	if err != nil {
		t.Fatal(err)
	}
	lab.Distance(server, client, 20*time.Millisecond, 0)
	ln, err := server.Listen("tcp", "11.0.1.1:8080")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	go serve(ln)

	const kib, window = 200, 10 * time.Second
	last := 12 * time.Second
	long := os.Getenv("SHOAL_WIRE_S")
	if s, err := strconv.Atoi(long); err == nil {
		last = time.Duration(s) * time.Second
	}
	child := client.Command(os.Args[0])
	child.Env = append(os.Environ(), "SHOAL_TEST_DOWNLOAD=11.0.1.1:8080", fmt.Sprint("SHOAL_TEST_KIB=", kib))
	child.Stderr = os.Stderr
	in, err := child.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { in.Close(); child.Wait() })

	var all []count
	enough := int64(last.Seconds() * (kib << 10))
	for came := int64(0); came < enough; time.Sleep(250 * time.Millisecond) {
		before := time.Now()
		out, err := client.Command("cat", "/proc/net/dev").Output()
		if err != nil {
			t.Fatal(err)
		}
		c := count{before, time.Now(), received(t, string(out))}
		if c.bytes < 64<<10 {
			continue // it begins
		}
		all = append(all, c)
		came = c.bytes - all[0].bytes
	}
	least, most, windows := 9.0, 0.0, 0
	for i, a := range all {
		for _, b := range all[i:] {
			if b.before.Sub(a.after) < window {
				continue
			}
			// Uncertainty about the moment of counting, caused by the machine's delays, counts in the limit's favour.
			bytes := float64(b.bytes-a.bytes) / (kib << 10)
			most = max(most, bytes/b.after.Sub(a.before).Seconds())
			least = min(least, bytes/b.before.Sub(a.after).Seconds())
			windows++
			break
		}
	}
	if windows == 0 {
		t.Fatalf("no window of %v in %d counts", window, len(all))
	}
	t.Logf("%d windows of 10 s: %.4f to %.4f of the limit of %d KiB/s", windows, least, most, kib)
	if most > 1.03 {
		t.Errorf("%.4f of the limit", most)
	}
	if least < .97 && long != "" {
		t.Errorf("only %.4f of the limit", least)
	}
}

// TestMarkOnTheWire checks both ends of a TCP connection where a router would: each packet is marked, over IPv4 and
// IPv6, also the first answer of the side that was dialled.
func TestMarkOnTheWire(t *testing.T) {
	lab := netlab.Open(t, "marks on the wire are")
	site := func(name string, k int) *netlab.Host {
		h, err := lab.Site(name, fmt.Sprintf("11.0.%d.1/24", k))
		if err == nil {
			err = h.Also(fmt.Sprintf("2600:%d::1/64", k))
		}
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	a, b := site("a", 1), site("b", 2)
	var seen [2][2]atomic.Int64 // IPv4 or IPv6; unmarked or marked
	lab.Tap(func(_ *netlab.Host, p []byte) {
		switch {
		case p[0]>>4 == 4 && p[9] == unix.IPPROTO_TCP:
			seen[0][b2i(p[1]>>2 == 1)].Add(1)
		case p[0]>>4 == 6 && p[6] == unix.IPPROTO_TCP:
			seen[1][b2i((p[0]<<4|p[1]>>4)>>2 == 1)].Add(1)
		}
	})
	for family, addr := range []string{"11.0.1.1:80", "[2600:1::1]:80"} {
		var l net.Listener
		lc := net.ListenConfig{Control: MarkLE}
		lc.SetMultipathTCP(false)
		if err := a.Do(func() (err error) { l, err = lc.Listen(t.Context(), "tcp", addr); return err }); err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		var c net.Conn
		if err := b.Do(func() (err error) {
			c, err = (&net.Dialer{Control: MarkLE}).DialContext(t.Context(), "tcp", addr)
			return err
		}); err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		s, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		for _, end := range [][2]net.Conn{{c, s}, {s, c}} {
			if _, err := end[0].Write(make([]byte, 10_000)); err != nil {
				t.Fatal(err)
			}
			if _, err := io.ReadFull(end[1], make([]byte, 10_000)); err != nil {
				t.Fatal(err)
			}
		}
		if bad, good := seen[family][0].Load(), seen[family][1].Load(); bad > 0 || good < 6 {
			t.Errorf("%s: %d packets are marked, %d are not", addr, good, bad)
		}
	}
}

// TestGivenUpIsNotSentLater writes a request while the way to the host is cut, gives it up, and has the way back: the host must not see it then. If what was not sent is not
// to be forgotten, the kernel sends it, which shows that the host would have seen it.
func TestGivenUpIsNotSentLater(t *testing.T) {
	lab := netlab.Open(t, "what becomes of a request that was given up is")
	host, err := lab.Site("h", "11.0.1.1/24")
	if err != nil {
		t.Fatal(err)
	}
	client, err := lab.Site("c", "11.0.2.1/24")
	if err != nil {
		t.Fatal(err)
	}
	ln, err := host.Listen("tcp", "11.0.1.1:80")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	meter := NewMeter(nil)
	ended := make(chan struct{}, 100) // the client has sent the end of a connection: all before that has met the cut
	lab.Tap(func(from *netlab.Host, p []byte) {
		const fin, rst = 1, 4
		if from == client && p[0] == 0x45 && p[9] == unix.IPPROTO_TCP && p[20+13]&(fin|rst) != 0 {
			select {
			case ended <- struct{}{}:
			default:
			}
		}
	})
	for _, forgets := range []bool{true, false} {
		dialled, err := client.DialContext(t.Context(), "tcp", "11.0.1.1:80")
		if err != nil {
			t.Fatal(err)
		}
		c := meter.Wrap(timed{dialled, 0})
		at, err := ln.Accept()
		if err != nil {
			t.Fatal(err)
		}
		defer at.Close()
		lab.Cut(client, true)
		if _, err := c.Write([]byte("GET / HTTP/1.1")); err != nil {
			t.Fatal(err)
		}
		if forgets {
			if err := c.(interface{ SetLinger(int) error }).SetLinger(0); err != nil {
				t.Fatal(err)
			}
		}
		c.Close()
		<-ended
		lab.Cut(client, false)
		within := 20 * time.Second // the kernel tries again sooner
		if forgets {
			within = 2 * time.Second
		}
		if err := at.SetReadDeadline(time.Now().Add(within)); err != nil {
			t.Fatal(err)
		}
		n, err := at.Read(make([]byte, 100))
		if sent := n > 0; sent == forgets {
			t.Errorf("the host has read %d bytes, %v; what was given up is to be forgotten: %v", n, err, forgets)
		}
	}
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

// count is what an interface had received at some time between two.
type count struct {
	before, after time.Time
	bytes         int64
}

func serve(ln net.Listener) {
	page := make([]byte, 64<<10)
	for {
		c, err := ln.Accept()
		if err != nil {
			return
		}
		go func() {
			defer c.Close()
			for range 32 { // then anew, as other hosts and other pages
				if _, err := c.Write(page); err != nil {
					return
				}
			}
		}()
	}
}

// received returns the sum of what all interfaces but the loopback one have received.
func received(t *testing.T, dev string) (n int64) {
	t.Helper()
	for line := range strings.Lines(dev) {
		name, rest, ok := strings.Cut(line, ":")
		if !ok || strings.TrimSpace(name) == "lo" {
			continue
		}
		v, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		n += v
	}
	return n
}
