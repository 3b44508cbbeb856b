package desk

import (
	"context"
	"testing"
	"time"

	"shoal/channel"
	"shoal/manager"
)

// running is a manager of which only what a test asks for is there.
type running struct {
	Running
	is manager.Overview
}

func (r *running) Overview() manager.Overview { return r.is }

func (r *running) PlanBasis(context.Context) (manager.PlanBasis, error) {
	return manager.PlanBasis{}, nil
}

func (r *running) Inspect(context.Context, []channel.Channel) ([]manager.Inspection, error) {
	return nil, nil
}

// looked is a slow database that counts how often it is read.
type looked struct {
	manager.Store
	lists int
}

func (l *looked) List(context.Context, channel.ID, int) ([]channel.Channel, error) {
	if l.lists++; l.lists > 3 {
		return nil, nil
	}
	time.Sleep(tallyPart)
	return []channel.Channel{{ID: channel.ID(l.lists), State: channel.Removed}}, nil
}

// TestChannelsOfAllManagers: how many channels there are is asked of all managers that share a network, each of which has a part, by a plan and by who counts
// them by and by if they are very many.
func TestChannelsOfAllManagers(t *testing.T) {
	store := &looked{}
	d := &Desk{store: store, m: &running{is: manager.Overview{Channels: tallyMost / 2}}}
	d.cfg.Managers = func() ([]Manager, Figures) {
		return []Manager{{Here: true, Figures: Figures{Channels: tallyMost / 2}}, {Figures: Figures{Channels: tallyMost}}}, Figures{}
	}
	basis, err := d.PlanBasis(t.Context(), StoppedPace{Tick: time.Minute})
	if err != nil || basis.Channels != tallyMost*3/2 {
		t.Errorf("a plan looks at %d channels, want %d, %v", basis.Channels, tallyMost*3/2, err)
	}
	if _, err := d.Tally(t.Context()); err != nil || store.lists != 1 {
		t.Errorf("%d parts were read at once, %v", store.lists, err)
	}
}
