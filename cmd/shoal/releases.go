package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"shoal/channel"
	"shoal/internal/member"
	"shoal/internal/release"
	"shoal/internal/release/carry"
	"shoal/internal/release/signing"
	"shoal/internal/wire"
	"shoal/manager/desk"
)

// releases are the versions of the volunteers' program that a manager serves, and the book of who runs which. It holds the key of snapshot and
// timestamp, which can sign no program.
type releases struct {
	shelf    signing.Shelf
	file     string // of the book
	log      *slog.Logger
	prefixOf func(peer string) string
	clock    func() time.Time
	together *together // nil: this is the only manager

	mu     sync.Mutex // guards what follows
	book   *release.Book
	news   bool            // the file lacks something
	heard  bool            // it lacks only that peers were heard again
	halted bool            // the roll-out has stopped by itself, and other managers may not know
	kept   time.Time       // the file was written
	absent map[string]bool // versions of which a program is not here, as another manager had it that is not there any more

	seen map[string][32]byte // programs that were found here as they were signed; owned by recall and run
}

// bookKept is the book's file.
type bookKept struct {
	Version int              `json:"version"`
	Rollout release.Rollout  `json:"rollout"`
	Reports []release.Report `json:"reports"`
}

// shelfOf is the folder of releases in a manager's data folder.
func shelfOf(data string) signing.Shelf { return signing.Shelf{Dir: filepath.Join(data, "releases")} }

func openReleases(data string, log *slog.Logger, prefixOf func(string) string, clock func() time.Time) (*releases, error) {
	r := &releases{shelf: shelfOf(data), file: filepath.Join(data, "releases.json"), log: log, prefixOf: prefixOf, clock: clock, book: release.NewBook(release.Rollout{}, nil), kept: clock()}
	b, err := os.ReadFile(r.file)
	if errors.Is(err, fs.ErrNotExist) {
		return r, nil
	}
	var kept bookKept
	if err == nil {
		err = json.Unmarshal(b, &kept)
	}
	if err != nil {
		return nil, fmt.Errorf("read who runs which version: %w; mend or remove %s, after which nothing is rolled out", err, r.file)
	}
	r.book = release.NewBook(kept.Rollout, kept.Reports)
	return r, nil
}

// openReleases serves the releases of the volunteers' program.
func (st *station) openReleases() (err error) {
	if st.releases, err = openReleases(st.cfg.data, st.cfg.log, st.prefixOf, st.node.Now); err == nil {
		st.releases.together = st.releasesTogether()
		err = st.recallReleases()
		carry.Serve(st.node, st.releases)
	}
	return err
}

// Dir implements carry.Source.
func (r *releases) Dir() string { return r.shelf.Dir }

// Told implements carry.Source.
func (r *releases) Told(from wire.Member, x release.Report) carry.Offer {
	x.Peer, x.Account, x.At = from.Peer.String(), from.Account, r.clock()
	x.Prefix = r.prefixOf(x.Peer)
	x.Version, x.System, x.Setting = channel.PlainText(x.Version, release.MaxVersion), channel.PlainText(x.System, release.MaxVersion), channel.PlainText(x.Setting, release.MaxVersion)
	for i := range x.Falls {
		x.Falls[i].Version, x.Falls[i].Why = channel.PlainText(x.Falls[i].Version, release.MaxVersion), channel.PlainText(x.Falls[i].Why, release.MaxWhy)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	stopped, news := r.book.Told(x)
	r.news, r.heard = r.news || news, true
	if stopped {
		r.stoppedItself()
	}
	if o := r.book.Rollout; o.Stopped == "" && r.together.has(o.Version) && !r.absent[o.Version] {
		return carry.Offer{Version: o.Version, Share: o.Share}
	}
	return carry.Offer{}
}

// stoppedItself says and keeps that the roll-out has stopped. The caller holds the lock.
func (r *releases) stoppedItself() {
	r.log.Warn("the roll-out has stopped by itself", "version", r.book.Rollout.Version, "why", r.book.Rollout.Stopped)
	r.halted = true
	r.save()
	r.wakeUp() // the other managers are to stop too
}

// save keeps the book. The caller holds the lock.
func (r *releases) save() {
	b, err := json.Marshal(bookKept{1, r.book.Rollout, r.book.Reports()})
	if err == nil {
		err = member.WriteFile(r.file, b)
	}
	if err != nil {
		r.log.Error("who runs which version is not kept", "err", err)
		return
	}
	r.news, r.heard, r.kept = false, false, r.clock()
}

// keep saves the book if it is time to.
func (r *releases) keep() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if since := r.clock().Sub(r.kept); r.news && since >= bookEvery || r.heard && since >= heardEvery {
		r.save()
	}
}

// How often the shelf is looked at, and the book is kept.
const (
	shelfEvery = 5 * time.Second
	bookEvery  = 5 * time.Minute // with news
	heardEvery = 24 * time.Hour  // without: that a peer was heard counts for a week
)

// run signs the list of releases anew in time, and keeps the book.
func (r *releases) run(ctx context.Context) error {
	t := time.NewTicker(shelfEvery)
	defer t.Stop()
	said := ""
	for {
		switch did, err := r.refresh(ctx); {
		case ctx.Err() != nil:
		case err != nil && err.Error() != said:
			said = err.Error()
			r.log.Error("the list of releases is not signed anew; peers take no updates a day later", "err", err)
		case err == nil:
			said = ""
			if did {
				r.log.Info("the list of releases is signed anew")
			}
		}
		select {
		case <-ctx.Done():
			r.mu.Lock()
			defer r.mu.Unlock()
			if r.news || r.heard {
				r.save()
			}
			return nil
		case <-t.C:
		case <-r.woken():
		}
		r.keep()
	}
}

// refresh has the list signed in time, by this manager or, among several, by one of them.
func (r *releases) refresh(ctx context.Context) (did bool, err error) {
	if r.together != nil {
		return r.agree(ctx)
	}
	if r.shelf.Empty() {
		return false, nil
	}
	if len(r.absent) > 0 { // an operator may have published them here
		if err := r.lookForPrograms(); err != nil {
			return false, err
		}
	}
	return r.shelf.Refresh(r.clock())
}

// Signed implements desk.ReleaseKeeper.
func (r *releases) Signed() (list []desk.Release, until time.Time, err error) {
	if r.shelf.Empty() {
		return nil, until, nil
	}
	programs, until, err := r.shelf.Programs()
	if err != nil {
		return nil, until, err
	}
	for name, p := range programs {
		i := slices.IndexFunc(list, func(x desk.Release) bool { return x.Version == p.Version })
		if i < 0 {
			i, list = len(list), append(list, desk.Release{Version: p.Version, Notes: p.Notes})
		}
		x := &list[i]
		x.Systems = append(x.Systems, name[strings.LastIndex(name, "/")+1:])
		x.Bytes = max(x.Bytes, p.Length)
	}
	slices.SortFunc(list, func(a, b desk.Release) int {
		if release.Newer(a.Version, b.Version) {
			return -1
		}
		return 1
	})
	for i := range list {
		slices.Sort(list[i].Systems)
	}
	return list, until, nil
}

// Summary implements desk.ReleaseKeeper.
func (r *releases) Summary() release.Summary {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.book.Summary(r.clock())
}

// Roll implements desk.ReleaseKeeper.
func (r *releases) Roll(version string, share int, again bool) error {
	if r.together != nil {
		return r.decide(func(b *release.Book) error { return b.Roll(r.clock(), version, share, again) })
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	defer r.save()
	return r.book.Roll(r.clock(), version, share, again)
}

// Stop implements desk.ReleaseKeeper.
func (r *releases) Stop(why string) error {
	if r.together != nil {
		return r.decide(func(b *release.Book) error { b.Stop(why); return nil })
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.book.Stop(why)
	r.save()
	return nil
}
