package e2e

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"shoal/internal/lab/netlab"
	"shoal/internal/wire"
	"shoal/internal/wire/homing"
)

// TestOutageOfHomes kills the manager of two homes behind routers, which are met at the manager alone, and starts it again. Both come home
// and can be met there as before, also the one whose router shows every partner another port.
func TestOutageOfHomes(t *testing.T) {
	drivesPrograms(t)
	t.Parallel()
	n := netlab.Open(t, "the return of homes behind routers is")
	l := &lab{t: t, net: n, threads: 1}
	boss := l.site("m", "11.0.9.1/24")
	var places []*place
	for _, home := range []struct {
		name, site, prefix string
		how                netlab.Translation
	}{{"a", "11.0.1.1/24", "192.168.1.2/24", netlab.SamePort}, {"b", "11.0.2.1/24", "192.168.2.2/24", netlab.OtherPort}} {
		router := l.site(home.name, home.site)
		h, err := n.Home(router, home.name+"1", home.prefix, home.how)
		if err != nil {
			t.Fatal(err)
		}
		n.Distance(router, boss, 20*time.Millisecond, 0)
		places = append(places, &place{name: home.name, where: router, peers: []*netlab.Host{h}})
	}
	l.start(boss, nil)
	args := slices.Clone(l.mgr.cmd.Args)
	dirs := l.join(places)
	look := func(p *place) (r wire.Reach, h wire.Home) {
		ask := l.in(p.peers[0], "shoal-peer", "status", "--json", "--data", l.dirs[p.peers[0]])
		<-ask.done
		var st struct {
			Reach wire.Reach
			Home  wire.Home
		}
		_ = json.Unmarshal(bytes.TrimSpace(ask.out.Bytes()), &st) // it is asked again
		return st.Reach, st.Home
	}
	met := func() {
		t.Helper()
		l.mgr.until("knows all peers", func() bool { return l.page.overview().Peers == len(dirs) })
		for _, p := range places {
			l.mgr.within(3*time.Minute, "is home to "+p.name+", which can be met there", func() bool {
				r, h := look(p)
				return h.At != "" && len(r.Relays) == 1
			})
		}
	}
	met()
	l.mgr.kill()
	tries := map[*place]int{}
	for _, p := range places {
		var h wire.Home
		l.runs[p.peers[0]].until("looks for its manager", func() bool { _, h = look(p); return h.Away() })
		tries[p] = h.Tries
	}
	returned := time.Now()
	l.mgr = l.in(boss, "shoal", args[slices.Index(args, "manager"):]...)
	l.page = pageOf(l.mgr, "Page ")
	l.page.client = l.client
	met()
	for _, p := range places {
		if _, h := look(p); h.Tries > tries[p]+3+int(time.Since(returned)/(homing.Default().Again*3/5)) { // a slow manager is tried again
			t.Errorf("%s had failed %d times before the return; now %+v", p.name, tries[p], h)
		}
	}
	pulledCable(l, places[0].peers[0])
}

// pulledCable takes a home's cable out. Its page, which only looks and does not ask as status does, says so while the connection to the manager stands still, which
// ends by itself after a minute at least.
func pulledCable(l *lab, h *netlab.Host) {
	l.t.Helper()
	run, now := l.runs[h], ""
	data := l.dirs[h]
	if out, err := h.Command("ip", "link", "set", "eth0", "down").CombinedOutput(); err != nil {
		l.t.Fatalf("%v: %s", err, out)
	}
	lost := strings.Count(run.said(), "server is lost")
	asked := 0
	client := &http.Client{Transport: &http.Transport{DialContext: h.DialContext, DisableKeepAlives: true}, Timeout: time.Minute}
	run.until("says on its page that the cable is out", func() bool {
		var at struct{ Addr, Token string }
		b, err := os.ReadFile(filepath.Join(data, "control.json"))
		if err != nil || json.Unmarshal(b, &at) != nil {
			return false
		}
		req, err := http.NewRequestWithContext(l.t.Context(), http.MethodGet, "http://"+at.Addr+"/v1/now", nil)
		if err != nil {
			return false
		}
		req.Header.Set("Authorization", "Bearer "+at.Token)
		resp, err := client.Do(req)
		if err != nil {
			return false
		}
		out, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		asked++
		now = string(out)
		return err == nil && strings.Contains(now, "connected to no network")
	})
	if strings.Count(run.said(), "server is lost") > lost && asked > 5 {
		l.t.Errorf("the page said that the cable is out when the connection had ended, after %d questions: %.300s", asked, now)
	}
}
