package e2e

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"path/filepath"
	"strings"
	"time"
)

// operate asks a manager that is well for what an operator asks for.
func (c *clusterChaos) operate(o outage) {
	switch o.kind {
	case "block", "purge":
		c.block(o)
	case "remove":
		c.must(c.judge.Removing(chaosHost(o.target)))
		for _, id := range c.channelsOf(o.kind, chaosHost(o.target)) {
			c.gone[chaosHost(o.target)] = true
			c.ask(o.kind, http.MethodDelete, fmt.Sprint("/channels/", id), nil)
		}
	case "split":
		c.split(o)
	case "strategy":
		c.ask(o.kind, http.MethodPut, "/strategy", map[string]any{"name": o.name})
	case "backup":
		dir := filepath.Join(c.t.TempDir(), "backup")
		if c.ask(o.kind, http.MethodPost, "/backup", map[string]any{"dir": dir}) {
			c.backups++
			c.lastBackup = dir
		}
	case "compact":
		c.ask(o.kind, http.MethodPost, "/archive/compact?share=0.9", nil)
	default:
		c.t.Fatalf("no test injects %s", o.kind)
	}
}

// channelsOf are the channels of a host.
func (c *clusterChaos) channelsOf(kind, host string) (ids []int64) {
	var list struct {
		Channels []struct {
			ID   int64
			Host string
		}
	}
	body, ok := c.answer(kind, http.MethodGet, "/channels?n=1000", nil) // there are far fewer
	if !ok || json.Unmarshal(body, &list) != nil {
		return nil
	}
	for _, r := range list.Channels {
		if r.Host == "http://"+host {
			ids = append(ids, r.ID)
		}
	}
	return ids
}

// split makes the first directory of a host a channel of its own, if it has one.
func (c *clusterChaos) split(o outage) {
	var large []int
	for n, h := range c.world.Hosts() {
		if h.Pages > 1 && strings.HasSuffix(c.world.Path(n, 1), "/") {
			large = append(large, n)
		}
	}
	if len(large) == 0 {
		c.t.Fatal("no host of the pond has a directory")
	}
	n := large[o.target%len(large)]
	if ids := c.channelsOf(o.kind, chaosHost(n)); len(ids) == 1 {
		c.ask(o.kind, http.MethodPost, fmt.Sprintf("/channels/%d/split", ids[0]), map[string]any{"dirs": []string{c.world.Path(n, 1)}})
	}
}

// restored looks whether the last backup can be restored, and holds an archive without a fault.
func (c *clusterChaos) restored() {
	if c.lastBackup == "" {
		return
	}
	data := filepath.Join(c.t.TempDir(), "restored")
	run(c.t, "restore", c.lastBackup, "--data", data)
	run(c.t, "archive", "verify", "--data", data)
}

// block asks for what blocks a host at once, and a takedown.
func (c *clusterChaos) block(o outage) {
	host, at, path := chaosHost(o.target), time.Now(), "/hosts/block"
	if o.kind == "purge" {
		c.gone[host] = true
		c.must(c.judge.Purging(host))
		path = "/hosts/purge"
	}
	c.blocked[host] = true
	c.must(c.judge.Blocking(host, at))
	if !c.ask(o.kind, http.MethodPost, path, map[string]any{"host": host, "why": "chaos", "unknown": true}) {
		return
	}
	c.must(c.judge.Blocked(host, at))
	if o.kind == "purge" {
		c.must(c.judge.Purged(host, at))
	}
}

func (c *clusterChaos) unblock(host string) bool {
	_ = c.judge.Unblocked(host, time.Now()) // a block that was not acknowledged is none, or is lifted in the end
	if !c.ask("block", http.MethodPost, "/hosts/unblock", map[string]any{"host": host}) {
		return false
	}
	c.must(c.judge.Lifted(host))
	return true
}

// back imports a host again that was taken down.
func (c *clusterChaos) back(host string) bool {
	if !c.unblock(host) {
		return false
	}
	_, ok := c.answer("purge", http.MethodPost, "/channels/import?name=list.txt", []byte("http://"+host+"/\n"))
	if ok {
		delete(c.gone, host)
	}
	return ok
}

// lifted brings all hosts back, without blocks.
func (c *clusterChaos) lifted() bool {
	for host := range maps.Clone(c.gone) {
		if !c.back(host) {
			return false
		}
	}
	var list struct{ Hosts []struct{ Name string } }
	if c.access[c.current.Load()].get("/api/v1/hosts?blocked=1&n=1000", &list) != nil {
		return false
	}
	lifted := true
	for _, h := range list.Hosts {
		if host := strings.TrimPrefix(h.Name, "http://"); c.blocked[host] {
			lifted = c.unblock(host) && lifted
		}
	}
	return lifted
}

// ask sends an operator's request to a manager that is well, and reports whether it was done.
func (c *clusterChaos) ask(kind, method, path string, in any) bool {
	b, err := json.Marshal(in)
	c.must(err)
	_, ok := c.answer(kind, method, path, b)
	return ok
}

// answer sends a request and returns the answer. A manager that refuses is an error, unless it says that it cannot work now.
func (c *clusterChaos) answer(kind, method, path string, in []byte) ([]byte, bool) {
	if !c.choose() {
		c.failed[kind]++
		return nil, false
	}
	status, body, err := c.access[c.current.Load()].ask(c.t, 2*chaosAnswer, method, path, in)
	if err != nil {
		c.failed[kind]++
		return nil, false
	}
	if status == http.StatusOK {
		return body, true
	}
	c.judge.Told(method+" "+path, string(body))
	switch {
	case status >= 500: // its servers are away
		c.failed[kind]++
	case path == "/hosts/unblock" && strings.Contains(string(body), "is not blocked"):
		return body, true
	case status == http.StatusNotFound && (kind == "remove" || kind == "split"): // gone meanwhile
		c.failed[kind]++
	default:
		c.t.Errorf("%s: %s %s: %d: %.300s", kind, method, path, status, body)
	}
	return nil, false
}
