package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// wires are the peers' ways to other members. Each peer's process has a group of its own, by which packets are known.
type wires struct {
	t     *testing.T
	free  []string // ports of the Web's, which are never cut
	rules map[int]string
	marks map[string]int // of packets that are late, by how much
}

// firstGroup is the group of the first peer.
const firstGroup = 41_000

func newWires(t *testing.T, web string, delays []string) *wires {
	w := &wires{t: t, free: []string{web, "80"}, rules: map[int]string{}, marks: map[string]int{}}
	// Packets of this machine to itself go by rules of which the first is for marked ones, and not by the table of local addresses at once.
	w.ip("rule", "add", "pref", "100", "lookup", "local")
	w.ip("rule", "del", "pref", "0")
	for i, text := range delays {
		d, err := time.ParseDuration(text)
		if err != nil {
			t.Fatal(err)
		}
		w.marks[text] = i + 1
		w.late(fmt.Sprint("late", i+1), fmt.Sprint(i+1), d)
	}
	return w
}

func (w *wires) ip(args ...string) {
	w.t.Helper()
	if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
		w.t.Fatalf("ip %v: %v: %s", args, err, out)
	}
}

// late makes a device from which marked packets come back after d. It stands in for netem, which many kernels lack.
func (w *wires) late(dev, mark string, d time.Duration) {
	w.t.Helper()
	w.ip("tuntap", "add", "dev", dev, "mode", "tun")
	for _, setting := range []string{"route_localnet", "accept_local"} { // packets of 127.0.0.1 come from it
		if err := os.WriteFile(fmt.Sprintf("/proc/sys/net/ipv4/conf/%s/%s", dev, setting), []byte("1"), 0); err != nil {
			w.t.Fatal(err)
		}
	}
	w.ip("link", "set", dev, "mtu", "65535", "up")
	w.ip("route", "add", "default", "dev", dev, "table", mark)
	w.ip("rule", "add", "pref", mark, "fwmark", mark, "lookup", mark)
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		w.t.Fatal(err)
	}
	r, err := unix.NewIfreq(dev)
	if err == nil {
		r.SetUint16(unix.IFF_TUN | unix.IFF_NO_PI)
		err = unix.IoctlIfreq(fd, unix.TUNSETIFF, r)
	}
	if err != nil {
		w.t.Fatal(err)
	}
	f := os.NewFile(uintptr(fd), dev)
	w.t.Cleanup(func() { f.Close() })
	go carry(f, d)
}

// maxLate bounds the packets on their way. Further packets are lost, as on any link.
const maxLate = 4096

// carry writes back what it reads, d later, until the device is closed.
func carry(f *os.File, d time.Duration) {
	type packet struct {
		due time.Time
		b   []byte
	}
	under := make(chan packet, maxLate)
	defer close(under)
	go func() {
		for p := range under {
			time.Sleep(time.Until(p.due))
			_, _ = f.Write(p.b) // what is not taken is lost
		}
	}()
	for b := make([]byte, 1<<16); ; {
		n, err := f.Read(b)
		if err != nil {
			return
		}
		select {
		case under <- packet{time.Now().Add(d), append([]byte(nil), b[:n]...)}:
		default:
		}
	}
}

// cut drops what a peer sends; lossy drops a third of it; delay has it come later; mend ends all of this.
func (w *wires) cut(peer int)   { w.set(peer, "out %s drop") }
func (w *wires) lossy(peer int) { w.set(peer, "out %s numgen random mod 3 == 0 drop") }
func (w *wires) mend(peer int)  { w.set(peer, "") }
func (w *wires) delay(peer int, by string) {
	mark, ok := w.marks[by]
	if !ok {
		w.t.Fatalf("a delay of %s: there are %v", by, w.marks)
	}
	w.set(peer, "way %s meta mark set "+strconv.Itoa(mark))
}

func (w *wires) set(peer int, rule string) {
	w.t.Helper()
	if w.rules[peer] = rule; rule == "" {
		delete(w.rules, peer)
	}
	text := "add table ip chaos\nadd chain ip chaos out { type filter hook output priority 0; }\nadd chain ip chaos way { type route hook output priority -150; }\n" +
		"flush chain ip chaos out\nflush chain ip chaos way\n"
	for p, r := range w.rules {
		text += "add rule ip chaos " + fmt.Sprintf(r, fmt.Sprintf("meta skgid %d tcp dport != { %s }", firstGroup+p, strings.Join(w.free, ", "))) + "\n"
	}
	w.nft(text)
}

func (w *wires) nft(text string) {
	w.t.Helper()
	cmd := exec.Command("nft", "-f", "-")
	cmd.Stdin = strings.NewReader(text)
	if out, err := cmd.CombinedOutput(); err != nil {
		w.t.Fatalf("nft: %v: %s", err, out)
	}
}
