package judge

import (
	"context"
	"fmt"
	"net/url"
	"time"
)

// order is an operator's request to block a host, or to lift its block.
type order struct {
	at    time.Time
	block bool
	done  bool // the manager acknowledged it
}

// Blocking notes that the manager is asked at a moment to block a host: from then on it may be.
func (j *Judge) Blocking(name string, at time.Time) error {
	n, ok := j.number[bare(name)]
	if !ok {
		return fmt.Errorf("judge: the pond has no host %s", name)
	}
	j.orders[n] = append(j.orders[n], order{at: at, block: true})
	return nil
}

// Blocked notes that the manager acknowledged the block of a host at a moment, whether Blocking was told of it or not, and Unblocked that it was asked to lift it.
func (j *Judge) Blocked(name string, at time.Time) error {
	n, ok := j.number[bare(name)]
	if !ok {
		return fmt.Errorf("judge: the pond has no host %s", name)
	}
	j.blocks[n] = append(j.blocks[n], span{from: at})
	if !j.done(n, true) {
		j.orders[n] = append(j.orders[n], order{at: at, block: true, done: true})
	}
	return nil
}

// Unblocked ends what Blocked began. It is an error for a host that is not blocked.
func (j *Judge) Unblocked(name string, at time.Time) error {
	n, ok := j.number[bare(name)]
	if ok {
		j.orders[n] = append(j.orders[n], order{at: at})
	}
	last := len(j.blocks[n]) - 1
	if !ok || last < 0 || !j.blocks[n][last].to.IsZero() {
		return fmt.Errorf("judge: %s was not blocked", name)
	}
	j.blocks[n][last].to = at
	return nil
}

// Lifted notes that the manager acknowledged what Unblocked told last: from then on the host is not blocked, whatever happens to the manager, until it is asked again.
func (j *Judge) Lifted(name string) error {
	n, ok := j.number[bare(name)]
	if !ok || !j.done(n, false) {
		return fmt.Errorf("judge: nobody asked for the end of the block of %s", name)
	}
	return nil
}

// done marks the last order about a host as acknowledged, if it is of that kind and was not yet.
func (j *Judge) done(n int, block bool) bool {
	last := len(j.orders[n]) - 1
	if last < 0 || j.orders[n][last].block != block || j.orders[n][last].done {
		return false
	}
	j.orders[n][last].done = true
	return true
}

// mayBeBlocked says whether a host of that name may be blocked, and if not, what became of its last block. Those may be that misbehave, and those that have another
// name, under which they are crawled. A request that was not answered may be done late, also after the next one.
func (j *Judge) mayBeBlocked(name string) (why string, may bool) {
	n, ok := j.number[bare(name)]
	if !ok || j.bad[n] != "" || j.renamed[n] && j.hosts[n].Name == bare(name) {
		return "", true
	}
	all := j.orders[n]
	last := len(all) - 1
	for last >= 0 && !all[last].done {
		last--
	}
	for i, o := range all {
		if i >= last && o.block || !o.done && o.block && o.at.Add(j.cfg.Slack).After(all[last].at) {
			return "", true
		}
	}
	if last < 0 {
		return "which nobody has asked for", false
	}
	return fmt.Sprintf("though the manager acknowledged the end of its block, asked for at %s", all[last].at.Format(time.RFC3339)), false
}

// Blocks looks which hosts the manager has as blocked. Call it when the manager is there again after whatever has happened to it, before an operator lifts what is left.
func (j *Judge) Blocks(ctx context.Context) error {
	const most = 1000
	var list struct{ Hosts []struct{ Name string } }
	if err := j.manager(ctx, "/hosts", url.Values{"blocked": {"1"}, "n": {fmt.Sprint(most)}}, &list); err != nil {
		return err
	}
	if len(list.Hosts) == most {
		return fmt.Errorf("judge: %d hosts or more are blocked: not all are seen", most)
	}
	for _, h := range list.Hosts {
		why, may := j.mayBeBlocked(h.Name)
		if may {
			continue
		}
		kind := Forgotten
		if len(j.orders[j.number[bare(h.Name)]]) == 0 {
			kind = Barred
		}
		j.breach(kind, "%s is blocked, %s", h.Name, why)
	}
	return nil
}
