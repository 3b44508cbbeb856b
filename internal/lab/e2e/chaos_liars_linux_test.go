package e2e

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"shoal/internal/lab/chaos"
	"shoal/internal/lab/pond"
	"shoal/internal/lab/rogue"
)

// chaosLiars are the liars of internal/lab/rogue that take part.
var chaosLiars = []string{"lazy", "fabricating", "subtle-10", "colluding", "slandering", "hiding"}

// den is what liars of a run share. They fetch from a pond of their own that shows the same, as the judge holds each request to the other one against honest members.
type den struct {
	client *http.Client
	gang   rogue.Gang

	mu     sync.Mutex
	ids    []string // of liars that joined
	hosts  []string // of tasks that they took, since the judge was last told
	forged int64
}

func openDen(c *chaosRun, cfg pond.Config) *den {
	w, err := pond.NewWorld(cfg)
	if err != nil {
		c.t.Fatal(err)
	}
	servePond(c.t, w)
	return &den{client: &http.Client{Transport: &http.Transport{DialContext: w.HTTPDialer(1), DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
}

// lie lets a liar take part until the fault ends.
func (c *chaosRun) lie(f chaos.Fault) {
	kind, err := rogue.LiarNamed(f.Name)
	if err != nil {
		c.t.Fatal(err)
	}
	d := c.den
	attack := kind.Attack(&d.gang)
	work := attack.Work
	attack.Work = func(ctx context.Context, v *rogue.Volunteer, o rogue.Offer) error {
		d.mu.Lock()
		if d.hosts = append(d.hosts, o.Header.Host); !slices.Contains(d.ids, v.ID()) {
			d.ids = append(d.ids, v.ID())
		}
		d.mu.Unlock()
		return work(ctx, v, o)
	}
	c.takePart(f, attack)
}

// fetch gets a page for a liar.
func (d *den) fetch(ctx context.Context, url string) (int, []byte, []byte, error) {
	return fetch(ctx, d.client, url)
}

// told tells the judge who lies, and about which hosts.
func (c *chaosRun) told() {
	d := c.den
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, id := range d.ids {
		c.judge.Lies(id)
	}
	for _, h := range d.hosts {
		c.judge.LiedAbout(h)
	}
	d.hosts = nil
}

// takeBack has the manager take back all that liars delivered, and refuse them. It tells what is left to do; empty: nothing.
func (c *chaosRun) takeBack() string {
	c.told()
	if err := c.judge.Know(c.t.Context()); err != nil {
		return fmt.Sprintf("what liars delivered is not known: %v", err)
	}
	d := c.den
	d.mu.Lock()
	ids := slices.Clone(d.ids)
	d.mu.Unlock()
	for _, id := range ids {
		if c.taken[id] {
			continue
		}
		if !c.ask(chaos.Liar, http.MethodPost, "/peers/ban", map[string]any{"peer": id, "banned": true, "unknown": true}) || !c.ask(chaos.Liar, http.MethodPost, "/peers/purge", map[string]any{"peer": id, "start": true}) {
			return "what a liar delivered is to be taken back: " + c.lately
		}
		c.taken[id] = true
	}
	var p struct{ Purge *struct{} }
	if err := c.page.get("/api/v1/peers/purge", &p); err != nil || p.Purge != nil {
		return fmt.Sprintf("what liars delivered is being taken back, %v", err)
	}
	return ""
}

// takePart lets a member that misbehaves join, until the fault ends. It cannot join while the manager is down.
func (c *chaosRun) takePart(f chaos.Fault, attack rogue.Attack) {
	ctx, cancel := context.WithCancel(c.t.Context())
	var wg sync.WaitGroup
	joined := make(chan bool, 1)
	scene := c.scene
	scene.Account, scene.Fetch = fmt.Sprintf("%s-%d", f.Name, f.At.Milliseconds()), c.den.fetch
	wg.Go(func() {
		v, err := rogue.Join(ctx, scene, attack)
		for ; err != nil && ctx.Err() == nil; v, err = rogue.Join(ctx, scene, attack) { // the manager may be down
			select {
			case <-ctx.Done():
			case <-time.After(time.Second):
			}
		}
		if joined <- err == nil; err == nil {
			_ = v.Run(ctx) // it ends with an error when its context does
			c.den.mu.Lock()
			c.den.forged += v.Stats.Forged.Load()
			c.den.mu.Unlock()
		}
	})
	leave := sync.OnceFunc(func() {
		cancel()
		wg.Wait()
		if !<-joined {
			c.failed[f.Kind]++
		}
	})
	c.rogues[f.At] = leave
	c.t.Cleanup(leave)
}
