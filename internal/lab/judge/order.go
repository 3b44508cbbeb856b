package judge

import (
	"fmt"
	"time"
)

// heard judges new lines of the feed by those before: no change may be told twice, and of one page none after a later one, as far as the clocks were right
// by which their times were taken.
func (j *Judge) heard(part []change) {
	for _, c := range part {
		if !j.cfg.Ordered || c.Event != "created" && c.Event != "changed" {
			continue
		}
		key := fmt.Sprint(c.URL, " ", c.Event, " ", c.Digest, " ", c.Fetched.UnixNano())
		if j.once[key] {
			j.breach(Twice, "the feed told twice that %s was %s at %s", c.URL, c.Event, c.Fetched.Format(time.RFC3339Nano))
		}
		j.once[key] = true
		if before := j.newest[c.URL]; c.Fetched.Before(before) && len(j.could(c.Fetched)) == 1 && len(j.could(before)) == 1 {
			j.breach(Disordered, "the feed told that %s was %s at %s, after what happened at %s", c.URL, c.Event, c.Fetched.Format(time.RFC3339Nano), before.Format(time.RFC3339Nano))
		}
		j.newest[c.URL] = c.Fetched
	}
}
