package livesim

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"shoal/internal/lab/pond"
	"shoal/internal/sim"
	"shoal/recrawl"
)

// The scenes in which an operator takes part.
const (
	heaviest  = 50. // importance of the channel that counts most; the least is 1
	lateShare = 3   // one in so many hosts becomes a channel in the middle only
)

// weights are what an operator says of each host's channel: the first by a drawn order counts most, and the k-th as much as the first over a power of k. nil: nothing.
func (c *cell) weights(hosts int) []float64 {
	if c.Scene != "weights" {
		return nil
	}
	all, fall := make([]float64, hosts), math.Log(heaviest)/math.Log(float64(hosts))
	for k, host := range sim.Rand(c.Seed, "weights").Perm(hosts) {
		all[host] = round(heaviest/math.Pow(float64(k+1), fall), 2)
	}
	return all
}

// late is how many hosts become channels in the middle only. They are the last ones: the pond deals sizes, classes and places by the seed.
func (c *cell) late(hosts int) int {
	if c.Scene != "burst" {
		return 0
	}
	return hosts / lateShare
}

// burst is when they do, in seconds after the start.
func (c *cell) burst() float64 { return c.Minutes * 30 }

// first and last are the hosts that are channels from the start, and those that become some later.
func (c *cell) first(w *pond.World) []pond.Host {
	return w.Hosts()[:len(w.Hosts())-c.late(len(w.Hosts()))]
}

func (c *cell) last(w *pond.World) []pond.Host { return w.Hosts()[len(c.first(w)):] }

// operate does what an operator has done before the peers come: channels get their importance, or the late ones are removed.
func (n *network) operate(ctx context.Context) error {
	if n.Cap != recrawl.DefaultOptions().Cap || n.Weights != string(recrawl.PageWeights) {
		if err := n.ask(ctx, http.MethodPut, "/strategy", fmt.Appendf(nil, `{"limits": {"cap": %v, "weights": %q}}`, n.Cap, n.Weights), nil); err != nil {
			return err
		}
	}
	weights, late := n.weights(len(n.world.Hosts())), len(n.last(n.world))
	if weights == nil && late == 0 {
		return nil
	}
	ids, err := n.channels(ctx)
	if err != nil {
		return err
	}
	for i, id := range ids {
		path := fmt.Sprintf("/channels/%d", id)
		switch {
		case weights != nil:
			err = n.ask(ctx, http.MethodPatch, path, fmt.Appendf(nil, `{"weight": %v}`, weights[i]), nil)
		case i >= len(ids)-late:
			err = n.ask(ctx, http.MethodDelete, path, nil, nil)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// channels are the numbers of the hosts' channels.
func (n *network) channels(ctx context.Context) ([]int64, error) {
	ids, found := make([]int64, len(n.world.Hosts())), 0
	err := n.ask(ctx, http.MethodGet, "/channels/export?format=jsonl", nil, func(r io.Reader) error {
		for lines := json.NewDecoder(r); ; found++ {
			var ch struct {
				ID   int64
				Host string
			}
			if err := lines.Decode(&ch); err == io.EOF {
				return nil
			} else if err != nil {
				return err
			}
			_, name, _ := strings.Cut(ch.Host, "://")
			host, ok := n.world.Host(name)
			if !ok || ids[host] != 0 {
				return fmt.Errorf("channel %d is of %s, which is no host of the pond or has another channel", ch.ID, ch.Host)
			}
			ids[host] = ch.ID
		}
	})
	if err == nil && found != len(ids) {
		err = fmt.Errorf("the manager has %d channels of the pond's %d hosts", found, len(ids))
	}
	return ids, err
}

// grow imports the late channels when it is time.
func (n *network) grow(ctx context.Context) error {
	if len(n.last(n.world)) == 0 || wait(ctx, time.Until(n.begun.Add(seconds(n.burst())))) != nil {
		return nil
	}
	var list bytes.Buffer
	for i := len(n.first(n.world)); i < len(n.world.Hosts()); i++ {
		fmt.Fprintln(&list, n.world.URL(i, 0))
	}
	var done struct{ Added int }
	err := n.ask(context.WithoutCancel(ctx), http.MethodPost, "/channels/import?format=list", list.Bytes(), func(r io.Reader) error { return json.NewDecoder(r).Decode(&done) })
	if err == nil && done.Added != len(n.last(n.world)) {
		err = fmt.Errorf("%d of %d new channels were added", done.Added, len(n.last(n.world)))
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.grown = time.Since(n.begun).Seconds()
	return err
}

// came is when the late channels came, in seconds after the start.
func (n *network) came() float64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.grown
}

// ask asks the manager's interface as its operator; read, if not nil, reads the answer.
func (n *network) ask(ctx context.Context, method, path string, body []byte, read func(io.Reader) error) error {
	token, err := os.ReadFile(filepath.Join(n.dir, "manager", "operator.token"))
	if err != nil {
		return fmt.Errorf("the operator's token: %w", err)
	}
	req, err := http.NewRequestWithContext(ctx, method, n.page+"/api/v1"+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	res, err := client.Do(req)
	if err != nil {
		return fmt.Errorf("ask the manager: %w", err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		said, _ := io.ReadAll(io.LimitReader(res.Body, mostRefusal)) // what came of it says most
		return fmt.Errorf("ask the manager: %s %s: %s: %s", method, path, res.Status, strings.TrimSpace(string(said)))
	}
	if read == nil {
		return nil
	}
	return read(io.LimitReader(res.Body, mostMetrics))
}

const mostRefusal = 4 << 10 // bytes of an error's text
