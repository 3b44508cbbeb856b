package desk

import (
	"context"
	"errors"
	"testing"
	"time"

	"shoal/manager"
)

// books is an archive that keeps credit, and notes what it is asked.
type books struct {
	Archive
	since time.Time
	names map[string]manager.Profile
}

func (b *books) CreditOf(_ context.Context, account string) (manager.AccountCredit, error) {
	return manager.AccountCredit{Account: account, Profile: b.names[account]}, nil
}

func (b *books) Board(_ context.Context, since time.Time, _ int) (manager.Board, error) {
	b.since = since
	return manager.Board{From: since}, nil
}

func (b *books) SetProfile(account string, f manager.Profile) error {
	if f.Nickname == "bad" {
		return manager.ErrProfile
	}
	b.names[account] = f
	return nil
}

// The desk asks for whole weeks, refuses what makes no sense, and says so where no archive is at hand.
func TestCredit(t *testing.T) {
	now := time.Date(2026, 11, 22, 15, 0, 0, 0, time.UTC)
	b := &books{names: map[string]manager.Profile{}}
	d := &Desk{cfg: Config{Now: func() time.Time { return now }}, files: b}
	for weeks, want := range map[int]time.Time{0: {}, 1: now, 4: now.AddDate(0, 0, -21)} {
		if _, err := d.Board(t.Context(), weeks, 10); err != nil || !b.since.Equal(want) {
			t.Errorf("%d weeks: since %v, %v; want %v", weeks, b.since, err, want)
		}
	}
	for _, c := range [][2]int{{-1, 10}, {1, 0}, {1, MaxBoard + 1}, {MaxBoardWeeks + 1, 1}} {
		if _, err := d.Board(t.Context(), c[0], c[1]); !errors.Is(err, ErrAsk) {
			t.Errorf("%v: %v", c, err)
		}
	}
	if err := d.SetProfile(t.Context(), "alice", manager.Profile{Nickname: "Ali", Public: true}); err != nil {
		t.Error(err)
	}
	if c, err := d.CreditOf(t.Context(), "alice"); err != nil || c.Profile.Nickname != "Ali" {
		t.Errorf("%+v, %v", c, err)
	}
	for _, err := range []error{
		d.SetProfile(t.Context(), "alice", manager.Profile{Nickname: "bad"}), d.SetProfile(t.Context(), "", manager.Profile{}),
	} {
		if !errors.Is(err, ErrAsk) {
			t.Error(err)
		}
	}
	if _, err := d.CreditOf(t.Context(), ""); !errors.Is(err, ErrAsk) {
		t.Error(err)
	}
	d.files = nil
	if _, err := d.Board(t.Context(), 1, 1); !errors.Is(err, ErrStopped) {
		t.Error(err)
	}
}
