package desk

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"shoal/manager"
)

// books is an archive that keeps credit, and notes what it is asked.
type books struct {
	Archive
	since time.Time
	names map[string]manager.Profile
	board manager.Board
}

func (b *books) CreditOf(_ context.Context, account string) (manager.AccountCredit, error) {
	return manager.AccountCredit{Account: account, Profile: b.names[account]}, nil
}

func (b *books) Board(_ context.Context, since time.Time, _ int) (manager.Board, error) {
	b.since = since
	out := b.board
	out.From, out.Names, out.Teams = since, slices.Clone(out.Names), slices.Clone(out.Teams)
	return out, nil
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
		if _, err := d.Board(t.Context(), weeks, 10, ""); err != nil || !b.since.Equal(want) {
			t.Errorf("%d weeks: since %v, %v; want %v", weeks, b.since, err, want)
		}
	}
	b.board.Names = []manager.BoardRow{{Name: "Ali", Account: "alice"}, {Name: "Bob", Team: "aLI", Account: "bob"}, {Name: "Cy", Account: "cy"}}
	b.board.Teams = []manager.BoardRow{{Name: "Sharks"}, {Name: "aLI"}}
	if found, err := d.Board(t.Context(), 0, 10, "ali"); err != nil || len(found.Names) != 2 || found.Names[1].Account != "bob" || len(found.Teams) != 1 {
		t.Errorf("of that name: %+v, %v", found, err)
	}
	for _, c := range [][2]int{{-1, 10}, {1, 0}, {1, MaxBoard + 1}, {MaxBoardWeeks + 1, 1}} {
		if _, err := d.Board(t.Context(), c[0], c[1], ""); !errors.Is(err, ErrAsk) {
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
	if _, err := d.Board(t.Context(), 1, 1, ""); !errors.Is(err, ErrStopped) {
		t.Error(err)
	}
}
