package limit

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestLearnNAT64(t *testing.T) {
	for _, c := range []struct{ answer, want string }{
		{"64:ff9b::c000:aa", "64:ff9b::/96"},
		{"2a00:9999::c000:ab", "2a00:9999::/96"},
		{"2a00:9998:0:0:c0:0:aa00:0", "2a00:9998::/64"},
		{"2a00:9997:1:c000:0:aa00::", "2a00:9997:1::/48"},
		{"192.0.0.170", ""},
	} {
		h := house()
		if err := h.LearnNAT64(func(string) ([]netip.Addr, error) { return []netip.Addr{netip.MustParseAddr(c.answer)}, nil }); err != nil {
			t.Fatal(err)
		}
		got := fmt.Sprint(h.nat64)
		if want := "[" + c.want + "]"; got != want {
			t.Errorf("%s teaches %s, want %s", c.answer, got, want)
		}
	}
}

// A computer that moves learns its new network's prefix, and forgets the old one only when the new network's name servers have answered.
func TestNAT64IsLearntAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		at, answer, fail := "2a00:1450:1:a5::20/64", "2a00:9999::c000:aa", error(nil)
		asked, told := 0, 0
		var mu sync.Mutex // guards all above: time that passes orders nothing for the race detector
		locked := func(do func()) {
			mu.Lock()
			defer mu.Unlock()
			do()
		}
		h := &Home{routes: func() ([]route, error) { return nil, nil }, Interfaces: func() ([]net.Addr, error) {
			mu.Lock()
			defer mu.Unlock()
			ip, n, err := net.ParseCIDR(at)
			return []net.Addr{&net.IPNet{IP: ip, Mask: n.Mask}}, err
		}}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go h.WatchNAT64(ctx, func(context.Context, string) ([]netip.Addr, error) {
			mu.Lock()
			defer mu.Unlock()
			asked++
			if fail != nil {
				return nil, fail
			}
			return []netip.Addr{netip.MustParseAddr(answer)}, nil
		}, nil, func(error) { locked(func() { told++ }) })
		count := func(of *int) int {
			mu.Lock()
			defer mu.Unlock()
			return *of
		}
		translated := func() []netip.Prefix {
			h.mu.Lock()
			defer h.mu.Unlock()
			return slices.Clone(h.nat64)
		}
		home := func(addr, when string) {
			t.Helper()
			if err := h.check(netip.MustParseAddr(addr)); !errors.Is(err, ErrForbidden) {
				t.Errorf("%s: %s is not refused: %v", when, addr, err)
			}
		}
		synctest.Wait()
		home("2a00:9999::c0a8:701", "at first")
		time.Sleep(time.Hour)
		synctest.Wait()
		if n := count(&asked); n != 1 {
			t.Errorf("asked %d times in an hour without a change", n)
		}
		locked(func() { at, fail = "2a01:7:1:a5::20/64", errors.New("not yet") })
		time.Sleep(nat64Looks)
		synctest.Wait()
		if count(&told) == 0 {
			t.Error("a question without an answer is not told of")
		}
		home("2a00:9999::c0a8:701", "before the new network's answer")
		locked(func() { answer, fail = "2a01:8888::c000:aa", nil })
		time.Sleep(nat64Again + nat64Looks)
		synctest.Wait()
		home("2a01:8888::c0a8:701", "after it")
		if got := fmt.Sprint(translated()); got != "[2a01:8888::/96]" {
			t.Errorf("after a move: %s", got)
		}
		locked(func() { at, fail = "192.168.9.7/24", &net.DNSError{Err: "no such host", IsNotFound: true} })
		time.Sleep(nat64Looks)
		synctest.Wait()
		if got := translated(); len(got) != 0 {
			t.Errorf("in a network that translates nothing: %v", got)
		}
		before := count(&asked)
		time.Sleep(nat64Anyway + nat64Looks)
		synctest.Wait()
		if count(&asked) == before {
			t.Error("not asked again, though the network may have changed its prefix")
		}
	})
}
