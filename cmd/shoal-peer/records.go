package main

import (
	"context"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"shoal/internal/plain"
	"shoal/peer/limit"
	"shoal/peer/words"
)

// carried is what the history has of the sockets' counters. Owned by the governor.
type carried struct {
	last  limit.Flow
	known bool
}

// record adds to the history what has come since the last call.
func (p *program) record(now time.Time, received, sent int64) {
	f := limit.Flow{Down: received, Up: sent, Pages: p.pages.Load()}
	if p.carried.known {
		p.history.Add(now, limit.Flow{Down: f.Down - p.carried.last.Down, Up: f.Up - p.carried.last.Up, Pages: f.Pages - p.carried.last.Pages})
	} else {
		p.history.Add(now, f)
	}
	p.carried = carried{f, true}
}

// keepHistory writes the history down, if there is anything new.
func (p *program) keepHistory() {
	switch err := p.history.Save(); {
	case err != nil && p.notes.set(matter("history"), words.T("note.unkept.carried", plain.Error(err))):
		p.log.Warn("history not kept", "err", err)
	case err == nil:
		p.notes.clear(matter("history"))
	}
}

// How often block lists are read again.
const (
	listsEvery = 24 * time.Hour
	listsAgain = 15 * time.Minute // after one could not be read
	listWait   = time.Minute      // for one
)

// followLists keeps the block lists up to date, and gives back tasks of sites that have come to be refused. Its own channel wakes it.
func (p *program) followLists(ctx context.Context) {
	kept := map[string]*limit.Blocked{} // the last of each list, so that one that cannot be read stays in force
	t := time.NewTimer(0)
	defer t.Stop()
	for {
		p.giveRefused(ctx) // what was denied by name does not wait for lists, each of which may take a minute
		again := p.readLists(ctx, kept)
		p.giveRefused(ctx)
		t.Reset(again)
		select {
		case <-ctx.Done():
			return
		case <-p.lists:
		case <-t.C:
		}
	}
}

func (p *program) giveRefused(ctx context.Context) {
	for _, n := range p.nets.all() {
		select { // before the agent has its folder there are no tasks
		case <-n.agent.Ready():
			n.agent.GiveRefused(ctx)
		default:
		}
	}
}

func (p *program) readLists(ctx context.Context, kept map[string]*limit.Blocked) (again time.Duration) {
	again = listsEvery
	names := p.now().BlockLists
	maps.DeleteFunc(kept, func(at string, _ *limit.Blocked) bool { return !slices.Contains(names, at) })
	var each []words.Text
	for _, at := range names {
		each = append(each, matter("list", limit.Shown(at)))
	}
	p.notes.clearBut("list", each) // also one that was never read
	var sets []*limit.Blocked
	for i, at := range names {
		one, cancel := context.WithTimeout(ctx, listWait)
		t := &http.Transport{DisableKeepAlives: true, DialContext: p.outside}
		text, err := limit.ReadList(one, &http.Client{Transport: t}, at)
		cancel()
		t.CloseIdleConnections()
		if ctx.Err() != nil {
			return again
		}
		_, had := kept[at]
		switch {
		case err == nil:
			kept[at], _ = limit.NewBlocked(text) // too many names are said below
			p.notes.clear(each[i])
		case had:
			again = listsAgain
			p.notes.set(each[i], words.T("note.list.stays"))
		default:
			again = listsAgain
			why := saidBy(each[i].In(words.English), at, err)
			if p.notes.set(each[i], words.T("note.list.unread", why)) {
				p.log.Warn("a block list cannot be read", "list", limit.Shown(at), "err", why)
			}
		}
		sets = append(sets, kept[at])
	}
	b, err := limit.Join(sets...)
	says := words.Text{}
	if err != nil {
		says = words.T("note.list.long", words.Num(limit.MaxListNames))
	}
	p.notes.set(matter("lists"), says)
	p.blocked.Store(b)
	return again
}

// lastTrouble remembers the last warning or error of the log, without its values, which may name sites.
type lastTrouble struct {
	mu   sync.Mutex
	what string
	at   time.Time
}

func (l *lastTrouble) over(next slog.Handler) slog.Handler { return troubleHandler{next, l} }

func (l *lastTrouble) get() (what string, at time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.what, l.at
}

// troubleSays words a message of the log, which is in English; those of a library have no other words.
func troubleSays(what string, at words.Text) words.Text {
	if key := "trouble." + what; words.Has(key) {
		return words.T("health.trouble.says", at, words.T(key))
	}
	return words.T("health.trouble.other", at, what)
}

type troubleHandler struct {
	slog.Handler
	last *lastTrouble
}

func (h troubleHandler) Handle(ctx context.Context, r slog.Record) error {
	if r.Level >= slog.LevelWarn {
		h.last.mu.Lock()
		h.last.what, h.last.at = r.Message, r.Time
		h.last.mu.Unlock()
	}
	return h.Handler.Handle(ctx, r)
}

func (h troubleHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return troubleHandler{h.Handler.WithAttrs(attrs), h.last}
}

func (h troubleHandler) WithGroup(name string) slog.Handler {
	return troubleHandler{h.Handler.WithGroup(name), h.last}
}
