package peer

import (
	"context"
	"errors"

	"shoal/internal/wire"
)

// Credit is what other volunteers' computers have seen alike of what this peer's account delivered. The server counts it, and nothing else.
type Credit struct {
	Pages    uint64       `json:"pages"`
	Bytes    uint64       `json:"bytes"`
	Withheld bool         `json:"withheld"` // a peer of the account is suspended: nothing counts
	Weeks    []CreditWeek `json:"weeks"`    // the latest first
	Rank     int          `json:"rank"`     // among the accounts that have credit; 0: it has none
	Ranked   int          `json:"ranked"`   // accounts that have credit
	Profile  Profile      `json:"profile"`
	// TeamPages and TeamRank are of the account's team, which is one of Teams; 0: it is in none, or that has nothing yet.
	TeamPages uint64 `json:"team_pages"`
	TeamRank  int    `json:"team_rank"`
	Teams     int    `json:"teams"`
	Board     string `json:"board,omitempty"` // URL of the public board
}

// CreditWeek is a part of a Credit.
type CreditWeek struct {
	Week  string `json:"week"` // as 2026-W47
	Pages uint64 `json:"pages"`
	Bytes uint64 `json:"bytes"`
}

// Profile is how the account is shown on the network's public board. The zero Profile is not shown.
type Profile struct {
	Nickname string `json:"nickname"`
	Team     string `json:"team"`
	Public   bool   `json:"public"` // it is on the board, by its nickname
}

// ErrProfile says that the server does not take a profile, and ErrCertificate that it gives no certificate.
var (
	ErrProfile     = errors.New("the board shows this account as before")
	ErrCertificate = errors.New("there is no certificate")
)

const oldServer = "the company's server is of a version that does not know of it"

// SetProfile has the server show the account otherwise from now on.
func (a *Agent) SetProfile(ctx context.Context, f Profile) error {
	p := wire.Profile(f)
	said, err := a.askStanding(ctx, wire.StandingAsk{Profile: &p})
	if err == nil && said.Credit == nil && said.why == "" {
		said.why = oldServer
	}
	return said.refused(ErrProfile, err)
}

// Certificate asks the server for a certificate of contribution, on which a name stands.
func (a *Agent) Certificate(ctx context.Context, name string) (string, error) {
	said, err := a.askStanding(ctx, wire.StandingAsk{Certify: true, Name: name})
	if err == nil && said.certificate == "" && said.why == "" {
		said.why = oldServer
	}
	return said.certificate, said.refused(ErrCertificate, err)
}

func creditTold(c *wire.Credit) *Credit {
	if c == nil {
		return nil
	}
	out := &Credit{Pages: c.Pages, Bytes: c.Bytes, Withheld: c.Withheld, Weeks: []CreditWeek{}, Rank: c.Rank, Ranked: c.Ranked, Profile: Profile(c.Profile), TeamPages: c.TeamPages, TeamRank: c.TeamRank, Teams: c.Teams, Board: c.Board}
	for _, w := range c.Weeks {
		out.Weeks = append(out.Weeks, CreditWeek{w.Name, w.Pages, w.Bytes})
	}
	return out
}
