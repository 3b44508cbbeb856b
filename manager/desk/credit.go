package desk

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"shoal/manager"
)

// Crediter is an archive that keeps credit for what was corroborated.
type Crediter interface {
	CreditOf(ctx context.Context, account string) (manager.AccountCredit, error)
	Board(ctx context.Context, since time.Time, n int) (manager.Board, error)
	SetProfile(account string, f manager.Profile) error
}

// Limits of a board.
const (
	MaxBoard      = 1000    // rows of it
	MaxBoardWeeks = 10 * 53 // that it adds up
)

// CreditOf tells what an account was credited with, week by week.
func (d *Desk) CreditOf(ctx context.Context, account string) (manager.AccountCredit, error) {
	a, err := crediterOf(d)
	if err != nil {
		return manager.AccountCredit{}, err
	}
	if account == "" {
		return manager.AccountCredit{}, asks("no account is named")
	}
	return a.CreditOf(ctx, account)
}

// Board tells which accounts and teams were credited with the most in the last weeks, this one included; 0: ever. With a name it has the lines of that nickname or team
// alone, wherever they stand.
func (d *Desk) Board(ctx context.Context, weeks, n int, name string) (manager.Board, error) {
	a, err := crediterOf(d)
	if err != nil {
		return manager.Board{}, err
	}
	if weeks < 0 || weeks > MaxBoardWeeks || n < 1 || n > MaxBoard {
		return manager.Board{}, asks("%d weeks and %d rows of the board: there are 0 to %d weeks, and 1 to %d rows", weeks, n, MaxBoardWeeks, MaxBoard)
	}
	var since time.Time
	if weeks > 0 {
		since = d.cfg.Now().AddDate(0, 0, -7*(weeks-1))
	}
	if name == "" {
		return a.Board(ctx, since, n)
	}
	b, err := a.Board(ctx, since, math.MaxInt)
	key := manager.NameKey(name)
	is := func(name string) bool { return name != "" && manager.NameKey(name) == key }
	b.Names = slices.DeleteFunc(b.Names, func(r manager.BoardRow) bool { return !is(r.Name) && !is(r.Team) })
	b.Teams = slices.DeleteFunc(b.Teams, func(r manager.BoardRow) bool { return !is(r.Name) })
	b.Names, b.Teams = b.Names[:min(len(b.Names), n)], b.Teams[:min(len(b.Teams), n)]
	return b, err
}

// SetProfile stores how an account wants to be shown on the board. The zero Profile removes it from there.
func (d *Desk) SetProfile(_ context.Context, account string, f manager.Profile) error {
	a, err := crediterOf(d)
	if err != nil {
		return err
	}
	if account == "" {
		return asks("no account is named")
	}
	if err := a.SetProfile(account, f); errors.Is(err, manager.ErrProfile) {
		return asks("%v", err)
	} else if err != nil {
		return err
	}
	return nil
}

func crediterOf(d *Desk) (Crediter, error) {
	a, ok := d.files.(Crediter)
	if !ok {
		return nil, fmt.Errorf("credit: no archive at hand: %w", ErrStopped)
	}
	return a, nil
}
