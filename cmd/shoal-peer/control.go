package main

import (
	"cmp"
	"fmt"
	"strconv"
	"time"

	"shoal/peer"
	"shoal/peer/control"
	"shoal/peer/limit"
	"shoal/peer/words"
)

// status is the answer of the control API.
type status struct {
	peer.Status
	State    string      `json:"state"` // a word of sentence.go
	Says     string      `json:"says"`  // the same as a sentence, for people
	Done     limit.Done  `json:"done"`
	Speed    speed       `json:"speed"`
	Limits   limit.Force `json:"limits"`
	Denied   []limit.Ban `json:"denied,omitempty"`
	Received int64       `json:"socket_received_bytes"` // by all sockets that this peer dialled, packet headers included
	Sent     int64       `json:"socket_sent_bytes"`
	Today    int64       `json:"today_bytes"`
	Month    int64       `json:"month_bytes"`
	Marking  string      `json:"marking,omitempty"`       // why DSCP marks do not work here
	Notes    []string    `json:"notes,omitempty"`         // policies that cannot be read, and what this system does not report
	Blocked  int         `json:"blocked_names,omitempty"` // on block lists

	held words.Text // Hold, for translation; without a key where it came as a text
}

// status returns what the peer does, of what its agent tells. What it shows is on the disk: a counter that was seen never falls, whatever ends the process.
func (p *program) status(of peer.Status) *status {
	now := time.Now()
	p.tally(now)
	p.keepUsage()
	s := &status{Status: of, Limits: p.limits.At(now), Marking: limit.MarksLE(), Notes: p.notes.list(), Done: p.usage.Done(now), Speed: p.speeds.last(), Blocked: p.blocked.Load().Len()}
	set := p.now()
	s.Denied = p.limits.Denied(set.Deny, cmp.Or(set.from["deny"], "your settings"))
	s.Received, s.Sent = p.meter.Totals()
	s.Today, s.Month = p.usage.Used(now)
	if held := p.held.Load(); held != nil && held.In(words.English) == s.Hold {
		s.held = *held
	}
	s.State, s.Says = sentence(s, now)
	return s
}

// tally adds what the agent has done since the last call to what is counted over restarts.
func (p *program) tally(now time.Time) {
	c := p.agent.Counters()
	p.tallied.mu.Lock()
	defer p.tallied.mu.Unlock()
	was := p.tallied.c
	p.usage.Count(now, limit.Tally{Pages: int64(c.Pages - was.Pages), Unchanged: int64(c.Unchanged - was.Unchanged), Updated: int64(c.Updated - was.Updated), Failed: int64(c.Failed - was.Failed)})
	p.tallied.c = c
}

// do carries out an order.
func (p *program) do(order string, args map[string]string) error {
	switch order {
	case "leave":
		p.once.Do(func() { close(p.left) })
		return nil
	case "limit":
		down, up := -1, -1
		for name, to := range map[string]*int{"down": &down, "up": &up} {
			if v, ok := args[name]; ok {
				n, err := strconv.Atoi(v)
				if err != nil || n < 0 {
					return fmt.Errorf("%w: %s %q; want KiB a second, 0 for no limit", errSettings, name, v)
				}
				*to = n
			}
		}
		p.limits.SetSession(down, up)
		f := p.limits.At(time.Now())
		p.meter.SetRates(f.DownKiBPerS.Value, f.UpKiBPerS.Value)
		return nil
	case "pause":
		if args["for"] == tomorrow {
			now := time.Now()
			args = map[string]string{"for": (nextMorning(now).Sub(now).Truncate(time.Second) + time.Second).String()}
		}
	}
	return p.agent.Do(order, args)
}

// tomorrow is a pause's end as people say it.
const tomorrow = "tomorrow"

// nextMorning returns six o'clock of the next day.
func nextMorning(now time.Time) time.Time {
	return time.Date(now.Year(), now.Month(), now.Day()+1, 6, 0, 0, 0, now.Location())
}

// client returns a client of the peer that runs in the settings' folder.
func client(s streams, top *cli, data string) (*control.Client, settings, error) {
	flags := map[string]any{}
	if data != "" {
		flags["data"] = data
	}
	set, err := load(top.Config, s.env, flags)
	if err != nil {
		return nil, set, err
	}
	c, err := control.NewClient(set.Data)
	return c, set, err
}
