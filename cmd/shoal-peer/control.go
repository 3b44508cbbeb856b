package main

import (
	"cmp"
	"errors"
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

	Networks []networkTold `json:"networks,omitempty"` // one by one; what stands above is of all together

	around
	Update *updateTold `json:"update,omitempty"` // how updates stand, where a person asks for the status

	clock words.Text // what the notes say of the clock
	held  words.Text // Hold, for translation; without a key where it came as a text
}

// status returns what the peer does, of what its agents tell. What it shows is on the disk: a counter that was seen never falls, whatever ends the process.
func (p *program) status(of []said) *status {
	now := time.Now()
	p.tally(now)
	p.keepUsage()
	s := &status{Status: together(of), Limits: p.limits.At(now), Marking: limit.MarksLE(), Done: p.usage.Done(now), Speed: p.speeds.last(), Blocked: p.blocked.Load().Len()}
	set := p.now()
	s.Denied = p.limits.Denied(set.Deny, cmp.Or(set.from["deny"], "your settings"))
	s.Received, s.Sent = p.meter.Totals()
	s.Today, s.Month = s.Done.Today.Bytes, s.Done.Month.Bytes
	s.clock = clockNote(of)
	s.Notes = p.notesIn(words.English, s)
	s.around = around{web: p.web.says(now), unplugged: unplugged()}
	for _, x := range of {
		a := s.around
		a.noPond = x.n.noPond.Load()
		s.Networks = append(s.Networks, x.n.status(x.Status, a, &s.Limits, now))
	}
	s.noPond = len(of) == 1 && s.Networks[0].noPond // several networks are told of one by one
	if len(s.Networks) > 0 {
		s.held = s.Networks[0].held
	}
	s.State, s.Says = sentence(s, now)
	if s.State != stateWorking && s.State != stateIdle && s.State != stateFinishing {
		s.Speed = p.speeds.lately()
	}
	return s
}

// do carries out an order to the networks that it names, or to all.
func (p *program) do(order string, args map[string]string) error {
	list := p.nets.all()
	if name := args["network"]; name != "" {
		n, err := p.find(name)
		if err != nil {
			return err
		}
		list = []*network{n}
	}
	var until time.Time // end of a pause
	switch order {
	case "leave":
		if _, err := p.find(args["network"]); err != nil && args["all"] == "" {
			return err
		}
		for _, n := range list {
			n.leave(args["forget"] != "")
		}
		return nil
	case "joined":
		wake(p.joined)
		return nil
	case "limit":
		return p.setRates(list, args)
	case "pause":
		if args["for"] == tomorrow {
			now := time.Now()
			args = map[string]string{"for": (nextMorning(now).Sub(now).Truncate(time.Second) + morningSlack).String()}
		}
		if args["for"] != "" {
			d, err := peer.PauseFor(args["for"])
			if err != nil {
				return err
			}
			until = time.Now().Add(d)
		}
	case "resume", "finish", "drain":
	default:
		return fmt.Errorf("%w: unknown order %q", peer.ErrConfig, order)
	}
	var failed error
	for _, n := range list { // all of them: a pause that cannot be kept on disk must not leave others at work
		if err := n.agent.Do(order, args); failed == nil {
			failed = err
		}
	}
	if args["network"] == "" {
		p.nets.order(order, until)
	}
	return failed
}

// setRates sets rates until the process ends: those of all, or a network's own.
func (p *program) setRates(list []*network, args map[string]string) error {
	down, up := -1, -1
	for name, to := range map[string]*int{"down": &down, "up": &up} {
		if v, ok := args[name]; ok {
			n, err := strconv.Atoi(v)
			if err != nil || n < 0 || n > limit.MaxNumber {
				return fmt.Errorf("%w: %s %q; want KiB a second: 0 (no limit) to %d", errSettings, name, v, limit.MaxNumber)
			}
			*to = n
		}
	}
	if args["network"] == "" {
		p.limits.SetSession(down, up)
	} else {
		for _, n := range list {
			if down >= 0 {
				n.down.Store(int64(down))
			}
			if up >= 0 {
				n.up.Store(int64(up))
			}
		}
	}
	f := p.limits.At(time.Now())
	p.shareRates(&f)
	return nil
}

const (
	tomorrow     = "tomorrow"       // a pause's end as people say it
	morningSlack = 10 * time.Second // a pause ends by the network's clock, which is known to some seconds: it does not end before the hour
)

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
	if errors.Is(err, control.ErrNoAgent) {
		if free, bad := limit.FreeDisk(set.Data); bad == nil && free < 1<<20 {
			err = fmt.Errorf("%w. The disk of this folder is full: one that runs is not found before there is room", err)
		}
	}
	return c, set, err
}
