package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"shoal/internal/plain"
	"shoal/peer"
	"shoal/peer/limit"
	"shoal/peer/queue"
	"shoal/peer/words"
)

// networkTold is what is told of one network.
type networkTold struct {
	peer.Status
	State       string     `json:"state"`
	Says        string     `json:"says"`
	Share       float64    `json:"share"` // of the limits, 0 to 1
	Weight      int        `json:"weight"`
	Done        limit.Done `json:"done"`
	Speed       speed      `json:"speed"`
	DownKiBPerS int        `json:"down_kib_per_s"` // its own part now; 0: no limit
	UpKiBPerS   int        `json:"up_kib_per_s"`
	DayMiB      int        `json:"day_mib"` // its share of the budget; 0: no limit
	MonthMiB    int        `json:"month_mib"`

	around
	held words.Text // Hold, for translation; without a key where it came as a text
}

// percent words a share of all. None that there is is nothing, and none is all beside another one.
func percent(share float64) string {
	switch {
	case share > 0 && share <= .005:
		return "<1%"
	case share < 1 && share >= .995:
		return ">99%"
	}
	return fmt.Sprintf("%.0f%%", 100*share)
}

// said is what one network's agent has told of itself.
type said struct {
	n *network
	peer.Status
}

// statuses asks the agents.
func (p *program) statuses() (out []said) {
	for _, n := range p.nets.all() {
		out = append(out, said{n, n.agent.Status()})
	}
	return out
}

// asked is statuses after a question to each network's server that is silent. standing asks how far the servers believe their peers, too.
func (p *program) asked(ctx context.Context, standing bool) []said {
	list := p.nets.all()
	out := make([]said, len(list))
	var wg sync.WaitGroup
	for i, n := range list {
		wg.Go(func() {
			out[i] = said{n, n.agent.Asked(ctx)}
			if standing {
				out[i].Standing = n.agent.Standing(ctx)
			}
		})
	}
	wg.Wait()
	return out
}

// status is what is told of the network, under the limits of all.
func (n *network) status(of peer.Status, a around, f *limit.Force, now time.Time) networkTold {
	t := n.part.Load()
	x := networkTold{Status: of, around: a, Weight: t.weight, Share: float64(t.weight) / float64(max(t.of, 1)), Done: n.usage.Done(now), Speed: n.speeds.last(),
		DayMiB: int(t.share(int64(f.DayMiB.Value))), MonthMiB: int(t.share(int64(f.MonthMiB.Value)))}
	if x.Network == "" { // before it has its folder
		x.Network = n.at.Network.String()
	}
	x.DownKiBPerS, x.UpKiBPerS = n.meter.Rates()
	if held := n.held.Load(); held != nil && held.In(words.English) == of.Hold {
		x.held = *held
	} else if d := n.agent.DiskFailure(); d != nil && d.Says() == of.Hold {
		x.held = diskFails(d)
	}
	x.State, x.Says = sentence(x.alone(), now)
	return x
}

// diskFails is DiskFailure.Says for translation.
func diskFails(d *peer.DiskFailure) words.Text {
	at := d.Since.Local()
	return words.T("why.fails", words.T("moment.day", at.Day(), words.T("month."+strconv.Itoa(int(at.Month()))), at.Format("15:04")), d.Why, words.T("why.fails."+d.Do))
}

// alone is the status of a computer that had this network only, for the sentence.
func (x *networkTold) alone() *status {
	return &status{Status: x.Status, around: x.around, held: x.held}
}

// together puts what several agents tell into one: work and counters add up; address, place and connection are the first one's, which are those of the
// network in the data folder itself.
func together(list []said) peer.Status {
	if len(list) == 0 {
		return peer.Status{Mode: queue.Open.String(), Running: []peer.TaskStatus{}, Waiting: []peer.TaskStatus{}}
	}
	out := list[0].Status
	if len(list) == 1 {
		return out
	}
	out.Running, out.Waiting = []peer.TaskStatus{}, []peer.TaskStatus{}
	out.Messages, out.Refused, out.Counters.Errors = map[string]int64{}, map[string]int64{}, map[string]int{}
	out.Standing = nil // each has its own
	var names, contacts []string
	for i := range list {
		x := &list[i].Status
		for _, t := range x.Running {
			t.Network = x.Network
			out.Running = append(out.Running, t)
		}
		for _, t := range x.Waiting {
			t.Network = x.Network
			out.Waiting = append(out.Waiting, t)
		}
		names = append(names, company(&status{Status: *x}))
		if x.Contact != "" {
			contacts = append(contacts, plain.Printable(x.Contact))
		}
		add(out.Messages, x.Messages)
		add(out.Refused, x.Refused)
		add(out.Counters.Errors, x.Counters.Errors)
		if i == 0 {
			continue
		}
		if x.Mode == queue.Open.String() { // some of them work
			out.Mode = x.Mode
		}
		if x.Hold != out.Hold {
			out.Hold = ""
		}
		out.Rests = out.Rests && x.Rests
		out.Threads, out.Queue, out.Members = out.Threads+x.Threads, out.Queue+x.Queue, out.Members+x.Members
		out.MessagesMin, out.PacketsMin = out.MessagesMin+x.MessagesMin, out.PacketsMin+x.PacketsMin
		out.Received, out.Sent = out.Received+x.Received, out.Sent+x.Sent
		addCounters(&out.Counters, &x.Counters)
	}
	out.Until = pausedUntil(list)
	out.Name, out.Contact = strings.Join(names, ", "), strings.Join(contacts, ", ")
	return out
}

// pausedUntil is when the last pause ends where each network has one that ends, else the zero time. The ends of one pause differ a little, since each is by
// the time of its network.
func pausedUntil(list []said) (last time.Time) {
	for _, x := range list {
		if x.Mode != queue.Paused.String() || x.Until.IsZero() {
			return time.Time{}
		}
		if x.Until.After(last) {
			last = x.Until
		}
	}
	return last
}

func add[N int | int64](to, from map[string]N) {
	for k, n := range from {
		to[k] += n
	}
}

// addCounters adds all but the errors.
func addCounters(c, x *peer.Counters) {
	c.Accepted, c.Refused, c.Updated, c.Failed = c.Accepted+x.Accepted, c.Refused+x.Refused, c.Updated+x.Updated, c.Failed+x.Failed
	c.Stopped, c.Lost, c.Dropped, c.HandedOver = c.Stopped+x.Stopped, c.Lost+x.Lost, c.Dropped+x.Dropped, c.HandedOver+x.HandedOver
	c.GivenBack, c.Pages, c.Unchanged = c.GivenBack+x.GivenBack, c.Pages+x.Pages, c.Unchanged+x.Unchanged
	c.BytesDown, c.BytesUp = c.BytesDown+x.BytesDown, c.BytesUp+x.BytesUp
}

// ranks order the states of several networks: what any of them does comes before why another does nothing.
var ranks = map[string]int{stateWorking: 1, stateIdle: 2, stateWebless: 3, stateLooking: 4, stateSilent: 5, stateAway: 6, stateRefused: 7, stateFinishing: 8, stateDraining: 9, statePaused: 10}

// toldEach says what several networks do: one sentence where it is the same for all, else one for each.
func toldEach(list []networkTold, now time.Time, where string) (state string, says words.Text) {
	seen := map[string]bool{}
	for i := range list {
		st := list[i].alone()
		own, text := told(st, now, where)
		if ranks[own] < ranks[state] || state == "" {
			state = own
		}
		seen[text.In(words.English)] = true
		if ranks[own] >= ranks[stateFinishing] { // its sentence does not name the company
			text = words.T("say.of", companyText(st), text)
		}
		if says.Key == "" {
			says = text
		} else {
			says = words.T("say.also", says, text)
		}
	}
	if len(seen) == 1 && len(list) > 0 {
		return told(list[0].alone(), now, where)
	}
	return state, says
}

// presentNetwork is a network as the page shows it all the time.
type presentNetwork struct {
	Network  string    `json:"network"`
	Name     string    `json:"name"`
	Contact  string    `json:"contact,omitempty"`
	State    string    `json:"state"`
	Says     string    `json:"says"`
	Mode     string    `json:"mode"`
	Share    float64   `json:"share"`
	Weight   int       `json:"weight"`
	Threads  int       `json:"threads"`
	Running  int       `json:"running"`
	Speed    speed     `json:"speed"`
	Down     int       `json:"down_kib_per_s"`
	Up       int       `json:"up_kib_per_s"`
	Pages    int64     `json:"today_pages"`
	Bytes    int64     `json:"today_bytes"`
	DayMiB   int       `json:"day_mib"`
	Ever     int64     `json:"ever_pages"`
	Since    time.Time `json:"since,omitzero"`
	MonthMiB int       `json:"month_mib"`
	Month    int64     `json:"month_bytes"`
}

func presentNetworks(list []networkTold, now time.Time, lang string) []presentNetwork {
	out := []presentNetwork{}
	for i := range list {
		x := &list[i]
		state, says := told(x.alone(), now, onPage)
		out = append(out, presentNetwork{Network: x.Network, Name: companyText(x.alone()).In(lang), Contact: x.Contact, State: state, Says: says.In(lang), Mode: x.Mode, Share: x.Share, Weight: x.Weight,
			Threads: x.Threads, Running: len(x.Running), Speed: x.Speed, Down: x.DownKiBPerS, Up: x.UpKiBPerS, Pages: x.Done.Today.Pages, Bytes: x.Done.Today.Bytes, DayMiB: x.DayMiB,
			Ever: x.Done.Ever.Pages, Since: x.Done.Since, MonthMiB: x.MonthMiB, Month: x.Done.Month.Bytes})
	}
	return out
}
