package pages

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	pb "shoal/manager/archive/archivepb"
	"shoal/manager/archive/ledger"
	"shoal/manager/archive/schema"
)

// ErrProfile says that a profile cannot be shown as it is.
var ErrProfile = errors.New("archive: bad profile")

// maxNickname bounds the characters of a nickname and of a team's name.
const maxNickname = 40

// Profile is how an account wants to be shown on the board. The zero Profile shows nothing.
type Profile struct {
	Nickname string `json:"nickname,omitempty"`
	Team     string `json:"team,omitempty"`
	Public   bool   `json:"public"` // the account wants to be on the board
}

// Earned is what other accounts have corroborated.
type Earned struct {
	Pages uint64 `json:"pages"`
	Bytes uint64 `json:"bytes"`
}

// Week is what an account was credited with in one ISO week.
type Week struct {
	Name   string    `json:"week"`  // as 2026-W47
	Monday time.Time `json:"begin"` // with which it begins, in UTC
	Earned
}

// AccountCredit is what an account was credited with. Only pages count that another account, in another network, saw alike before any peer was told what they are;
// each version counts once for each that saw it. Time, tasks and what a peer says of itself count for nothing.
type AccountCredit struct {
	Account string  `json:"account"`
	Profile Profile `json:"profile"`
	// Withheld says that the account is banned or a peer of it suspended: nothing of it counts until that is undone.
	Withheld bool   `json:"withheld,omitempty"`
	Weeks    []Week `json:"weeks"` // the latest first
	Sum      Earned `json:"sum"`
	// Rank is the account's place among the Ranked accounts that have credit, on the board or not, by pages; 0: it has none.
	Rank   int       `json:"rank"`
	Ranked int       `json:"ranked"`
	Team   TeamPlace `json:"team"`
}

// TeamPlace is where a team stands, by what its members on the board were credited with. The zero TeamPlace is of no team, or of one that has nothing yet.
type TeamPlace struct {
	Earned
	Rank  int `json:"rank"`
	Teams int `json:"teams"`
}

// BoardRow is one line of the board.
type BoardRow struct {
	Name string `json:"name"`
	Team string `json:"team,omitempty"`
	// Account is whose line it is: for operators, and not for the public. Empty: a team's.
	Account string `json:"account,omitempty"`
	Earned
}

// Board is who brought the most in some weeks. Accounts that do not want to be shown are in Others.
type Board struct {
	From   time.Time  `json:"from"` // Monday
	Names  []BoardRow `json:"names"`
	Teams  []BoardRow `json:"teams"`
	Others Earned     `json:"others"`
}

// SetProfile stores how an account wants to be shown. It stays with the account over restarts; the zero Profile removes it.
func (p *Pages) SetProfile(account string, f Profile) error {
	for _, text := range []string{f.Nickname, f.Team} {
		if !utf8.ValidString(text) || utf8.RuneCountInString(text) > maxNickname || strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) || strings.TrimSpace(text) != text {
			return fmt.Errorf("%w: %.80q: want at most %d characters that can be printed, without spaces around them", ErrProfile, text, maxNickname)
		}
	}
	number := p.ledger.DelivererNumber(account)
	key := schema.Key(schema.Profile, number)
	if f == (Profile{}) {
		return p.ledger.Change(ledger.Change{Key: key})
	}
	changes, err := ledger.Put(nil, key, &pb.Profile{Account: account, Nickname: f.Nickname, Team: f.Team, Public: f.Public})
	if err != nil {
		return err
	}
	if !f.Public {
		return p.ledger.Change(changes...)
	}
	return ledger.Revised(func() error { return p.take(number, f.Nickname, changes) })
}

// take gives an account its nickname, if that is free. Another manager that takes one at the same moment changes the same record: one of the two looks again.
func (p *Pages) take(account uint64, nickname string, changes []ledger.Change) error {
	p.naming.Lock()
	defer p.naming.Unlock()
	var was ledger.Change
	taken := new(pb.Profile)
	err := p.ledger.View(func(snap ledger.Snapshot) (err error) {
		if was, err = ledger.As(snap, schema.Key(schema.Profile, 0)); err == nil && was.Value != nil {
			err = schema.Decode(was.Value, taken)
		}
		return errors.Join(err, free(snap, account, nickname))
	})
	if err != nil {
		return err
	}
	times, _ := strconv.ParseUint(taken.Account, 10, 64)
	next, err := ledger.Put(nil, was.Key, &pb.Profile{Account: strconv.FormatUint(times+1, 10)})
	if err != nil {
		return err
	}
	return p.ledger.Commit(&ledger.Job{Changes: ledger.Fixed(slices.Concat(changes, next)), Still: [2]ledger.Change{was}})
}

func (e *Earned) add(more Earned) {
	e.Pages += more.Pages
	e.Bytes += more.Bytes
}

// free says why an account cannot be on the board by a nickname; nil: it can. Names cost nothing to those who make accounts, and credit does: so only an account that has
// some can take one, and no two have the same.
func free(snap ledger.Snapshot, account uint64, nickname string) error {
	if nickname == "" {
		return fmt.Errorf("%w: who wants to be on the board needs a nickname", ErrProfile)
	}
	if first, err := firstCredit(snap, account); err != nil {
		return err
	} else if first == 0 {
		return fmt.Errorf("%w: nothing that this account delivered was verified yet; try again when something was", ErrProfile)
	}
	key := NameKey(nickname)
	return snap.Scan([]byte{schema.Profile}, nil, true, func(at, value []byte) (bool, error) {
		var m pb.Profile
		if err := schema.Decode(value, &m); err != nil {
			return false, err
		}
		if m.Public && NameKey(m.Nickname) == key && schema.Number(at, 0) != account {
			return false, fmt.Errorf("%w: another account is on the board as %q; choose another nickname", ErrProfile, m.Nickname)
		}
		return true, nil
	})
}

// Board adds up what was credited since the week of a time, of at most n accounts and n teams. Accounts that are banned, or have a suspended peer, are left out.
func (p *Pages) Board(ctx context.Context, since time.Time, n int) (out Board, err error) {
	from := uint32(0)
	if since.Unix() > 0 {
		from = schema.Week(since)
	}
	out.From = monday(from)
	by := map[uint64]*Earned{}
	all := teams{}
	err = p.ledger.View(func(snap ledger.Snapshot) error {
		withheld, err := p.withheld(ctx, snap)
		if err != nil {
			return err
		}
		err = eachCredit(ctx, snap, from, func(_ uint32, of uint64, e Earned) {
			if withheld[of] {
				return
			}
			if by[of] == nil {
				by[of] = &Earned{}
			}
			by[of].add(e)
		})
		if err != nil {
			return err
		}
		for number, e := range by {
			var f pb.Profile
			if _, err := ledger.Get(snap, schema.Key(schema.Profile, number), &f); err != nil {
				return err
			}
			if !f.Public {
				out.Others.add(*e)
				continue
			}
			out.Names = append(out.Names, BoardRow{f.Nickname, f.Team, f.Account, *e})
			if f.Team != "" {
				all.add(f.Team, *e)
			}
		}
		return nil
	})
	if err != nil {
		return Board{}, fmt.Errorf("board: %w", err)
	}
	for _, t := range all {
		out.Teams = append(out.Teams, BoardRow{Name: t.name(), Earned: t.Earned})
	}
	for _, rows := range []*[]BoardRow{&out.Names, &out.Teams} {
		slices.SortFunc(*rows, func(x, y BoardRow) int {
			return cmp.Or(cmp.Compare(y.Pages, x.Pages), cmp.Compare(y.Bytes, x.Bytes), cmp.Compare(x.Name, y.Name), cmp.Compare(x.Team, y.Team))
		})
		*rows = append([]BoardRow{}, (*rows)[:min(len(*rows), n)]...) // an empty list is one in JSON, too
	}
	return out, nil
}
