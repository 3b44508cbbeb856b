package pond

import (
	"bytes"
	"io"
	"net/http"
	"testing"
	"time"
)

// TestTrouble visits a pond from two regions: what makes honest visitors see different things must do so, and Showed must tell what was served.
func TestTrouble(t *testing.T) {
	t.Parallel()
	s, _ := serve(t, Config{Seed: 5, Hosts: 40, Pages: 400, MaxHost: 10, Plain: true, Start: time.Now().Add(-time.Hour), Trouble: Trouble{Dynamic: .3, Captchas: .2, Walls: .5, Stale: .5}})
	w := s.World()
	clients := map[int]*http.Client{}
	for i := range 6 {
		w.Settle(1000+i, i)
		tr := &http.Transport{DialContext: w.HTTPDialer(1000 + i)}
		t.Cleanup(tr.CloseIdleConnections)
		clients[1000+i] = &http.Client{Transport: tr}
	}
	get := func(port, host, page int) []byte {
		t.Helper()
		r, err := clients[port].Get(w.URL(host, page))
		if err != nil {
			t.Fatal(err)
		}
		defer r.Body.Close()
		b, err := io.ReadAll(r.Body)
		if err != nil || r.StatusCode != http.StatusOK {
			t.Fatal(r.Status, err)
		}
		if !s.Showed(host, page, b) {
			t.Errorf("the pond does not know that page %d of host %d was served", page, host)
		}
		return b
	}
	var captchas, walls, dynamic, same int
	for host := range 8 {
		for i := range 6 {
			page := 1 + i%3
			a, b := get(1000+i, host, page), get(1000+i, host, page)
			switch {
			case bytes.Contains(a, []byte("not available in your country")):
				walls++
			case bytes.Contains(a, []byte("no robot")):
				captchas++
			case w.Dynamic(host, page):
				if bytes.Equal(a, b) {
					t.Errorf("page %d of host %d is the same twice", page, host)
				}
				dynamic++
			default:
				same++
			}
		}
	}
	t.Logf("of 48 visits %d met captchas, %d walls, %d pages that differ", captchas, walls, dynamic)
	if captchas == 0 || walls == 0 || dynamic == 0 || same == 0 {
		t.Error("a kind of trouble is missing")
	}
	if s.Showed(0, 1, []byte("never")) {
		t.Error("what was never served was shown")
	}
	old, now := 0, time.Unix(1_000_019, 0)
	for host := range 40 {
		for name := range uint64(10) {
			switch at := w.copyOf(host, visitor{0, name}, now); {
			case at.After(now) || now.Sub(at) > StaleFor:
				t.Errorf("a copy of %v", now.Sub(at))
			case at.Before(now):
				old++
			}
		}
	}
	if old < 20 || old > 200 {
		t.Errorf("%d of 400 visitors see old copies, want about a sixth", old)
	}
	if _, err := NewWorld(Config{Trouble: Trouble{Walls: 2}}); err == nil {
		t.Error("twice as many walls as hosts")
	}
}
