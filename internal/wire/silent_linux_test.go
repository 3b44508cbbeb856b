package wire

import (
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/p2p/transport/tcp"
	ma "github.com/multiformats/go-multiaddr"

	"shoal/internal/lab/netlab"
	"shoal/internal/member"
	"shoal/internal/wire/homing"
)

// TestSilentHomeIsLeft pulls the cable of the manager that a peer is connected to: no packet says that it has gone, and the peer goes to the other manager
// long before the multiplexer's keep-alive would tell, since the system watches the connection. So it is with a server beside the one at home that is watched.
func TestSilentHomeIsLeft(t *testing.T) {
	t.Parallel()
	lab := netlab.Open(t, "a manager whose cable is pulled is")
	w := &testNet{t: t, root: member.NewRoot(newKey())}
	var sites []*netlab.Host
	var managers []*Node
	for i, at := range []string{"11.0.1.1", "11.0.2.1"} {
		site, err := lab.Site([]string{"m", "n"}[i], at+"/24")
		if err != nil {
			t.Fatal(err)
		}
		if err := site.Do(func() error {
			n, err := New(t.Context(), Config{Key: newKey(), Network: w.root.ID(), Role: member.Manager, Listen: []string{"/ip4/" + at + "/tcp/7785"}})
			managers = append(managers, n)
			return err
		}); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { managers[i].Close() })
		sites = append(sites, site)
	}
	client, err := lab.Site("o", "11.0.3.1/24")
	if err != nil {
		t.Fatal(err)
	}
	w.manager = managers[0]
	w.rotate(member.Policy{}, 1)
	d := member.Document{Name: "test", MinSerial: 1, Delegations: [][]byte{w.auth.Sealed()}, Issued: time.Now().Add(time.Second), NotAfter: time.Now().Add(time.Hour)}
	for i, m := range managers {
		d.Managers = append(d.Managers, member.Server{Peer: m.ID().String(), Addrs: []string{[]string{"/ip4/11.0.1.1/tcp/7785", "/ip4/11.0.2.1/tcp/7785"}[i]}})
	}
	doc, err := w.auth.SignDocument(d)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range managers {
		if err := m.SetIssuer(w.issuer, doc); err != nil {
			t.Fatal(err)
		}
	}
	p := w.node(Config{Listen: []string{}, Dialer: func(ma.Multiaddr) (tcp.ContextDialer, error) { return office{client}, nil }})
	if err := p.Join(t.Context(), w.joinString(), "volunteer"); err != nil {
		t.Fatal(err)
	}
	run(t, p)
	var home string
	eventually(t, "at home", func() bool {
		h, _ := p.Home()
		home = h.At
		return home != "" && time.Since(h.Since) > homing.Settle+time.Second
	})
	cut, far, other := sites[0], sites[1], managers[1]
	if home == managers[1].ID().String() {
		cut, far, other = sites[1], sites[0], managers[0]
	}
	if err := p.Connect(t.Context(), other.ID()); err != nil {
		t.Fatal(err)
	}
	p.Watch(other.ID())
	lab.Cut(far, true)
	for began := time.Now(); p.Direct(other.ID()); time.Sleep(100 * time.Millisecond) {
		if time.Since(began) > 55*time.Second {
			t.Fatal("the connection to another manager stays, whose cable is pulled")
		}
	}
	lab.Cut(far, false)
	moves := func(why string, dies func()) {
		began, from := time.Now(), home
		dies()
		var lost, back time.Duration
		for back == 0 {
			if time.Since(began) > 55*time.Second { // the multiplexer takes 70 s
				t.Fatalf("%s: the peer stays with its manager", why)
			}
			h, changed := p.Home()
			switch {
			case h.At == "" && lost == 0:
				lost = time.Since(began)
			case h.At != "" && h.At != from:
				back, home = time.Since(began), h.At
				continue
			}
			select {
			case <-changed:
			case <-time.After(time.Second):
			}
		}
		t.Logf("%s: noticed after %v, at the other manager after %v", why, lost.Round(100*time.Millisecond), back.Round(100*time.Millisecond))
	}
	moves("its manager falls silent", func() { lab.Cut(cut, true) })
	lab.Cut(cut, false)
	moves("its manager ends", func() {
		for _, m := range managers {
			if m.ID().String() == home {
				m.Close()
			}
		}
	})
}
