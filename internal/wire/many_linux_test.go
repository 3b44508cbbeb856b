package wire

import (
	"context"
	"fmt"
	"net"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/p2p/transport/tcp"
	ma "github.com/multiformats/go-multiaddr"

	"shoal/internal/lab/netlab"
	"shoal/internal/member"
)

// office dials from one site of a lab, as a company's volunteers do through one router.
type office struct{ *netlab.Host }

func (o office) DialContext(ctx context.Context, network, addr string) (c net.Conn, err error) {
	err = o.Do(func() error {
		var d net.Dialer
		c, err = d.DialContext(ctx, network, addr)
		return err
	})
	return c, err
}

// A company's volunteers share one address, which loopback's exemption hides: in namespaces 200 of them join a manager with its default
// limits and quotas. SHOAL_MANY=1 makes it 200, else 40; make join says how long it takes.
func TestManyBehindOneAddress(t *testing.T) {
	members := 40
	if os.Getenv("SHOAL_MANY") == "1" {
		members = 200
	}
	lab := netlab.Open(t, "a company behind one address is")
	server, err := lab.Site("m", "11.0.1.1/24")
	if err != nil {
		t.Fatal(err)
	}
	client, err := lab.Site("o", "11.0.2.1/24")
	if err != nil {
		t.Fatal(err)
	}
	lab.Distance(server, client, 30*time.Millisecond, 0)
	w := &testNet{t: t, root: member.NewRoot(newKey())}
	if err := server.Do(func() error {
		w.manager, err = New(t.Context(), Config{Key: newKey(), Network: w.root.ID(), Role: member.Manager, Patience: time.Minute, Listen: []string{"/ip4/11.0.1.1/tcp/7785"}})
		return err
	}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.manager.Close() })
	w.rotate(member.Policy{}, 1)
	nodes := make([]*Node, members)
	for i := range nodes {
		nodes[i] = w.node(Config{Patience: time.Minute, Listen: []string{}, Dialer: func(ma.Multiaddr) (tcp.ContextDialer, error) { return office{client}, nil }})
	}
	began := time.Now()
	var wg sync.WaitGroup
	for i, n := range nodes {
		wg.Go(func() {
			if err := n.Join(t.Context(), w.joinString(), fmt.Sprint("account", i%7)); err != nil {
				t.Errorf("member %d: %v", i, err)
			}
		})
	}
	wg.Wait()
	t.Logf("%d members behind one address joined in %v", members, time.Since(began).Round(10*time.Millisecond))
	eventually(t, "all are connected", func() bool { k, _ := w.manager.gate.Count(); return k == members })
}
