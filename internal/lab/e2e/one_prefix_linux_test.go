package e2e

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"shoal/internal/lab/rogue"
	"shoal/manager/api"
	"shoal/manager/desk"
	"shoal/overlay/p2p/overlaypb"
)

// prefixEnv is how many identities TestOnePrefix has join; `make trust` sets it.
const prefixEnv = "SHOAL_ONE_PREFIX"

// prefixTasks is how many tasks newcomers must have ended before TestOnePrefix looks whose they were.
const prefixTasks = 8

// TestOnePrefix has many identities of one address prefix join a network that enforces what newcomers may have, each of which says that it is near every
// host: two of them get tasks, and all together the newcomers' share.
func TestOnePrefix(t *testing.T) {
	many, err := strconv.Atoi(os.Getenv(prefixEnv))
	if err != nil {
		t.Skipf("takes minutes: set %s to a number of identities, or run make trust", prefixEnv)
	}
	f := openFortress(t, siege{honest: 6, hosts: 100, gap: 50 * time.Millisecond})
	var members []desk.Peer
	if err := f.page.get("/api/v1/peers", &members); err != nil {
		t.Fatal(err)
	}
	for _, m := range members {
		if err := f.page.post("/api/v1/peers/vouch", api.OnePeer{Peer: m.ID}); err != nil {
			t.Fatal(err)
		}
	}
	f.shoal("trust", "set", "--enforce")
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	t.Cleanup(func() { cancel(); wg.Wait() })
	crew := f.crowd(ctx, &wg, many)
	f.manager.until("knows the crowd", func() bool { return f.page.overview().Peers >= 6+len(crew) })
	count := func() (with, updates int64) {
		for _, v := range crew {
			if n := v.Stats.Updates.Load(); n > 0 {
				with, updates = with+1, updates+n
			}
		}
		return with, updates
	}
	f.manager.until("newcomers have ended some tasks", func() bool { _, n := count(); return n >= prefixTasks })
	with, updates := count()
	var now desk.Trust
	if err := f.page.get("/api/v1/trust", &now); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d of %d identities ended %d of %d tasks", with, len(crew), updates, now.Deliveries)
	if with > 2 {
		t.Errorf("%d of %d identities of one prefix got tasks, want at most 2", with, len(crew))
	}
	if most := now.Deliveries/10 + prefixTasks; updates > most {
		t.Errorf("newcomers ended %d of %d tasks, want at most %d", updates, now.Deliveries, most)
	}
}

// crowd has volunteers of one address prefix join that crawl as they should.
func (f *fortress) crowd(ctx context.Context, wg *sync.WaitGroup, many int) (crew []*rogue.Volunteer) {
	world := f.pond.World()
	for i := range many {
		a := attackNamed(f.t, "distance")
		a.Record = func(r *overlaypb.Record) {
			r.Addrs = append([]string{fmt.Sprintf("/ip4/203.0.112.%d/tcp/4001", i%250+1)}, r.Addrs...)
		}
		scene := f.scene
		scene.Account = fmt.Sprintf("crowd-%d", i)
		scene.Fetch = func(ctx context.Context, url string) (int, []byte, []byte, error) {
			return fetch(ctx, pondClient(world, 1), url)
		}
		v, err := rogue.Join(ctx, scene, a)
		if err != nil {
			f.t.Fatalf("identity %d: %v", i, err)
		}
		crew = append(crew, v)
		wg.Go(func() { _ = v.Run(ctx) })
	}
	return crew
}
