package judge

import (
	"fmt"
	"strings"
	"time"
)

// Blocked notes that the manager acknowledged the block of a host at a moment, and Unblocked that it was asked to lift it.
func (j *Judge) Blocked(name string, at time.Time) error {
	n, ok := j.number[bare(name)]
	if !ok {
		return fmt.Errorf("judge: the pond has no host %s", name)
	}
	j.blocks[n] = append(j.blocks[n], span{from: at})
	return nil
}

// Unblocked ends what Blocked began. It is an error for a host that is not blocked.
func (j *Judge) Unblocked(name string, at time.Time) error {
	n, ok := j.number[bare(name)]
	last := len(j.blocks[n]) - 1
	if !ok || last < 0 || !j.blocks[n][last].to.IsZero() {
		return fmt.Errorf("judge: %s was not blocked", name)
	}
	j.blocks[n][last].to = at
	return nil
}

// Purging notes that the manager is asked to take a host down: from now on what was told of the host may go, done or not. Purged notes that the manager
// acknowledged it: nothing that was fetched before may be there any more.
func (j *Judge) Purging(name string) error {
	n, ok := j.number[bare(name)]
	if !ok {
		return fmt.Errorf("judge: the pond has no host %s", name)
	}
	if _, ok := j.purged[n]; !ok {
		j.purged[n] = time.Time{}
	}
	return nil
}

// Purged notes that what Purging began is done, and when it was asked for.
func (j *Judge) Purged(name string, at time.Time) error {
	if err := j.Purging(name); err != nil {
		return err
	}
	j.purged[j.number[bare(name)]] = at
	return nil
}

// leastTold is the length of the shortest text that can tell what happened.
const leastTold = 12

// Told judges a text about an error that a person read somewhere: it must tell what happened, and not how a program is made.
func (j *Judge) Told(where, text string) {
	bare := strings.TrimSpace(text)
	for _, bad := range []string{"%!", "<nil>", "panic:", "goroutine ", "0x", "runtime error", "unknown error", "internal error"} {
		if strings.Contains(bare, bad) {
			j.mute(where, text)
			return
		}
	}
	if len(bare) < leastTold || !strings.Contains(bare, " ") {
		j.mute(where, text)
	}
}

func (j *Judge) mute(where, text string) {
	if !j.muted[where+text] {
		j.muted[where+text] = true
		j.breach(Mute, "%s: %.300q", where, text)
	}
}
