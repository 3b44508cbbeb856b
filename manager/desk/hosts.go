package desk

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"shoal/channel"
	"shoal/channel/lease"
	"shoal/manager"
)

// Host is what an operator sees of a Web host.
type Host struct {
	Name       string    `json:"name"`
	State      string    `json:"state"`               // blocked, visited, or not visited yet
	Blocked    string    `json:"blocked,omitempty"`   // why
	NextVisit  time.Time `json:"next_visit,omitzero"` // zero: at any time
	CrawlDelay Seconds   `json:"crawl_delay_s"`
}

// Hosts lists hosts of which anything is known and whose name holds the query; blocked ones only, if asked.
func (d *Desk) Hosts(ctx context.Context, query string, blocked bool, n int) ([]Host, error) {
	rows := []Host{}
	query = hostPart(query)
	err := d.store.ScanHosts(ctx, func(h channel.Host) error {
		if len(rows) < n && strings.Contains(h.Name, query) && (!blocked || h.Blocked != "") {
			rows = append(rows, hostOf(&h))
		}
		return nil
	})
	return rows, err
}

func hostOf(h *channel.Host) Host {
	out := Host{h.Name, "visited", h.Blocked, h.NextVisit, Seconds(h.CrawlDelay)}
	switch {
	case h.Blocked != "":
		out.State = Blocked
	case h.NextVisit.IsZero():
		out.State = "not visited yet"
	}
	return out
}

// KnownHost refuses a host of which nothing is known: most likely it is misspelt.
func (d *Desk) KnownHost(ctx context.Context, host string) error {
	if found, err := d.heardOf(ctx, host); err != nil || found {
		return err
	}
	return asks("nothing is known of %s: it has no channel and was never crawled or blocked. If it is not misspelt, add --unknown to the command, or tick the box on the page", host)
}

// heardOf reports whether anything is known of a host.
func (d *Desk) heardOf(ctx context.Context, host string) (found bool, err error) {
	hosts, err := channel.ParseHosts(host)
	if err != nil {
		return false, err
	}
	if err := d.channelsOf(ctx, hosts, func(*channel.Channel) { found = true }); err != nil || found {
		return found, err
	}
	err = d.store.ScanHosts(ctx, func(h channel.Host) error {
		found = found || hosts.Has(h.Name)
		return nil
	})
	return found, err
}

// Block has nothing crawled on hosts any more, whatever their channels; an empty reason lifts it. What is out is called back: its peers are
// refused at their next word with the archive. A host that is named without port is blocked on all ports, on those too that channels come to have later.
func (d *Desk) Block(ctx context.Context, host, why string) error {
	hosts, err := channel.ParseHosts(host)
	if err != nil {
		return err
	}
	known, err := d.known(ctx, hosts)
	if err != nil {
		return err
	}
	if why == "" {
		if known, err = d.blocked(ctx, known); err != nil {
			return err
		}
		if len(known) == 0 {
			return fmt.Errorf("%w: %s is not blocked; shoal host list --blocked names what is", ErrAsk, host)
		}
	}
	ctx, done := d.finish(ctx)
	defer done()
	for _, name := range known {
		if err := d.block(ctx, name, why); err != nil {
			return err
		}
	}
	if why == "" {
		return nil
	}
	names := map[channel.ID]string{}
	if err := d.channelsOf(ctx, hosts, func(ch *channel.Channel) { names[ch.ID] = ch.Scope.Host }); err != nil {
		return err
	}
	for _, id := range slices.Sorted(maps.Keys(names)) {
		if d.m != nil {
			if err := d.m.StandOff(ctx, id, names[id]); err != nil {
				return err
			}
		}
		if err := d.recall(ctx, id, names[id]); err != nil {
			return err
		}
	}
	return nil
}

// recall calls the task of a channel back, if one may be out. The host is left alone until that must have ended, which a running manager sees to itself.
func (d *Desk) recall(ctx context.Context, id channel.ID, origin string) error {
	if d.files == nil && d.m != nil {
		return nil
	}
	raw, err := d.store.Lease(ctx, id) // durable before anything is offered
	if err != nil {
		return fmt.Errorf("read the lease of channel %d: %w", id, err)
	}
	if len(raw) == 0 {
		return nil
	}
	i, err := lease.ParseIssue(raw)
	if i.Restore(); err == nil && i.Out() {
		if d.m == nil {
			err = standOff(ctx, d, origin, i.Deadline())
		}
		if err == nil && d.files != nil {
			err = d.files.Recall(ctx, id)
		}
	}
	if err != nil {
		return fmt.Errorf("call back the task of channel %d: %w", id, err)
	}
	return nil
}

// standOff leaves a stopped manager's host alone until a task has ended that is called back, or until the end of the wait for its claim if that is later.
func standOff(ctx context.Context, d *Desk, origin string, claimed time.Time) error {
	now := d.cfg.Now()
	until := now.Add(resetWait)
	if claimed.After(until) {
		until = claimed
	}
	return d.store.UpdateHost(ctx, d.epoch, origin, func(h *channel.Host) {
		next := h.NextVisit
		if latest := now.Add(h.Rest); h.Rest > 0 && latest.Before(next) { // it was said by a clock that was ahead
			next = latest
		}
		if until.After(next) {
			h.NextVisit, h.Rest = until, until.Sub(now)
		}
	})
}

// known are the origins that an operator means: those named, and those with other ports of which anything is known.
func (d *Desk) known(ctx context.Context, hosts channel.Hosts) ([]string, error) {
	all := map[string]struct{}{}
	for _, o := range hosts.Origins() {
		all[o] = struct{}{}
	}
	err := d.store.ScanHosts(ctx, func(h channel.Host) error {
		if hosts.Has(h.Name) {
			all[h.Name] = struct{}{}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read hosts: %w", err)
	}
	if err := d.channelsOf(ctx, hosts, func(ch *channel.Channel) { all[ch.Scope.Host] = struct{}{} }); err != nil {
		return nil, err
	}
	return slices.Sorted(maps.Keys(all)), nil
}

// blocked are those of some origins that are blocked.
func (d *Desk) blocked(ctx context.Context, origins []string) (out []string, err error) {
	for _, o := range origins {
		h, err := d.store.Host(ctx, o)
		if err != nil {
			return nil, err
		}
		if h.Blocked != "" {
			out = append(out, o)
		}
	}
	return out, nil
}

// resetWait is how long a stopped manager's host is left alone after a reset, or a task of it is called back: as long as a lease may run.
const resetWait = 30 * time.Minute

// ResetHost forgets what reports have told of hosts: how long to wait before the next visit, their crawl delay, where they are, and that they are blocked, if reports have told that. A
// task that may be out is waited for. stays is why some of them stay blocked: by the operator's word.
func (d *Desk) ResetHost(ctx context.Context, host string) (reset int, stays string, err error) {
	hosts, err := channel.ParseHosts(host)
	if err != nil {
		return 0, "", err
	}
	if found, err := d.heardOf(ctx, host); err != nil {
		return 0, "", err
	} else if !found {
		return 0, "", asks("nothing is known of %s: it has no channel and was never crawled or blocked, so there is nothing to forget", host)
	}
	known, err := d.known(ctx, hosts)
	if err != nil {
		return 0, "", err
	}
	ctx, done := d.finish(ctx)
	defer done()
	for _, origin := range known {
		h, err := d.store.Host(ctx, origin)
		if err != nil {
			return reset, stays, err
		}
		if h.NextVisit.IsZero() && h.Blocked == "" && h.CrawlDelay == 0 && len(h.Record.Samples) == 0 {
			continue // the other scheme, of which nothing is known
		}
		latest := d.cfg.Now().Add(resetWait)
		if err := d.store.UpdateHost(ctx, d.epoch, origin, func(h *channel.Host) { manager.ResetHost(h, latest) }); err != nil {
			return reset, stays, err
		}
		if manager.Stays(h.Blocked) {
			stays = h.Blocked
		} else if h.Blocked != "" {
			if err := manager.SetUnblocked(ctx, d.store, d.epoch, origin, true); err != nil {
				return reset, stays, err
			}
		}
		if d.m != nil {
			if err := d.m.ResetHost(ctx, origin); err != nil {
				return reset, stays, err
			}
		}
		reset++
	}
	return reset, stays, nil
}

// Unsaid is why a host is blocked if the operator does not say it.
const Unsaid = "by an operator"

func (d *Desk) block(ctx context.Context, origin, why string) error {
	if len(why) > channel.MaxText {
		why = strings.ToValidUTF8(why[:channel.MaxText], "")
	}
	if why == Unsaid { // a reason that was given before is worth more
		h, err := d.store.Host(ctx, origin)
		if err != nil {
			return err
		}
		if manager.Stays(h.Blocked) {
			why = h.Blocked
		}
	}
	if err := d.store.UpdateHost(ctx, d.epoch, origin, func(h *channel.Host) { h.Blocked = why }); err != nil {
		return err
	}
	var err error
	if d.m != nil {
		err = d.m.SetBlocked(ctx, origin, why)
	}
	return errors.Join(err, manager.SetUnblocked(ctx, d.store, d.epoch, origin, why == ""))
}

// originSet are origins with ports of their own that an import has named.
type originSet map[string]struct{}

// of notes them as lines go by.
func (s *originSet) of(lines iter.Seq[channel.Line]) iter.Seq[channel.Line] {
	*s = originSet{}
	return func(yield func(channel.Line) bool) {
		for l := range lines {
			if _, port := channel.HostsOf(l.Channel.Scope.Host); port {
				(*s)[l.Channel.Scope.Host] = struct{}{}
			}
			if !yield(l) {
				return
			}
		}
	}
}

// inheritBlocks blocks what is new of hosts that were blocked whatever their port.
func (d *Desk) inheritBlocks(ctx context.Context, origins originSet) error {
	for _, o := range slices.Sorted(maps.Keys(origins)) {
		why, err := manager.WhyBlocked(ctx, d.store, o)
		if err != nil {
			return err
		}
		if why != "" {
			if err := d.block(ctx, o, why); err != nil {
				return err
			}
		}
	}
	return nil
}

// Candidate is a host that crawls have found and no channel covers.
type Candidate struct {
	Host  string     `json:"host"`
	Links int        `json:"links"` // how often it was found
	URLs  []string   `json:"urls"`  // some of those found
	From  channel.ID `json:"from"`  // whose crawl found it first
	First time.Time  `json:"first_found"`
	Last  time.Time  `json:"last_found"`
}

// CandidateList is a part of them.
type CandidateList struct {
	Candidates []Candidate `json:"candidates"`
	Total      int         `json:"total"`
}

// Candidates lists the n hosts without a channel that were found most often.
func (d *Desk) Candidates(ctx context.Context, n int) (CandidateList, error) {
	out := CandidateList{Candidates: []Candidate{}}
	var left []channel.Candidate
	listed := 0
	for most := n; ; most *= 2 { // some may have got channels since they were found
		got, err := d.store.Candidates(ctx, most, nil)
		if err != nil {
			return out, err
		}
		var hosts []string
		if left, hosts, err = manager.Unlisted(ctx, d.store, got); err != nil {
			return out, err
		}
		if listed = len(hosts); len(left) >= n || len(got) < most || most <= 0 {
			break
		}
	}
	for _, c := range left[:min(len(left), max(n, 0))] {
		out.Candidates = append(out.Candidates, Candidate{c.Host, c.Links, c.Seeds, c.From, c.First, c.Last})
	}
	total, err := d.store.CountCandidates(ctx)
	out.Total = max(total-listed, len(out.Candidates))
	return out, err
}

// foundHosts are hosts that an import has named: they are no candidates any more.
type foundHosts struct {
	names map[string]struct{}
	many  bool // more than namesMost
}

const namesMost = 100_000 // hosts of an import that are remembered by name

// of notes them as lines go by.
func (f *foundHosts) of(lines iter.Seq[channel.Line]) iter.Seq[channel.Line] {
	*f = foundHosts{names: map[string]struct{}{}}
	return func(yield func(channel.Line) bool) {
		for l := range lines {
			if f.many = f.many || len(f.names) >= namesMost; !f.many {
				f.names[l.Channel.Scope.Host] = struct{}{}
			}
			if !yield(l) {
				return
			}
		}
	}
}

// blocked are those of the hosts that are blocked.
func (f *foundHosts) blocked(ctx context.Context, st manager.Store) (map[channel.HostKey]bool, error) {
	if f.many {
		return nil, nil
	}
	all, err := st.Hosts(ctx, slices.Sorted(maps.Keys(f.names)))
	out := map[channel.HostKey]bool{}
	for i := range all {
		if all[i].Blocked != "" {
			out[channel.KeyOf(all[i].Name)] = true
		}
	}
	return out, err
}

// forget drops candidates that have got channels.
func (f *foundHosts) forget(ctx context.Context, st manager.Store, e channel.Epoch) error {
	if n, err := st.CountCandidates(ctx); err != nil || n == 0 {
		return err
	}
	names := slices.Sorted(maps.Keys(f.names))
	if f.many { // there may be fewer candidates than channels
		var err error
		if names, err = listedCandidates(ctx, st); err != nil {
			return err
		}
	}
	for some := range slices.Chunk(names, channel.MaxAdd) {
		if err := st.DropCandidates(ctx, e, some); err != nil {
			return err
		}
	}
	return nil
}

// listedCandidates are the candidates that a channel holds.
func listedCandidates(ctx context.Context, st manager.Store) (hosts []string, err error) {
	var roots []string
	note := func(host string) bool { roots = append(roots, host+"/"); return false }
	if _, err := st.Candidates(ctx, 1, note); err != nil {
		return nil, err
	}
	for some := range slices.Chunk(roots, channel.MaxAdd) {
		ids, err := st.Holders(ctx, some)
		if err != nil {
			return nil, err
		}
		for i, id := range ids {
			if id != 0 {
				hosts = append(hosts, channel.Origin(some[i]))
			}
		}
	}
	return hosts, nil
}
