package main

import (
	"context"
	"fmt"
	"time"

	"shoal/internal/release"
	"shoal/manager"
	"shoal/manager/desk"
)

// recallTime bounds the reading of what managers shared.
const recallTime = 10 * time.Second

// recallReleases has a manager that has the network for itself go on with the releases of those that had shared it: one of them may have published or stopped one
// while this one was away. Peers refuse a list that is older than the one that they have seen.
func (st *station) recallReleases() error {
	if st.others != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), recallTime)
	defer cancel()
	b, err := st.db.State(ctx, manager.StateReleases)
	if err != nil {
		return fmt.Errorf("read the releases that managers shared: %w", err)
	}
	s, err := parseShared(b)
	if err != nil || s == nil {
		return err
	}
	if err := st.releases.recall(s); err != nil {
		st.cfg.log.Error("releases of managers that had shared this network are not served", "err", err)
	}
	return nil
}

// recall takes in what managers shared, as far as it is newer than what this one has.
func (r *releases) recall(s *releasesShared) error {
	r.mu.Lock()
	if later(s.Rollout, r.book.Rollout) {
		r.book.Rollout = s.Rollout
		r.save()
	}
	r.mu.Unlock()
	if len(s.Files) == 0 {
		return nil
	}
	files, _, err := r.shelf.Merge(s.Files, r.clock())
	if err == nil {
		err = r.shelf.Put(files)
	}
	if err != nil {
		return err
	}
	return r.lookForPrograms()
}

// later reports whether a roll-out was begun after another one, or is the same and was told later to go on all the same, or is the same and was stopped.
func later(a, b release.Rollout) bool {
	if !a.Since.Equal(b.Since) || a.Version != b.Version {
		return a.Since.After(b.Since)
	}
	return a.Again.After(b.Again) || a.Again.Equal(b.Again) && a.Stopped != "" && b.Stopped == ""
}

// rollsLater reports whether this manager has begun or stopped a roll-out while it had the network for itself, of which the others' record does not tell.
func (r *releases) rollsLater(s *releasesShared) (own release.Rollout, is bool) {
	if s == nil || r.together.agreed {
		return own, false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.book.Rollout, later(r.book.Rollout, s.Rollout)
}

// lookForPrograms finds the versions of which a program is not here. They are not offered.
func (r *releases) lookForPrograms() error {
	if r.seen == nil {
		r.seen = map[string][32]byte{}
	}
	lacks, err := r.shelf.Lacks(r.seen)
	if err != nil {
		return err
	}
	absent := map[string]bool{}
	for _, p := range lacks {
		absent[p.Version] = true
	}
	r.mu.Lock()
	r.absent = absent
	r.mu.Unlock()
	return nil
}

// lacking tells of a version that is rolled out and cannot be offered.
func (r *releases) lacking() []desk.Finding {
	r.mu.Lock()
	defer r.mu.Unlock()
	o := r.book.Rollout
	if o.Stopped != "" || !r.absent[o.Version] {
		return nil
	}
	return []desk.Finding{{Level: desk.Warning, What: "Version " + o.Version + " of the volunteers' program is rolled out, and not all its programs are here: no peer gets it. Another manager had them.",
		Mend: "Publish it here: shoal release publish DIR, with the folder in which it was signed."}}
}
