package peer

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"shoal/peer/queue"
)

// pageCostFile keeps in the agent's folder what a page costs, as the queue has learnt it: after a new start the peer says as rightly as before when it could begin a
// task. Without it a peer that often starts anew refuses tasks that it could do, or takes those that it cannot.
const pageCostFile = "page-cost.json"

// Bounds of what is kept, and of how often: a tenth more or less changes no answer.
const (
	leastPageCost = time.Millisecond
	pageCostEvery = 10 * time.Second
	pageCostShare = 10
)

// pageCost is what was kept last. Safe for concurrent use.
type pageCost struct {
	path string
	mu   sync.Mutex
	is   time.Duration
	at   time.Time // when it was kept; zero: in an earlier run
}

type storedPageCost struct {
	Page float64 `json:"page_s"` // seconds, beside the wait between two requests
}

// rememberPageCost reads what an earlier run has learnt, and gives the queue's settings that begin with it. A file that cannot be read is as none: the queue learns anew.
func rememberPageCost(dir string, cfg queue.Config) (*pageCost, queue.Config, error) {
	c := &pageCost{path: filepath.Join(dir, pageCostFile)}
	b, err := os.ReadFile(c.path)
	if errors.Is(err, fs.ErrNotExist) {
		return c, cfg, nil
	}
	var stored storedPageCost
	if err == nil {
		err = json.Unmarshal(b, &stored)
	}
	if is := time.Duration(stored.Page * float64(time.Second)); err == nil && is >= leastPageCost && is <= queue.MostPage {
		c.is, cfg.Service = is, is
	}
	return c, cfg, err
}

// keep keeps what the queue has learnt, if it has changed and was not kept a moment ago.
func (c *pageCost) keep(now time.Time, is time.Duration) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	is = min(max(is, leastPageCost), queue.MostPage)
	if (is-c.is).Abs() < c.is/pageCostShare || !c.at.IsZero() && now.Sub(c.at).Abs() < pageCostEvery {
		return nil
	}
	c.at = now // a disk that fails is not tried again at once
	b, err := json.Marshal(storedPageCost{is.Seconds()})
	if err == nil {
		err = os.WriteFile(c.path+".new", b, 0o600)
	}
	if err == nil {
		err = os.Rename(c.path+".new", c.path)
	}
	if err == nil {
		c.is = is
	}
	return err
}
