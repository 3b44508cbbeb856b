package desk

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"shoal/internal/release"
)

// ReleaseKeeper is a manager's shelf of releases of the volunteers' program, and its book of who runs which.
type ReleaseKeeper interface {
	// Signed are the releases that offline keys have signed, the newest first, and until when that list is good.
	Signed() (list []Release, until time.Time, err error)
	Summary() release.Summary
	Roll(version string, share int, again bool) error
	Stop(why string) error
}

// Release is a version of the volunteers' program that offline keys have signed.
type Release struct {
	Version string   `json:"version"`
	Notes   string   `json:"notes,omitempty"`
	Systems []string `json:"systems"` // with their architectures: linux-amd64
	Bytes   int64    `json:"bytes"`   // of the largest, as it travels
}

// Releases is what an operator sees of them.
type Releases struct {
	Signed  []Release       `json:"signed"`
	Until   time.Time       `json:"signatures_good_until,omitzero"`
	Rollout release.Summary `json:"rollout"`
	// Of all peers that take it, as a percentage; and how many of them may fall back, in percent, before it stops by itself.
	ShareShown string `json:"share"`
	StopsAbove int    `json:"stops_above_percent"`
}

// RolloutAsk begins a roll-out, or widens or narrows it.
type RolloutAsk struct {
	Version string `json:"version"`
	Share   string `json:"share"`           // of all peers: 10%
	Again   bool   `json:"again,omitempty"` // although it has stopped by itself
}

// Shelf is the part of a desk that is about releases of the volunteers' program.
type Shelf struct{ d *Desk }

// Shelf returns it.
func (d *Desk) Shelf() Shelf { return Shelf{d} }

// Releases tells which releases are signed, who runs which, and how the roll-out goes.
func (s Shelf) Releases() (Releases, error) {
	keeper, err := s.keeper()
	if err != nil {
		return Releases{}, err
	}
	out := Releases{Signed: []Release{}, Rollout: keeper.Summary(), StopsAbove: release.StopPercent}
	out.ShareShown = strconv.FormatFloat(float64(out.Rollout.Share)*100/release.Whole, 'g', 4, 64) + "%"
	list, until, err := keeper.Signed()
	if err != nil {
		return Releases{}, err
	}
	out.Signed, out.Until = append(out.Signed, list...), until
	return out, nil
}

// Roll begins a roll-out, or widens or narrows it.
func (s Shelf) Roll(ask RolloutAsk) (Releases, error) {
	keeper, err := s.keeper()
	if err != nil {
		return Releases{}, err
	}
	share, err := ParseShare(ask.Share)
	if err != nil {
		return Releases{}, asks("%v", err)
	}
	v, err := release.Parse(ask.Version)
	if err != nil {
		return Releases{}, asks("%v", err)
	}
	list, _, err := keeper.Signed()
	if err != nil {
		return Releases{}, err
	}
	if !slices.ContainsFunc(list, func(r Release) bool { return r.Version == v.String() }) {
		return Releases{}, asks("no release %s is signed; sign it on the offline computer with shoal release add, then carry it here with shoal release publish", v)
	}
	if err := keeper.Roll(v.String(), share, ask.Again); err != nil {
		return Releases{}, asks("%v", strings.TrimPrefix(err.Error(), "release: "))
	}
	return s.Releases()
}

// StopRollout ends the roll-out that goes on: no further peer takes the version.
func (s Shelf) StopRollout() (Releases, error) {
	keeper, err := s.keeper()
	if err != nil {
		return Releases{}, err
	}
	if keeper.Summary().Version == "" {
		return Releases{}, asks("nothing is rolled out")
	}
	if err := keeper.Stop("by an operator"); err != nil {
		return Releases{}, err
	}
	return s.Releases()
}

func (s Shelf) keeper() (ReleaseKeeper, error) {
	if err := s.d.Live(); err != nil {
		return nil, err
	}
	if s.d.cfg.Releases == nil {
		return nil, fmt.Errorf("%w: this manager serves no releases", ErrStopped)
	}
	return s.d.cfg.Releases, nil
}

// ParseShare reads a share of all peers, such as 10% or 0.5%.
func ParseShare(s string) (share int, err error) {
	text, ok := strings.CutSuffix(strings.TrimSpace(s), "%")
	v, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
	if !ok || err != nil || math.IsNaN(v) || v < 0 || v > 100 {
		return 0, fmt.Errorf("a share of %.20q: want a percentage such as 1%%, 10%% or 100%%", s)
	}
	share = int(math.Round(v * release.Whole / 100))
	if share == 0 && v > 0 {
		return 0, errors.New("a share below 0.01% is of no peer")
	}
	return share, nil
}
