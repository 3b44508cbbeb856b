package manager

import (
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"time"

	"shoal/channel"
	"shoal/coords"
	"shoal/manager/archive"
)

// task is what leaves the manager for one handing-out.
type task struct {
	header channel.Header
	signed channel.Signed
	body   []byte
	record coords.HostRecord
}

// asked is what a task is to be.
type asked struct {
	id     channel.ID
	gen    channel.Gen
	latest time.Time
	looked []uint64 // hashes of the pages that an errand is for, of which its peer is told nothing
}

// made is a task, and what it was made of.
type made struct {
	task
	scope channel.Scope
	parts channel.Body
	known archive.Known
}

// build makes the task of a channel's crawl. It runs beside the loop.
func (p *placers) build(ctx context.Context, j job) (task, error) {
	m, err := p.make(ctx, j, asked{id: j.id, gen: j.Gen, latest: j.Latest})
	return m.task, err
}

// make makes a task of what the database and the archive know of a channel. The tasks of crawls and of errands are made here, so that no field tells one from the
// other.
func (p *placers) make(ctx context.Context, j job, as asked) (m made, err error) {
	ch := j.ch
	if ch == nil {
		got, err := p.cfg.Store.Channel(ctx, as.id)
		if err != nil {
			return m, fmt.Errorf("read channel %d: %w", as.id, err)
		}
		ch = &got
	}
	host := j.host
	if host == nil {
		h, err := p.cfg.Store.Host(ctx, ch.Scope.Host)
		if err != nil {
			return m, fmt.Errorf("read host %s: %w", ch.Scope.Host, err)
		}
		host = &h
	}
	known, err := p.cfg.Archive.Known(ctx, as.id, lastBegan(&ch.Learnt, j.Issued), as.looked...)
	if err != nil {
		return m, fmt.Errorf("what the archive knows of channel %d: %w", as.id, err)
	}
	budget := p.budget(ch)
	inter, err := missedToo(ch, known.Missed, budget)
	if err != nil {
		return m, fmt.Errorf("scope of channel %d: %w", as.id, err)
	}
	body := channel.Body{
		Scope: ch.Scope, Seeds: ch.Seeds, Inter: inter, Settings: ch.Settings,
		Digests: known.Digests, KnownInter: known.Inter, Validators: known.Validators, Importance: known.Importance,
		Record: host.Record, Contact: p.cfg.Contact,
	}
	raw := body.Marshal()
	for len(raw) > channel.MaxBody && len(body.Digests)+len(body.Validators)+len(body.KnownInter) > 0 {
		// The rest is found unchanged by validators, or sent again: costly, never wrong.
		body.Digests = body.Digests[:len(body.Digests)/2]
		body.Validators = body.Validators[:len(body.Validators)/2]
		body.KnownInter = body.KnownInter[:len(body.KnownInter)/2]
		raw = body.Marshal()
	}
	pages := ch.Learnt.Pages
	if pages == 0 || pages > budget {
		pages = budget
	}
	h := channel.Header{
		Network: p.cfg.Network, Channel: as.id, Gen: as.gen, Host: ch.Scope.Host, Pages: pages, Budget: max(budget, len(as.looked)+1),
		Issued: j.Issued, Latest: as.latest, Gap: max(p.cfg.Gap, host.CrawlDelay), Archive: p.archive(as.id),
		BodySHA256: sha256.Sum256(raw), BodyBytes: len(raw),
	}
	signed, err := p.cfg.Sign(h)
	if err != nil {
		return m, fmt.Errorf("sign task of channel %d: %w", as.id, err)
	}
	return made{task: task{header: h, signed: signed, body: raw, record: host.Record}, scope: ch.Scope, parts: body, known: known}, nil
}

// budget is how many pages a task of a channel may fetch.
func (c *core) budget(ch *channel.Channel) int {
	if n := ch.Settings.Pages; n > 0 {
		return n
	}
	return max(ch.Learnt.Budget, c.cfg.FirstBudget)
}

// lastBegan is when a channel's last crawl began; of one that never was crawled, now.
func lastBegan(l *channel.Learnt, now time.Time) time.Time {
	if l.Visits == 0 {
		return now
	}
	return l.Updated.Add(-l.Service)
}

// Of what a task may fetch at most this share, or missedLeast, is given to pages that the last crawl did not come across.
const (
	missedShare = 8
	missedLeast = 16
)

// missedToo adds pages that the last crawl did not come across to the URLs that other sites' crawls found. Those that the channel's filters refuse are left
// out: a channel is found by directory alone, and its directories may have changed meanwhile.
func missedToo(ch *channel.Channel, missed []string, budget int) ([]string, error) {
	if len(ch.Inter)+len(missed) == 0 {
		return nil, nil
	}
	scope, err := ch.Scope.Compile()
	if err != nil {
		return nil, err
	}
	out := slices.DeleteFunc(slices.Clone(ch.Inter), func(u string) bool { return !scope.Contains(u) })
	found := out
	room := min(max(budget/missedShare, missedLeast), channel.MaxInter-len(out))
	for _, u := range missed {
		if room <= 0 {
			break
		}
		if scope.Contains(u) && !slices.Contains(found, u) {
			out = append(out, u)
			room--
		}
	}
	return out, nil
}

// archive is the one that a channel's tasks name.
func (p *placers) archive(id channel.ID) string {
	if p.cfg.ArchiveFor != nil {
		return p.cfg.ArchiveFor(id)
	}
	return p.cfg.ArchiveID
}
