package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"shoal/internal/member"
	"shoal/manager"
)

// run runs everything until ctx ends, and returns after all of it has ended.
func (st *station) run(asked context.Context) error {
	ctx, cancel := context.WithCancelCause(asked)
	defer cancel(nil)
	var wg sync.WaitGroup
	part := func(name string, f func(context.Context) error) {
		wg.Add(1)
		go func() {
			defer wg.Done()
			if err := f(ctx); err != nil && ctx.Err() == nil {
				cancel(fmt.Errorf("%s: %w", name, err))
			}
		}()
	}
	part("wire", st.node.Run)
	part("archive", st.archive.Run)
	part("overlay", st.swarm.Run)
	part("manager", st.manager.Run)
	part("document", st.renewDocument)
	part("releases", st.releases.run)
	if st.joint != nil {
		part("other managers", func(ctx context.Context) error { st.joint.Watch(ctx); return nil })
		part("keys", st.watchStolen)
	}
	part("data", func(ctx context.Context) error {
		return watchWrites(ctx, func() bool { return st.db.Broken() || st.archive.Broken() }, st.archive.Others.Out, roomOn(st.cfg.data))
	})
	if m := st.cfg.mover; m != nil {
		m.resumed()
		part("move", func(ctx context.Context) error { return m.run(ctx, st) })
	}
	if st.page != nil {
		part("page", st.servePage)
	}
	if st.board != nil {
		part("board", st.serveBoard)
	}
	if st.cfg.truth != nil {
		part("truth", func(ctx context.Context) error {
			st.cfg.truth.run(ctx, st.archive, st.db.List, func() float64 { return st.desk.Overview().Freshness })
			return nil
		})
	}
	<-ctx.Done()
	wg.Wait()
	return endedBy(asked, ctx)
}

// endedBy is the error of the part that ended ctx, nil if asked did. What a part says may be about a time limit of its own, as one of the database's: that is
// an error all the same.
func endedBy(asked, ctx context.Context) error {
	if asked.Err() != nil {
		return nil
	}
	return context.Cause(ctx)
}

const writesEvery = 5 * time.Second

// errReopen ends a manager that can go on when it is started again, which a service does by itself.
var errReopen = errors.New("a write had failed, and the data folder can be written again: start again to go on; nothing is lost")

// watchWrites ends the manager when a write has failed and the folder can be written again: the state of the disk is
// unknown until the databases are opened anew. While the folder cannot be written, the manager serves what is there.
// It ends it too when others have shut it out of the archive, for it to begin anew.
func watchWrites(ctx context.Context, broken func() bool, out, room func() error) error {
	t := time.NewTicker(writesEvery)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-t.C:
			if err := out(); err != nil {
				return fmt.Errorf("%w: %w", manager.ErrEnded, err)
			}
			if broken() && room() == nil {
				return errReopen
			}
		}
	}
}

const (
	documentEvery = member.CertificateLife / 2
	documentLook  = 10 * time.Second // between two looks at the clock: a timer does not run while a computer sleeps, and knows of no clock that is set
)

// documentDue tells whether the document of some time is to be signed anew, by the wall clock. A clock that was set back was wrong when it was signed.
func documentDue(last, now time.Time) bool {
	age := now.Round(0).Sub(last.Round(0))
	return age < 0 || age >= documentEvery
}

// signAgain is issued.due. The documents of other managers that share the network are signed beside this manager's, and are no reason.
func signAgain(st *station) bool {
	var held member.Document
	if st.others == nil {
		held, _ = st.node.Document()
	}
	st.publishing.Lock()
	defer st.publishing.Unlock()
	return st.issued.due(st.node.Now(), held.Issued)
}

// renewDocument signs the network document anew in time.
func (st *station) renewDocument(ctx context.Context) error {
	t := time.NewTicker(documentLook)
	defer t.Stop()
	last := time.Now()
	var changed <-chan struct{}
	if st.others != nil {
		changed = st.others.changed
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
			if err := errors.Join(st.keepKeys(ctx, time.Now()), st.publish(time.Now())); err != nil {
				st.cfg.log.Error("network document not renewed", "err", err)
			}
		case now := <-t.C:
			if !documentDue(last, now) && !signAgain(st) {
				continue
			}
			last = now
			st.publishing.Lock()
			err := st.keys.Refresh(now)
			st.publishing.Unlock()
			if err != nil {
				st.cfg.log.Error("working key's delegation not renewed", "err", err)
			}
			if err := errors.Join(st.keepKeys(ctx, now), st.publish(now), st.keepLeast(ctx)); err != nil {
				st.cfg.log.Error("network document not renewed", "err", err)
			}
		}
	}
}

func (st *station) servePage(ctx context.Context) error {
	h, err := st.handler()
	if err != nil {
		return err
	}
	return st.serveHTTP(ctx, bounded(st.page, st.cfg.log), &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: time.Minute, MaxHeaderBytes: 32 << 10})
}

// serveHTTP serves until ctx ends.
func (st *station) serveHTTP(ctx context.Context, at net.Listener, s *http.Server) error {
	s.ErrorLog = slog.NewLogLogger(st.cfg.log.Handler(), slog.LevelDebug)
	stop := context.AfterFunc(ctx, func() {
		sctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		if s.Shutdown(sctx) != nil {
			s.Close()
		}
	})
	defer stop()
	if err := s.Serve(at); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
