package wire

import (
	"math"
	"net/url"

	"shoal/internal/wire/wirepb"
)

// Profile is how an account wants to be shown on the network's board. The zero Profile is not shown.
type Profile struct {
	Nickname string
	Team     string
	Public   bool
}

// Credit is what other accounts have corroborated of what the account of a peer delivered.
type Credit struct {
	Pages, Bytes uint64
	Withheld     bool         // a peer of the account is suspended: nothing counts
	Weeks        []CreditWeek // the latest first, at most MaxWeeks
	Rank, Ranked int          // among all accounts that have credit, from 1 on; 0: it has none
	Profile      Profile
	TeamPages    uint64
	TeamRank     int // 0: it is in none
	Teams        int
	Board        string // URL of the network's board; empty: there is none
}

// CreditWeek is a part of a Credit.
type CreditWeek struct {
	Name         string // as ISO 8601 writes it: 2026-W47
	Pages, Bytes uint64
}

// Limits of a Credit.
const (
	MaxWeeks  = 60
	maxWeek   = 16  // bytes of a week's name
	maxPerson = 160 // bytes of a nickname, a team's name, and the name on a certificate
	maxBoard  = 512 // bytes of a URL
)

func (c *Credit) proto() *wirepb.Credit {
	if c == nil {
		return nil
	}
	m := &wirepb.Credit{Pages: c.Pages, Bytes: c.Bytes, Withheld: c.Withheld, Rank: bounded(c.Rank), Ranked: bounded(c.Ranked), Profile: c.Profile.proto(),
		TeamPages: c.TeamPages, TeamRank: bounded(c.TeamRank), Teams: bounded(c.Teams), Board: clip(c.Board, maxBoard)}
	for _, w := range c.Weeks[:min(len(c.Weeks), MaxWeeks)] {
		m.Weeks = append(m.Weeks, &wirepb.Week{Name: clip(w.Name, maxWeek), Pages: w.Pages, Bytes: w.Bytes})
	}
	return m
}

func readCredit(m *wirepb.Credit) *Credit {
	if m == nil {
		return nil
	}
	c := &Credit{Pages: m.Pages, Bytes: m.Bytes, Withheld: m.Withheld, Rank: int(min(m.Rank, math.MaxInt32)), Ranked: int(min(m.Ranked, math.MaxInt32)), Profile: readProfile(m.Profile),
		TeamPages: m.TeamPages, TeamRank: int(min(m.TeamRank, math.MaxInt32)), Teams: int(min(m.Teams, math.MaxInt32)), Board: webURL(m.Board)}
	for _, w := range m.Weeks[:min(len(m.Weeks), MaxWeeks)] {
		c.Weeks = append(c.Weeks, CreditWeek{clip(w.GetName(), maxWeek), w.GetPages(), w.GetBytes()})
	}
	return c
}

// webURL is an address that a volunteer may be led to; empty: it is none.
func webURL(s string) string {
	u, err := url.Parse(s)
	if err != nil || len(s) > maxBoard || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return ""
	}
	return s
}

func (p Profile) proto() *wirepb.Profile {
	return &wirepb.Profile{Nickname: clip(p.Nickname, maxPerson), Team: clip(p.Team, maxPerson), Public: p.Public}
}

func readProfile(m *wirepb.Profile) Profile {
	return Profile{clip(m.GetNickname(), maxPerson), clip(m.GetTeam(), maxPerson), m.GetPublic()}
}

func (a *StandingAsk) proto() *wirepb.StandingAsk {
	m := &wirepb.StandingAsk{Case: a.Objection.Case, Objection: a.Objection.Text}
	if a.Profile != nil {
		m.Profile = a.Profile.proto()
	}
	if a.Certify {
		m.Certify = &wirepb.Certify{Name: clip(a.Name, maxPerson)}
	}
	return m
}

func readStandingAsk(m *wirepb.StandingAsk) StandingAsk {
	a := StandingAsk{Objection: Objection{m.Case, m.Objection}, Certify: m.Certify != nil, Name: clip(m.Certify.GetName(), maxPerson)}
	if m.Profile != nil {
		p := readProfile(m.Profile)
		a.Profile = &p
	}
	return a
}

func bounded(n int) uint32 { return uint32(min(max(n, 0), math.MaxInt32)) }
