package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"shoal/internal/release"
	"shoal/internal/release/carry"
	"shoal/internal/release/signing"
	"shoal/internal/release/trusted"
	"shoal/manager"
	"shoal/manager/joint"
)

// Managers that share a network serve one list of releases. The signed files and the roll-out lie in one record of the database, which one manager at a
// time changes; each copies the files to its own folder, and fetches the programs from the others. What peers tell of their programs each manager reads from all others.

// noteReleases is what managers call a note that says that the record has changed.
const noteReleases = "releases"

// together is what a manager's releases need of the others.
type together struct {
	record   releaseRecord
	others   func() []joint.Other
	reports  func(ctx context.Context, peer string, of joint.Heard) (joint.HeardPage, error)
	download func(ctx context.Context, peer, name string, length int64) ([]byte, error)
	tell     func(ctx context.Context) error // that the record has changed
	name     string                          // of this start's book
	woken    chan struct{}                   // the record is to be looked at now

	complete map[string]bool // versions of which all programs are here; guarded by releases.mu

	agreed bool                   // since this start
	good   map[string][32]byte    // programs that were found here as they were signed; owned by run, like what follows
	read   map[string]joint.Heard // how far each other manager's book is read
}

// releaseRecord is where the record is kept; *postgres.Several is one.
type releaseRecord interface {
	State(ctx context.Context, name string) ([]byte, error)
	Change(ctx context.Context, name string, f func(state []byte) ([]byte, error)) error
}

// releasesShared is the record.
type releasesShared struct {
	Files   signing.Files   `json:"files"`
	Rollout release.Rollout `json:"rollout"`
}

// together joins this manager's releases with the others'; nil: there are none.
func (st *station) releasesTogether() *together {
	if st.others == nil {
		return nil
	}
	return &together{
		record: st.others.shared, others: st.otherManagers, download: st.programOf, name: rand.Text(), woken: make(chan struct{}, 1),
		reports: func(ctx context.Context, peer string, of joint.Heard) (joint.HeardPage, error) {
			return st.joint.Reports(ctx, peer, of)
		},
		tell:     func(ctx context.Context) error { return st.manager.TellOthers(ctx, noteReleases, nil) },
		complete: map[string]bool{}, good: map[string][32]byte{}, read: map[string]joint.Heard{},
	}
}

// programOf fetches a program from another manager.
func (st *station) programOf(ctx context.Context, name, program string, length int64) (b []byte, err error) {
	id, err := st.reachManager(ctx, name)
	if err != nil {
		return nil, err
	}
	err = carry.Client{Node: st.node, Manager: id}.Download(ctx, program, 0, length, func(part []byte) error { b = append(b, part...); return nil })
	return b, err
}

// has reports whether the programs of a version are here, so that it can be offered.
func (t *together) has(version string) bool { return t == nil || t.complete[version] }

// wakeUp has the record looked at now.
func (r *releases) wakeUp() {
	if r.together == nil {
		return
	}
	select {
	case r.together.woken <- struct{}{}:
	default:
	}
}

// woken is told when to; nil: never.
func (r *releases) woken() <-chan struct{} {
	if r.together == nil {
		return nil
	}
	return r.together.woken
}

// parseShared reads the record; nil: there is none yet.
func parseShared(b []byte) (*releasesShared, error) {
	if len(b) == 0 {
		return nil, nil
	}
	var s releasesShared
	if err := json.Unmarshal(b, &s); err != nil {
		return nil, fmt.Errorf("the releases that managers share, in the database: %w", err)
	}
	return &s, nil
}

// change changes the record, and this manager's own copy with it. did tells that something is new.
func (r *releases) change(ctx context.Context, do func(s *releasesShared) (did bool, err error)) (did bool, err error) {
	var s *releasesShared
	err = r.together.record.Change(ctx, manager.StateReleases, func(b []byte) ([]byte, error) {
		var err error
		if s, err = parseShared(b); err != nil {
			return nil, err
		}
		if s == nil {
			r.mu.Lock()
			s = &releasesShared{Rollout: r.book.Rollout} // of the time when it was alone
			r.mu.Unlock()
		}
		if did, err = do(s); err != nil {
			return nil, err
		}
		return json.Marshal(s)
	})
	if err != nil {
		return false, err
	}
	if err := r.adopt(s); err != nil {
		return false, err
	}
	if !did {
		return false, nil
	}
	if err := r.together.tell(ctx); err != nil { // they look by themselves in some seconds
		r.log.Debug("the other managers were not told that the releases have changed", "err", err)
	}
	return true, nil
}

// adopt has this manager serve what the record says.
func (r *releases) adopt(s *releasesShared) error {
	r.mu.Lock()
	if own := r.book.Rollout; own.Version != s.Rollout.Version || own.Share != s.Rollout.Share || own.Stopped != s.Rollout.Stopped || !own.Since.Equal(s.Rollout.Since) || !own.Again.Equal(s.Rollout.Again) {
		r.book.Rollout = s.Rollout
		r.save()
	}
	r.mu.Unlock()
	return r.shelf.Put(s.Files)
}

// decide changes the roll-out for all managers.
func (r *releases) decide(do func(*release.Book) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), decideTime)
	defer cancel()
	var refused error
	_, err := r.change(ctx, func(s *releasesShared) (bool, error) {
		r.mu.Lock()
		defer r.mu.Unlock()
		was := r.book.Rollout
		r.book.Rollout = s.Rollout
		refused = do(r.book)
		s.Rollout, r.book.Rollout = r.book.Rollout, was
		return true, nil
	})
	return errors.Join(refused, err)
}

const decideTime = 10 * time.Second

// agree has this manager serve what all serve, signs it anew where that is due, and tells the others what an operator has put on this manager's shelf.
func (r *releases) agree(ctx context.Context) (did bool, err error) {
	limited, cancel := context.WithTimeout(ctx, decideTime)
	defer cancel()
	b, err := r.together.record.State(limited, manager.StateReleases)
	if err != nil {
		return false, err
	}
	s, err := parseShared(b)
	if err != nil {
		return false, err
	}
	if s == nil && r.shelf.Empty() {
		return false, nil
	}
	var of signing.Files
	if s != nil {
		of = s.Files
	}
	due, err := r.shelf.Ahead(of)
	if err != nil {
		return false, err
	}
	stop := r.stopsHere(s)
	own, alone := r.rollsLater(s)
	if !due && stop == "" && !alone {
		if err := r.adopt(s); err != nil {
			return false, err
		}
		if len(of) > 0 {
			if due, err = r.shelf.Due(r.clock()); err != nil {
				return false, err
			}
		}
	}
	if due || stop != "" || alone {
		if did, err = r.change(limited, func(s *releasesShared) (changed bool, err error) {
			if stop != "" && s.Rollout.Version == r.rolled() && s.Rollout.Stopped == "" {
				s.Rollout.Stopped, changed = stop, true
			}
			if alone && later(own, s.Rollout) {
				s.Rollout, changed = own, true
			}
			if r.shelf.Empty() && len(s.Files) == 0 {
				return changed, nil
			}
			files, anew, err := r.shelf.Merge(s.Files, r.clock())
			if err == nil && anew {
				s.Files, changed = files, true
			}
			return changed, err
		}); err != nil {
			return false, err
		}
	}
	r.together.agreed = true
	r.readReports(ctx)
	return did, r.fetchPrograms(ctx)
}

func (r *releases) rolled() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.book.Rollout.Version
}

// stopsHere is why this manager has found that the roll-out must stop, of which the others do not know; empty: it has not.
func (r *releases) stopsHere(s *releasesShared) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	own := r.book.Rollout
	if s == nil {
		return ""
	}
	if own.Version != s.Rollout.Version || s.Rollout.Stopped != "" || !r.halted {
		r.halted = false
		return ""
	}
	return own.Stopped
}

const fetchTime = 2 * time.Minute // after which the record is looked at again before more is fetched

// fetchPrograms fetches what the list names and this manager lacks, from any that has it.
func (r *releases) fetchPrograms(ctx context.Context) error {
	if r.shelf.Empty() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, fetchTime)
	defer cancel()
	lacks, err := r.shelf.Lacks(r.together.good)
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(lacks)) {
		p := lacks[name]
		if r.fetchProgram(ctx, &p) {
			delete(lacks, name)
		}
	}
	list, _, err := r.shelf.Programs()
	if err != nil {
		return err
	}
	complete := map[string]bool{}
	for _, p := range list {
		complete[p.Version] = true
	}
	for _, p := range lacks {
		complete[p.Version] = false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.together.complete = complete
	return nil
}

func (r *releases) fetchProgram(ctx context.Context, p *trusted.Program) bool {
	for _, o := range r.together.others() {
		b, err := r.together.download(ctx, o.Peer, p.Target, p.Length)
		if err == nil {
			err = r.shelf.Add(*p, b)
		}
		if err == nil {
			r.log.Info("a program of a release is here, from another manager", "program", p.Target)
			return true
		}
		r.log.Debug("a program of a release is not fetched from another manager", "program", p.Target, "manager", o.Machine, "err", err)
	}
	return false
}

// page is what other managers read of this one's book.
func (r *releases) page(of joint.Heard) joint.HeardPage {
	r.mu.Lock()
	defer r.mu.Unlock()
	if of.Book != r.together.name {
		of.After = 0
	}
	list, next := r.book.Since(of.After, joint.MostHeard)
	return joint.HeardPage{Book: r.together.name, Reports: list, Next: next, More: len(list) == joint.MostHeard}
}

// readReports reads what peers have told the other managers of their programs.
func (r *releases) readReports(ctx context.Context) {
	others := r.together.others()
	maps.DeleteFunc(r.together.read, func(name string, _ joint.Heard) bool {
		return !slices.ContainsFunc(others, func(o joint.Other) bool { return o.Peer == name })
	})
	for _, o := range others {
		for more := true; more; {
			p, err := r.together.reports(ctx, o.Peer, r.together.read[o.Peer])
			if err != nil {
				r.log.Debug("what peers told another manager of their programs is not read", "manager", o.Machine, "err", err)
				break
			}
			r.together.read[o.Peer] = joint.Heard{Book: p.Book, After: p.Next}
			r.merge(p.Reports)
			more = p.More
		}
	}
}

func (r *releases) merge(list []release.Report) {
	r.mu.Lock()
	defer r.mu.Unlock()
	stopped, news := r.book.Merge(list)
	r.news = r.news || news
	if stopped {
		r.stoppedItself()
	}
}
