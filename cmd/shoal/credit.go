package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"shoal/internal/member"
	"shoal/internal/wire"
	"shoal/manager"
	"shoal/manager/archive"
)

// creditBook is what the archive keeps of credit.
type creditBook interface {
	CreditOf(ctx context.Context, account string) (manager.AccountCredit, error)
	SetProfile(account string, f manager.Profile) error
	Holder(account string) uint64
	Deliverers(ctx context.Context, name string) ([]archive.Deliverer, error)
	DelivererNumber(name string) uint64
}

// credits tells peers what their accounts were credited with, takes their profiles, and certifies what they contributed. Its caller asks it one question at a time.
type credits struct {
	book    creditBook
	account func(peer string) string // of a member; empty: it is none
	sign    func(member.Contribution) (string, error)
	network string // name of the network, for people
	board   string // URL of the public board; empty: there is none
	now     func() time.Time

	renamed map[string]time.Time // when accounts changed their profiles
}

// serveCourt answers peers about themselves and their accounts.
func (st *station) serveCourt() {
	c := &credits{book: st.archive, account: st.accountOf, sign: st.keys.Authority.CertifyContribution, network: st.cfg.name, board: st.cfg.boardURL, now: st.node.Now}
	st.node.ServeStanding((&court{manager: st.book.Load, credits: c}).answer)
}

const (
	renameEvery = 2 * time.Second // of one account
	maxRenamed  = 4096
	maxHolder   = 40 // characters of the name on a certificate
)

// of is the credit of a peer's account.
func (c *credits) of(ctx context.Context, peer string) (*wire.Credit, error) {
	account, err := c.known(ctx, peer)
	if err != nil {
		return nil, err
	}
	k, err := c.book.CreditOf(ctx, account)
	if err != nil {
		return nil, err
	}
	out := &wire.Credit{Pages: k.Sum.Pages, Bytes: k.Sum.Bytes, Withheld: k.Withheld, Rank: k.Rank, Ranked: k.Ranked, Profile: wire.Profile(k.Profile), TeamPages: k.Team.Pages, TeamRank: k.Team.Rank, Teams: k.Team.Teams, Board: c.board}
	for _, w := range k.Weeks[:min(len(k.Weeks), wire.MaxWeeks)] {
		out.Weeks = append(out.Weeks, wire.CreditWeek{Name: w.Name, Pages: w.Pages, Bytes: w.Bytes})
	}
	return out, nil
}

// known is the account of a peer, be it a member or not any more.
func (c *credits) known(ctx context.Context, peer string) (string, error) {
	if a := c.account(peer); a != "" {
		return a, nil
	}
	all, err := c.book.Deliverers(ctx, archive.DelivererName(c.book.DelivererNumber(peer))) // by its number: strangers may ask, and else all are looked at
	if err != nil {
		return "", err
	}
	for _, d := range all {
		if d.Account != "" {
			return d.Account, nil
		}
	}
	return member.AccountOfPeer(peer), nil
}

// rename has an account shown otherwise from now on, and says why not. Who asks for the same again, as when the answer was lost on its way, is not refused.
func (c *credits) rename(ctx context.Context, peer string, f wire.Profile) (refused string) {
	account := c.account(peer)
	if account == "" {
		return "only a member can do that"
	}
	now := c.now()
	if now.Sub(c.renamed[account]).Abs() < renameEvery {
		if k, err := c.book.CreditOf(ctx, account); err == nil && k.Profile == manager.Profile(f) {
			return ""
		}
		return "it was changed a moment ago; try again in a few seconds"
	}
	if len(c.renamed) >= maxRenamed || c.renamed == nil {
		c.renamed = map[string]time.Time{}
	}
	c.renamed[account] = now
	err := c.book.SetProfile(account, manager.Profile(f))
	switch {
	case errors.Is(err, manager.ErrProfile):
		_, why, _ := strings.Cut(err.Error(), manager.ErrProfile.Error()+": ")
		return why
	case err != nil:
		return "it could not be kept; try again later"
	}
	return ""
}

// certificate signs what a peer's account has contributed.
func (c *credits) certificate(ctx context.Context, peer, name string) (text, refused string) {
	account := c.account(peer)
	if account == "" {
		return "", "only a member can have one"
	}
	if utf8.RuneCountInString(name) > maxHolder {
		return "", fmt.Sprintf("the name has more than %d characters", maxHolder)
	}
	k, err := c.book.CreditOf(ctx, account)
	switch {
	case err != nil:
		return "", "it cannot be made now; try again later"
	case k.Withheld:
		return "", "this account is banned or a peer of it suspended, and its credit is withheld"
	case k.Sum.Pages == 0:
		return "", "nothing that this account delivered was verified yet"
	}
	text, err = c.sign(member.Contribution{NetworkName: c.network, Holder: c.book.Holder(account), Name: name, Team: k.Profile.Team, Pages: k.Sum.Pages, Bytes: k.Sum.Bytes, From: k.Weeks[len(k.Weeks)-1].Monday, Issued: c.now()})
	if err != nil {
		return "", err.Error()
	}
	return text, ""
}
