package pages

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
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
	// Withheld says that a peer of the account is suspended: nothing of it counts until it is pardoned.
	Withheld bool   `json:"withheld,omitempty"`
	Weeks    []Week `json:"weeks"` // the latest first
	Sum      Earned `json:"sum"`
}

// BoardRow is one line of the board.
type BoardRow struct {
	Name string `json:"name"`
	Team string `json:"team,omitempty"`
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
	if f.Public && f.Nickname == "" {
		return fmt.Errorf("%w: who wants to be on the board needs a nickname", ErrProfile)
	}
	key := schema.Key(schema.Profile, p.ledger.DelivererNumber(account))
	if f == (Profile{}) {
		return p.ledger.Change(ledger.Change{Key: key})
	}
	changes, err := ledger.Put(nil, key, &pb.Profile{Account: account, Nickname: f.Nickname, Team: f.Team, Public: f.Public})
	if err != nil {
		return err
	}
	return p.ledger.Change(changes...)
}

// CreditOf reads what an account was credited with, week by week.
func (p *Pages) CreditOf(ctx context.Context, account string) (out AccountCredit, err error) {
	out.Account = account
	number := p.ledger.DelivererNumber(account)
	err = p.ledger.View(func(snap ledger.Snapshot) error {
		withheld, err := withheld(snap, p.ledger)
		if err != nil {
			return err
		}
		if out.Profile, err = profile(snap, number); err != nil {
			return err
		}
		out.Withheld = withheld[number]
		return eachCredit(ctx, snap, 0, func(week uint32, of uint64, e Earned) {
			if of != number {
				return
			}
			if n := len(out.Weeks); n == 0 || out.Weeks[n-1].Name != weekName(week) {
				out.Weeks = append(out.Weeks, Week{Name: weekName(week), Monday: monday(week)})
			}
			out.Weeks[len(out.Weeks)-1].add(e)
			out.Sum.add(e)
		})
	})
	if err != nil {
		return AccountCredit{}, fmt.Errorf("credit of %s: %w", account, err)
	}
	slices.Reverse(out.Weeks)
	if out.Withheld {
		out.Sum = Earned{}
	}
	return out, nil
}

func (e *Earned) add(more Earned) {
	e.Pages += more.Pages
	e.Bytes += more.Bytes
}

// Board adds up what was credited since the week of a time, of at most n accounts and n teams. Accounts with a suspended peer are left out.
func (p *Pages) Board(ctx context.Context, since time.Time, n int) (out Board, err error) {
	from := uint32(0)
	if since.Unix() > 0 {
		from = schema.Week(since)
	}
	out.From = monday(from)
	by := map[uint64]*Earned{}
	teams := map[string]*Earned{}
	err = p.ledger.View(func(snap ledger.Snapshot) error {
		withheld, err := withheld(snap, p.ledger)
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
			f, err := profile(snap, number)
			if err != nil {
				return err
			}
			if !f.Public {
				out.Others.add(*e)
				continue
			}
			out.Names = append(out.Names, BoardRow{f.Nickname, f.Team, *e})
			if f.Team != "" {
				if teams[f.Team] == nil {
					teams[f.Team] = &Earned{}
				}
				teams[f.Team].add(*e)
			}
		}
		return nil
	})
	if err != nil {
		return Board{}, fmt.Errorf("board: %w", err)
	}
	for name, e := range teams {
		out.Teams = append(out.Teams, BoardRow{Name: name, Earned: *e})
	}
	for _, rows := range []*[]BoardRow{&out.Names, &out.Teams} {
		slices.SortFunc(*rows, func(x, y BoardRow) int {
			return cmp.Or(cmp.Compare(y.Pages, x.Pages), cmp.Compare(y.Bytes, x.Bytes), cmp.Compare(x.Name, y.Name), cmp.Compare(x.Team, y.Team))
		})
		*rows = (*rows)[:min(len(*rows), n)]
	}
	return out, nil
}

// eachCredit calls do for each stored credit from a week on, in the order of the weeks.
func eachCredit(ctx context.Context, snap ledger.Snapshot, from uint32, do func(week uint32, account uint64, e Earned)) error {
	m := new(pb.Credit)
	return snap.Scan([]byte{schema.Credit}, schema.CreditKey(from, 0, 0), true, func(key, value []byte) (bool, error) {
		m.Reset()
		if err := schema.Decode(value, m); err != nil {
			return false, err
		}
		week, account := schema.CreditOf(key)
		do(week, account, Earned{m.Pages, m.Bytes})
		return true, ctx.Err()
	})
}

// withheld are the accounts that have a suspended peer.
func withheld(snap ledger.Snapshot, l *ledger.Ledger) (map[uint64]bool, error) {
	out := map[uint64]bool{}
	return out, snap.Scan([]byte{schema.Suspension}, nil, true, func(key, value []byte) (bool, error) {
		if len(key) != len(schema.Key(schema.Suspension, 0)) {
			return true, nil
		}
		var m pb.Suspension
		var d pb.Deliverer
		if err := schema.Decode(value, &m); err != nil {
			return false, err
		}
		_, err := ledger.Get(snap, schema.Key(schema.Deliverer, schema.Number(key, 0)), &d)
		if !m.Pardon && d.Account != "" {
			out[l.DelivererNumber(d.Account)] = true
		}
		return true, err
	})
}

func profile(snap ledger.Snapshot, account uint64) (Profile, error) {
	var m pb.Profile
	_, err := ledger.Get(snap, schema.Key(schema.Profile, account), &m)
	return Profile{Nickname: m.Nickname, Team: m.Team, Public: m.Public}, err
}

func monday(week uint32) time.Time { return time.Unix(int64(week)*86400, 0).UTC() }

// weekName is how ISO 8601 writes a week.
func weekName(week uint32) string {
	year, n := monday(week).ISOWeek()
	return fmt.Sprintf("%d-W%02d", year, n)
}
