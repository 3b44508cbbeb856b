package desk

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync/atomic"

	"shoal/channel"
	"shoal/channel/listing"
	"shoal/manager"
	"shoal/recrawl"
)

// ParseSites makes a channel of each URL: the host, or the directory that it names. It takes what a list of channels may hold, and no more: a word
// without a dot is no host.
func ParseSites(urls []string) ([]channel.Channel, error) {
	var chs []channel.Channel
	for _, u := range urls {
		scope, seed, err := channel.ScopeOf(u)
		if err != nil {
			return nil, advised(err)
		}
		chs = append(chs, channel.Channel{Scope: scope, Seeds: []string{seed}})
	}
	return chs, nil
}

// Added is what became of one URL.
type Added struct {
	URL     string     `json:"url"`
	Channel channel.ID `json:"channel"`
	New     bool       `json:"new"` // false: it was a channel already
}

// Add makes channels of URLs, all or none, and says which they are. blocked is how many of the new ones are on blocked hosts.
func (d *Desk) Add(ctx context.Context, urls []string) (added []Added, blocked int, err error) {
	chs, err := ParseSites(urls)
	if err != nil {
		return nil, 0, err
	}
	done, err := d.AddChannels(ctx, chs)
	if err != nil {
		return nil, 0, err
	}
	known, seen := map[int]channel.ID{}, map[channel.ID]bool{}
	for _, r := range done.Refused {
		known[r.N] = r.ID
	}
	for i, u := range urls {
		if strings.Contains(u, "@") && len(chs[i].Seeds) > 0 { // a password is not kept, and not shown
			u = chs[i].Seeds[0]
		}
		a := Added{URL: u, Channel: known[i+1]}
		if a.Channel == 0 { // it is new, or so many were there already that not all are named
			if a.Channel, err = d.Lookup(ctx, &chs[i].Scope); err != nil {
				return nil, 0, err
			}
			a.New = a.Channel >= done.First && a.Channel <= done.Last && !seen[a.Channel]
			seen[a.Channel] = true
		}
		added = append(added, a)
	}
	return added, done.Blocked, nil
}

// AddChannels adds those that are not there yet, all or none.
func (d *Desk) AddChannels(ctx context.Context, chs []channel.Channel) (channel.Imported, error) {
	now := d.cfg.Now()
	for i := range chs {
		if err := d.cfg.Reach(chs[i].Scope.Host); err != nil {
			return channel.Imported{}, err
		}
		if chs[i].State = max(chs[i].State, channel.Active); chs[i].Added.IsZero() {
			chs[i].Added = now
		}
	}
	return d.Import(ctx, channel.Lines(chs))
}

// Import adds any number of channels, all or none.
func (d *Desk) Import(ctx context.Context, lines iter.Seq[channel.Line]) (out channel.Imported, err error) {
	var ports originSet
	var found foundHosts
	lines = found.of(ports.of(listing.AllOrNothing(d.checked(lines))))
	if d.m != nil {
		defer d.imports.begin()()
		var own atomic.Int64
		lines = d.imports.count(lines, &own)
		defer func() {
			if err != nil {
				d.imports.read.Add(-own.Load())
			}
		}()
	}
	out, err = d.store.Import(ctx, d.epoch, lines)
	if err != nil || out.Added == 0 {
		return out, err
	}
	ctx, done := d.finish(ctx)
	defer done()
	if err := errors.Join(d.inheritBlocks(ctx, ports), found.forget(ctx, d.store, d.epoch)); err != nil {
		return out, err
	}
	if d.m == nil {
		out.Blocked, err = onBlocked(ctx, d.store, out.First, out.Last)
		return out, err
	}
	d.imports.written.Add(int64(out.Added))
	out.Blocked, err = d.m.Adopt(ctx, out.First, out.Last, func() { d.imports.taken.Add(1) })
	if blocked, failed := found.blocked(ctx, d.store); err == nil && !found.many { // the loop may not have heard yet what was blocked at another manager
		out.Blocked, err = channelsOf(ctx, d.store, blocked, out.First, out.Last)
		err = errors.Join(err, failed)
	}
	return out, err
}

// onBlocked counts the channels from first to last that are on blocked hosts, as the database has them.
func onBlocked(ctx context.Context, db manager.Store, first, last channel.ID) (n int, err error) {
	blocked := map[channel.HostKey]bool{}
	if err := db.ScanHosts(ctx, func(h channel.Host) error {
		if h.Blocked != "" {
			blocked[channel.KeyOf(h.Name)] = true
		}
		return nil
	}); err != nil {
		return 0, err
	}
	return channelsOf(ctx, db, blocked, first, last)
}

// channelsOf counts the channels from first to last that are on some hosts.
func channelsOf(ctx context.Context, db manager.Store, hosts map[channel.HostKey]bool, first, last channel.ID) (n int, err error) {
	if len(hosts) == 0 {
		return 0, nil
	}
	err = db.Scan(ctx, first, last, func(h channel.Hot) error {
		if hosts[h.Host] {
			n++
		}
		return nil
	})
	return n, err
}

// checked marks lines that ask for what cannot be.
func (d *Desk) checked(lines iter.Seq[channel.Line]) iter.Seq[channel.Line] {
	return func(yield func(channel.Line) bool) {
		for l := range lines {
			if l.Err == nil {
				l.Err = d.check(&l.Channel)
			} else {
				l.Err = advised(l.Err)
			}
			if !yield(l) {
				return
			}
		}
	}
}

// advised is an error of an address that says how to write one, once.
func advised(err error) error {
	if errors.Is(err, channel.ErrURL) && !strings.Contains(err.Error(), "write ") {
		return fmt.Errorf("%w; write a URL such as https://example.org/news/", err)
	}
	return err
}

// check refuses a channel that this network's peers cannot crawl, or whose settings mean nothing here.
func (d *Desk) check(ch *channel.Channel) error {
	return errors.Join(d.cfg.Reach(ch.Scope.Host), d.checkOrder(ch.Settings.Order), d.checkGroup(ch.Settings.Group))
}

func (d *Desk) checkOrder(name string) error {
	if name == "" || len(d.cfg.Orders) == 0 || slices.Contains(d.cfg.Orders, name) {
		return nil
	}
	return fmt.Errorf("%w: no page ordering %q: want one of %s", listing.ErrLine, name, strings.Join(d.cfg.Orders, ", "))
}

// checkGroup refuses a priority group that there is not.
func (d *Desk) checkGroup(group int) error {
	most := recrawl.DefaultOptions().Groups
	if d.m != nil {
		most = len(d.m.Overview().GroupSizes)
	}
	if group <= most {
		return nil
	}
	return fmt.Errorf("%w: no group %d: want 1, the fastest, to %d, or 0 for the learnt one", listing.ErrLine, group, most)
}

// Lookup finds the channel of a scope, or the one that covers it.
func (d *Desk) Lookup(ctx context.Context, s *channel.Scope) (channel.ID, error) {
	at := s.Host + "/"
	if len(s.Dirs) > 0 {
		at = s.Host + s.Dirs[0]
	}
	return d.store.Lookup(ctx, at)
}

// imports counts what imports that are under way have done, for people to see.
type imports struct{ under, read, written, taken atomic.Int64 }

// count counts lines as they are read.
func (i *imports) count(lines iter.Seq[channel.Line], own *atomic.Int64) iter.Seq[channel.Line] {
	return func(yield func(channel.Line) bool) {
		for l := range lines {
			i.read.Add(1)
			own.Add(1)
			if !yield(l) {
				return
			}
		}
	}
}

// begin notes that an import begins. The counts begin anew if it is the only one.
func (i *imports) begin() (end func()) {
	if i.under.Add(1) == 1 {
		i.read.Store(0)
		i.written.Store(0)
		i.taken.Store(0)
	}
	return func() { i.under.Add(-1) }
}

// words say how far the imports are that are under way; empty: there is none.
func (i *imports) words() string {
	if i.under.Load() == 0 {
		return ""
	}
	if n := i.written.Load(); n > 0 {
		return fmt.Sprintf("An import is under way: %d channels are written, %d of them taken in.", n, i.taken.Load())
	}
	return fmt.Sprintf("An import is under way: %d lines read. All of them are added, or none.", i.read.Load())
}
