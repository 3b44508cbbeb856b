package main

import (
	"errors"
	"fmt"
	"time"

	"shoal/internal/release"
	"shoal/internal/release/programs"
)

// order carries out what the volunteer says about updates.
func (u *updater) order(args map[string]string) error {
	switch u.setting() {
	case updateBy:
		return errors.New("a package keeps this program up to date: update it as the system's other programs")
	case updateBuilt:
		return fmt.Errorf("this program (%s) is no release, so that none can be newer; install a release to get updates", u.own)
	}
	u.mu.Lock()
	offered := u.offer.Version
	u.mu.Unlock()
	switch what := args["what"]; what {
	case "take":
		return u.orderTake(offered)
	case "refuse":
		return u.orderRefuse(offered)
	case "look":
		u.wake()
		return nil
	default:
		return fmt.Errorf("%w: unknown order %q about updates", errSettings, what)
	}
}

// orderTake has the offered version taken.
func (u *updater) orderTake(offered string) error {
	takes := offered
	err := u.change(func(st *programs.State) error {
		switch {
		case release.Newer(offered, u.own): // it is the one that is shown
		case st.Next != nil:
			takes = st.Next.Version
		case st.Trial != nil:
			takes = st.Trial.Version
		}
		r, refused := st.Refuses(offered)
		if refused && r.Fell {
			return fmt.Errorf("this computer went back from version %s, because it %s; it takes the next one", r.Version, r.Why)
		}
		if st.Trial.Stuck() { // it is tried at once, or overtaken
			if !refused {
				return errNothing
			}
			st.Allow(offered)
			return nil
		}
		if st.Trial != nil {
			return fmt.Errorf("version %s is on probation; what comes after it can be taken when that is over", st.Trial.Version)
		}
		if st.Next == nil && !release.Newer(offered, u.own) {
			return fmt.Errorf("the company offers no version newer than %s", u.own)
		}
		if !refused {
			return errNothing
		}
		st.Allow(offered)
		return nil
	})
	if err != nil && !errors.Is(err, errNothing) {
		return err
	}
	u.mu.Lock()
	u.take, u.takes = true, takes
	u.mu.Unlock()
	u.wake()
	return nil
}

// orderRefuse has the version that is here or offered never taken.
func (u *updater) orderRefuse(offered string) error {
	var kept programs.State
	err := u.change(func(st *programs.State) error {
		which := offered
		switch {
		case st.Next != nil:
			which = st.Next.Version
		case st.Trial.Stuck() && !release.Newer(offered, st.Trial.Version):
			which = st.Trial.Version
		}
		if !release.Newer(which, u.own) {
			return errors.New("no newer version is offered that could be refused")
		}
		st.Refuse(which, time.Now())
		kept = *st
		return nil
	})
	if err != nil {
		return err
	}
	u.mu.Lock()
	u.take, u.takes = false, "" // that was about this one
	u.mu.Unlock()
	u.folder.Tidy(&kept, nil)
	return nil
}
