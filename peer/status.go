package peer

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"shoal/channel"
	"shoal/coords"
	"shoal/internal/wire"
	"shoal/peer/crawl"
	"shoal/peer/queue"
)

// Status is what an agent tells of itself.
type Status struct {
	Peer    string       `json:"peer"`
	Network string       `json:"network"`
	Name    string       `json:"network_name,omitempty"` // as the company calls it
	Contact string       `json:"contact,omitempty"`      // of the company
	Account string       `json:"account,omitempty"`
	Version string       `json:"version"`
	Addrs   []string     `json:"addrs,omitempty"`
	Since   time.Time    `json:"since"`
	Mode    string       `json:"mode"`
	Until   time.Time    `json:"until,omitzero"`  // end of a timed pause
	Rests   bool         `json:"rests,omitempty"` // Mode is "finish" for an update, and not because the volunteer said so
	Hold    string       `json:"hold,omitempty"`  // why it is paused beside its user's wish
	Threads int          `json:"threads"`
	Queue   int          `json:"queue"`
	Running []TaskStatus `json:"running"`
	Waiting []TaskStatus `json:"waiting"`
	Members int          `json:"members"` // known in the overlay
	Coord   coords.Coord `json:"coord"`
	Rings   []int        `json:"rings,omitempty"` // members known, by ring: below 2 ms, 4 ms, ... of round-trip time
	Reach   wire.Reach   `json:"reach"`
	Home    wire.Home    `json:"home"` // the connection to the company's server
	// Over the last minutes: messages of the overlay sent, packets both ways.
	MessagesMin float64  `json:"messages_per_minute"`
	PacketsMin  float64  `json:"packets_per_minute"`
	RatesOver   float64  `json:"rates_over_s"` // seconds that the two are of
	Counters    Counters `json:"counters"`
	// What streams between members have carried, in bytes.
	Received int64            `json:"received_bytes"`
	Sent     int64            `json:"sent_bytes"`
	Messages map[string]int64 `json:"messages,omitempty"` // of the overlay, by kind
	Refused  map[string]int64 `json:"refused,omitempty"`  // messages and tasks from others, by reason
	Standing *Standing        `json:"standing,omitempty"` // as the company's server told it, where a person asks for the status
}

// TaskStatus is one task.
type TaskStatus struct {
	Host    string    `json:"host"`
	Channel uint64    `json:"channel"`
	Gen     uint64    `json:"gen"`
	Pages   int       `json:"pages"`                  // fetched; of a waiting task those expected
	Left    int       `json:"left"`                   // URLs known and not fetched
	URL     string    `json:"url,omitempty"`          // fetched last
	Since   time.Time `json:"since,omitzero"`         // started
	Latest  time.Time `json:"latest,omitzero"`        // of a waiting task: latest start
	Away    bool      `json:"archive_away,omitempty"` // its archive did not answer when it was last asked
	Network string    `json:"network,omitempty"`      // whose it is, where this computer crawls for several
}

// Counters count since the start of the agent.
type Counters struct {
	Accepted   int            `json:"tasks_accepted"`
	Refused    int            `json:"tasks_refused"` // quoted, and not taken
	Updated    int            `json:"tasks_updated"`
	Failed     int            `json:"tasks_failed"`
	Stopped    int            `json:"tasks_stopped"`
	Lost       int            `json:"tasks_lost"` // not claimed, or another's in the end
	Dropped    int            `json:"tasks_dropped"`
	HandedOver int            `json:"tasks_handed_over"`
	GivenBack  int            `json:"tasks_given_back"` // unstarted, to the manager: no peer took them over, or they were late by this computer's clock alone
	Pages      int            `json:"pages_fetched"`
	Unchanged  int            `json:"pages_unchanged"`
	BytesDown  int64          `json:"bytes_down"` // of finished crawls, as the sockets carried them
	BytesUp    int64          `json:"bytes_up"`
	Errors     map[string]int `json:"errors"` // by kind
}

type counters struct {
	mu sync.Mutex
	c  Counters
}

func (s *counters) add(f func(*Counters)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f(&s.c)
}

func (s *counters) visit(v crawl.Visit) {
	s.add(func(c *Counters) {
		if v.Status != 0 {
			c.Pages++
		}
		if v.Change == channel.Unchanged {
			c.Unchanged++
		}
	})
}

// maxKinds bounds the kinds of error that are told apart.
const maxKinds = 128

func (s *counters) task(r channel.Report, err error) {
	s.add(func(c *Counters) {
		switch {
		case err != nil:
			c.Lost++
		case r.Outcome == channel.Updated:
			c.Updated++
		case r.Outcome == channel.Stopped:
			c.Stopped++
		default:
			c.Failed++
		}
		c.BytesDown += r.BytesDown
		c.BytesUp += r.BytesUp
		if c.Errors == nil {
			c.Errors = map[string]int{}
		}
		for k, n := range r.Errors {
			if _, known := c.Errors[k]; !known && len(c.Errors) >= maxKinds {
				k = "other"
			}
			c.Errors[k] += n
		}
	})
}

// Running is how many tasks run.
func (a *Agent) Running() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.running)
}

// Company is how the network's company calls itself; empty: it has not said so.
func (a *Agent) Company() string {
	a.mu.Lock()
	node := a.wire
	a.mu.Unlock()
	if node == nil {
		return ""
	}
	d, _ := node.Document()
	return d.Name
}

// Counters counts since the start of the agent.
func (a *Agent) Counters() Counters {
	a.tasks.mu.Lock()
	accepted, refused := a.tasks.accepted, a.tasks.refused
	a.tasks.mu.Unlock()
	var out Counters
	a.stats.add(func(c *Counters) {
		out = *c
		if out.Errors = maps.Clone(c.Errors); out.Errors == nil {
			out.Errors = map[string]int{} // JSON has it as an object, also where there is none
		}
	})
	out.Accepted, out.Refused = accepted, refused
	return out
}

// Asked is Status after a question to the network's server, if it has said nothing for some seconds. That takes two seconds at most.
func (a *Agent) Asked(ctx context.Context) Status {
	a.mu.Lock()
	node := a.wire
	a.mu.Unlock()
	var silent time.Time
	if node != nil {
		silent = node.Silent(ctx)
	}
	s := a.Status()
	if s.Home.At != "" {
		s.Home.Silent = silent
	}
	return s
}

// Status is a snapshot.
func (a *Agent) Status() Status {
	a.mu.Lock()
	node, runner := a.wire, a.runner
	jobs := make([]*job, 0, len(a.running))
	for _, j := range a.running {
		jobs = append(jobs, j)
	}
	a.mu.Unlock()
	slices.SortFunc(jobs, func(x, y *job) int { return x.began.Compare(y.began) })
	s := Status{Version: a.cfg.Version, Since: a.since, Running: []TaskStatus{}, Waiting: []TaskStatus{}}
	for _, j := range jobs {
		j.mu.Lock()
		v := j.visit
		j.mu.Unlock()
		h := j.task.Header
		s.Running = append(s.Running, TaskStatus{Host: h.Host, Channel: uint64(h.Channel), Gen: uint64(h.Gen), Pages: v.Pages, Left: v.Left, URL: v.URL, Since: j.began, Away: j.away.Load()})
	}
	ahead := time.Until(a.now())
	a.tasks.mu.Lock()
	m, until := a.tasks.mode(time.Now())
	if !until.IsZero() { // by this computer's clock, at which its volunteer looks
		until = until.Add(-ahead).Round(time.Second)
	}
	s.Mode, s.Until, s.Threads, s.Queue = m.String(), until, a.tasks.cfg.Threads, a.tasks.cfg.Queue
	s.Hold, s.Rests = a.tasks.hold(), a.tasks.rests
	a.tasks.q.Each(func(it queue.Item[task], started time.Time) {
		if h := it.Value.Header; started.IsZero() {
			s.Waiting = append(s.Waiting, TaskStatus{Host: h.Host, Channel: uint64(h.Channel), Gen: uint64(h.Gen), Pages: it.Pages, Latest: it.Latest})
		}
	})
	a.tasks.mu.Unlock()
	s.Counters = a.Counters()
	if node != nil {
		s.Peer, s.Network, s.Addrs, s.Account = node.ID().String(), node.Network().String(), node.Addrs(), node.Kept().Account
		s.Received, s.Sent = node.Traffic()
		s.Reach, s.Refused = node.Reach(), node.Refused()
		s.Home, _ = node.Home()
		if d, ok := node.Document(); ok {
			s.Name, s.Contact = d.Name, d.Contact
		}
	}
	if runner != nil {
		st := runner.Status()
		s.Members, s.Coord, s.Messages, s.Rings = len(st.Known), st.Coord, st.Counts, st.Rings
		s.MessagesMin, s.PacketsMin, s.RatesOver = st.Rates.Messages, st.Rates.Packets, st.Rates.Over.Seconds()
	}
	return s
}
