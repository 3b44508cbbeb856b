package manager

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
)

// Takedown is what a purge needs of the archive, and whoever else calls tasks back.
type Takedown interface {
	// Recall ends all tasks of a channel: nothing that their peers still send is stored.
	Recall(ctx context.Context, id channel.ID) error
	// Purge removes all pages of Web hosts, and says so in the feed.
	Purge(ctx context.Context, hosts channel.Hosts) (pages int, err error)
	// Forget does so too, and drops what the next one would go on from.
	Forget(ctx context.Context, id channel.ID) error
}

// HostRow is what an operator sees of a Web host.
type HostRow struct {
	Name       string        `json:"name"`
	Blocked    string        `json:"blocked,omitempty"` // why
	NextVisit  time.Time     `json:"next_visit"`
	CrawlDelay time.Duration `json:"crawl_delay_ns"`
}

// Hosts lists hosts of which anything is known and whose name holds the query; blocked ones only, if asked.
func (d *Desk) Hosts(ctx context.Context, query string, blocked bool, n int) ([]HostRow, error) {
	rows := []HostRow{}
	err := d.store.ScanHosts(ctx, func(h channel.Host) error {
		if len(rows) < n && strings.Contains(h.Name, query) && (!blocked || h.Blocked != "") {
			rows = append(rows, HostRow{h.Name, h.Blocked, h.NextVisit, h.CrawlDelay})
		}
		return nil
	})
	return rows, err
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
			var failed error
			if err := d.m.onLoop(ctx, func(now time.Time) { failed = d.m.standOff(now, id, names[id]) }); err != nil || failed != nil {
				return errors.Join(err, failed)
			}
		}
		if err := d.recall(ctx, id); err != nil {
			return err
		}
	}
	return nil
}

// recall calls the task of a channel back, if one may be out.
func (d *Desk) recall(ctx context.Context, id channel.ID) error {
	if d.files == nil {
		return nil
	}
	raw, err := d.store.Lease(ctx, id) // durable before anything is offered
	if err != nil {
		return fmt.Errorf("read the lease of channel %d: %w", id, err)
	}
	i, err := parseIssue(raw)
	if err == nil && i.Out() {
		err = d.files.Recall(ctx, id)
	}
	if err != nil {
		return fmt.Errorf("call back the task of channel %d: %w", id, err)
	}
	return nil
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

func (d *Desk) block(ctx context.Context, origin, why string) error {
	if len(why) > channel.MaxText {
		why = strings.ToValidUTF8(why[:channel.MaxText], "")
	}
	if err := d.store.UpdateHost(ctx, d.epoch, origin, func(h *channel.Host) { h.Blocked = why }); err != nil || d.m == nil {
		return err
	}
	return d.m.onLoop(ctx, func(time.Time) {
		key := channel.KeyOf(origin)
		d.m.host(key).blocked = why
		if r, ok := d.m.records[key]; ok {
			r.Blocked = why
		}
		if why == "" {
			d.m.sched.Rerank() // those that were put off come up again
		}
	})
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
		why, err := whyBlocked(ctx, d.store, o)
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

// whyBlocked is why nothing of an origin is crawled: it is blocked, or its host is, whatever the port. Empty: it is not.
func whyBlocked(ctx context.Context, st Store, origin string) (why string, err error) {
	h, err := st.Host(ctx, origin)
	if err != nil {
		return "", fmt.Errorf("read host %s: %w", origin, err)
	}
	hosts, port := channel.HostsOf(origin)
	if h.Blocked != "" || !port {
		return h.Blocked, nil
	}
	for _, usual := range hosts.Origins() { // both are, if the host is
		if h, err = st.Host(ctx, usual); err != nil {
			return "", fmt.Errorf("read host %s: %w", usual, err)
		}
		if h.Blocked == "" {
			break
		}
	}
	return h.Blocked, nil
}

// isBlocked tells the same of what the loop knows.
func (m *Manager) isBlocked(origin string) bool {
	blocked := func(origin string) bool {
		h := m.hosts[channel.KeyOf(origin)]
		return h != nil && h.blocked != ""
	}
	if blocked(origin) {
		return true
	}
	hosts, port := channel.HostsOf(origin)
	return port && !slices.ContainsFunc(hosts.Origins(), func(o string) bool { return !blocked(o) })
}

// Purged tells what a takedown has removed.
type Purged struct {
	Host     string `json:"host"`
	Channels int    `json:"channels"`
	Pages    int    `json:"pages"`
	Links    int    `json:"links"` // of the host among what other sites' crawls found
}

// Purge takes hosts down: they are blocked, their channels are removed, what peers have of them comes to nothing at their next word with the
// archive, their pages leave the archive, and the feed says that they are gone. One that broke off is gone on with by another.
func (d *Desk) Purge(ctx context.Context, host, why string) (Purged, error) {
	out := Purged{Host: host}
	hosts, err := channel.ParseHosts(host)
	if err != nil {
		return out, err
	}
	if d.files == nil {
		return out, fmt.Errorf("purge %s: no archive at hand: %w", host, ErrStopped)
	}
	if why == "" {
		why = "taken down"
	}
	if err := d.Block(ctx, host, why); err != nil {
		return out, err
	}
	var ids []channel.ID
	if err := d.channelsOf(ctx, hosts, func(ch *channel.Channel) { ids = append(ids, ch.ID) }); err != nil {
		return out, err
	}
	for _, id := range ids {
		if err := d.files.Forget(ctx, id); err != nil {
			return out, fmt.Errorf("call back the task of channel %d: %w", id, err)
		}
		if err := d.Remove(ctx, id); err != nil && !errors.Is(err, channel.ErrUnknown) {
			return out, err
		}
		out.Channels++
	}
	if out.Pages, err = d.files.Purge(ctx, hosts); err != nil {
		return out, err
	}
	out.Links, err = d.dropLinks(ctx, hosts)
	return out, err
}

// channelsOf calls f for the channels of hosts.
func (d *Desk) channelsOf(ctx context.Context, hosts channel.Hosts, f func(*channel.Channel)) error {
	after := ""
	for {
		chs, next, err := d.store.Search(ctx, hosts.Name(), after, listBatch)
		if err != nil {
			return fmt.Errorf("search channels of %s: %w", hosts.Name(), err)
		}
		for i := range chs {
			if hosts.Has(chs[i].Scope.Host) {
				f(&chs[i])
			}
		}
		if next == "" || len(chs) == 0 {
			return nil
		}
		after = next
	}
}

// linksLook is how many of the hosts that crawls have found are looked at: those found most often. One that is not among them, on a port
// that nobody has named, stays noted; it is blocked as soon as it has a channel.
const linksLook = 10_000

// dropLinks forgets hosts that crawls have found.
func (d *Desk) dropLinks(ctx context.Context, hosts channel.Hosts) (dropped int, err error) {
	known, err := d.known(ctx, hosts)
	if err != nil {
		return 0, err
	}
	found, err := d.store.Candidates(ctx, linksLook)
	if err != nil {
		return 0, err
	}
	for _, c := range found {
		if hosts.Has(c.Host) {
			known = append(known, c.Host)
		}
	}
	before, err := d.store.CountCandidates(ctx)
	if err != nil {
		return 0, err
	}
	for part := range slices.Chunk(known, channel.MaxAdd) {
		if err := d.store.DropCandidates(ctx, d.epoch, part); err != nil {
			return 0, err
		}
	}
	after, err := d.store.CountCandidates(ctx)
	return max(before-after, 0), err
}
