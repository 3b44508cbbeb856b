package api

import (
	"fmt"
	"net/http"

	"shoal/manager"
	"shoal/manager/desk"
)

// Hosts is a part of the Web hosts that anything is known of.
type Hosts struct {
	Hosts []desk.Host `json:"hosts"`
	More  bool        `json:"more"` // there are others, which n left out
}

func (s *server) hosts(_ http.ResponseWriter, r *http.Request) (any, error) {
	n, err := number(r, "n", 100, 100_000)
	if err != nil {
		return nil, err
	}
	q := r.URL.Query()
	rows, err := s.cfg.Desk.Hosts(r.Context(), q.Get("q"), q.Get("blocked") == "1", n+1)
	return Hosts{rows[:min(n, len(rows))], len(rows) > n}, err
}

// HostAsk names a host, and why.
type HostAsk struct {
	Host string `json:"host"`
	Why  string `json:"why,omitempty"`
	// Unknown says that nothing need be known of the host.
	Unknown bool `json:"unknown,omitempty"`
}

// named reads a request about a host.
func (s *server) named(r *http.Request) (HostAsk, error) {
	var ask HostAsk
	err := body(r, &ask)
	if err == nil && !ask.Unknown {
		err = s.cfg.Desk.KnownHost(r.Context(), ask.Host)
	}
	return ask, err
}

func (s *server) block(_ http.ResponseWriter, r *http.Request) (any, error) {
	ask, err := s.named(r)
	if err != nil {
		return nil, err
	}
	if ask.Why == "" {
		ask.Why = desk.Unsaid
	}
	return nil, s.cfg.Desk.Block(r.Context(), ask.Host, ask.Why)
}

// HostsReset tells how many hosts were reset: one for each scheme and port of which anything is known.
type HostsReset struct {
	Hosts int    `json:"hosts"`
	Stays string `json:"stays_blocked,omitempty"` // why: by the operator's word, which a reset does not lift
}

func (s *server) resetHost(_ http.ResponseWriter, r *http.Request) (any, error) {
	var ask HostAsk
	if err := body(r, &ask); err != nil {
		return nil, err
	}
	n, stays, err := s.cfg.Desk.ResetHost(r.Context(), ask.Host)
	return HostsReset{n, stays}, err
}

func (s *server) unblock(_ http.ResponseWriter, r *http.Request) (any, error) {
	var ask HostAsk
	if err := body(r, &ask); err != nil {
		return nil, err
	}
	return nil, s.cfg.Desk.Block(r.Context(), ask.Host, "")
}

func (s *server) purge(_ http.ResponseWriter, r *http.Request) (any, error) {
	ask, err := s.named(r)
	if err != nil {
		return nil, err
	}
	return s.cfg.Desk.Purge(r.Context(), ask.Host, ask.Why)
}

func (s *server) candidates(_ http.ResponseWriter, r *http.Request) (any, error) {
	n, err := number(r, "n", 100, 10_000)
	if err != nil {
		return nil, err
	}
	return s.cfg.Desk.Candidates(r.Context(), n)
}

func (s *server) overview(http.ResponseWriter, *http.Request) (any, error) {
	return s.cfg.Desk.Overview(), s.cfg.Desk.Live()
}

// Managers are those that share the network.
type Managers struct {
	Managers []desk.Manager `json:"managers"`
}

func (s *server) managers(http.ResponseWriter, *http.Request) (any, error) {
	return Managers{append([]desk.Manager{}, s.cfg.Desk.Overview().Managers...)}, s.cfg.Desk.Live()
}

func (s *server) peers(http.ResponseWriter, *http.Request) (any, error) {
	return s.cfg.Desk.Peers()
}

// Conduct names members that an operator should look at.
type Conduct struct {
	Members []desk.Suspect `json:"members"`
	More    int            `json:"more"` // that are not listed
}

func (s *server) conduct(http.ResponseWriter, *http.Request) (any, error) {
	members, more, err := s.cfg.Desk.Suspects()
	return Conduct{members, more}, err
}

// Invite asks for a join string.
type Invite struct {
	Uses uint32 `json:"uses"`
}

// Invited is one.
type Invited struct {
	Join  string `json:"join"`
	Uses  uint32 `json:"uses"`
	Needs string `json:"needs,omitempty"` // what a peer must have beside it
}

func (s *server) invite(_ http.ResponseWriter, r *http.Request) (any, error) {
	ask := Invite{Uses: 1}
	if err := body(r, &ask); err != nil {
		return nil, err
	}
	join, needs, err := s.cfg.Desk.Invite(ask.Uses)
	return Invited{join, ask.Uses, needs}, err
}

// PurgePeer names a peer id, an account, or a deliverer as captures name it.
type PurgePeer struct {
	Peer string `json:"peer"`
	Dry  bool   `json:"dry,omitempty"` // only count what would be taken back
	// Start says not to wait for the end, which may take minutes: GET tells how far it is, and a restart goes on with it.
	Start bool `json:"start,omitempty"`
}

// Purging is how far a purge of what members delivered is.
type Purging struct {
	Purge *manager.Withdrawing `json:"purge"` // null: none is under way
}

func (s *server) purging(http.ResponseWriter, *http.Request) (any, error) {
	return Purging{s.cfg.Desk.Purging()}, nil
}

func (s *server) purgePeer(_ http.ResponseWriter, r *http.Request) (any, error) {
	var ask PurgePeer
	if err := body(r, &ask); err != nil {
		return nil, err
	}
	switch {
	case ask.Dry && ask.Start:
		return nil, fmt.Errorf("%w: dry only counts, and start begins: want one of them", errAsk)
	case ask.Dry:
		return s.cfg.Desk.PurgeCount(r.Context(), ask.Peer)
	case ask.Start:
		return nil, s.cfg.Desk.StartPurge(r.Context(), ask.Peer)
	}
	return s.cfg.Desk.PurgePeer(r.Context(), ask.Peer)
}

// Ban names a peer id or an account.
type Ban struct {
	Peer   string `json:"peer"`
	Banned bool   `json:"banned"`
	// Unknown says that nothing need be known of the name.
	Unknown bool `json:"unknown,omitempty"`
}

func (s *server) ban(_ http.ResponseWriter, r *http.Request) (any, error) {
	ask := Ban{Banned: true}
	if err := body(r, &ask); err != nil {
		return nil, err
	}
	if ask.Banned && !ask.Unknown && ask.Peer != "" {
		if err := s.cfg.Desk.KnownMember(r.Context(), ask.Peer); err != nil {
			return nil, err
		}
	}
	return nil, s.cfg.Desk.Ban(r.Context(), ask.Peer, ask.Banned)
}

func (s *server) banned(_ http.ResponseWriter, r *http.Request) (any, error) {
	out := Banned{Banned: []string{}}
	var err error
	out.Refused, err = s.cfg.Desk.Refused(r.Context())
	for _, one := range out.Refused {
		out.Banned = append(out.Banned, one.Name)
	}
	return out, err
}

// Banned names the peers and accounts that are refused, and then each with the reason.
type Banned struct {
	Banned  []string       `json:"banned"`
	Refused []desk.Refused `json:"refused"`
}

func (s *server) strategy(_ http.ResponseWriter, r *http.Request) (any, error) {
	return s.cfg.Desk.Strategy(r.Context())
}

func (s *server) setStrategy(_ http.ResponseWriter, r *http.Request) (any, error) {
	var ask desk.StrategyAsk
	if err := changes(r, &ask); err != nil {
		return nil, err
	}
	return s.cfg.Desk.SetStrategy(r.Context(), ask)
}

func (s *server) tryStrategy(_ http.ResponseWriter, r *http.Request) (any, error) {
	var ask desk.StrategyAsk
	if err := body(r, &ask); err != nil {
		return nil, err
	}
	return s.cfg.Desk.TryStrategy(r.Context(), ask)
}

// Findings are what was checked.
type Findings struct {
	Findings []desk.Finding `json:"findings"`
}

func (s *server) check(_ http.ResponseWriter, r *http.Request) (any, error) {
	return Findings{append([]desk.Finding{}, s.cfg.Desk.Check(r.Context())...)}, nil
}

// Backup names a new folder on the manager's machine.
type Backup struct {
	Dir string `json:"dir"`
}

func (s *server) backup(_ http.ResponseWriter, r *http.Request) (any, error) {
	var ask Backup
	if err := body(r, &ask); err != nil {
		return nil, err
	}
	return nil, s.cfg.Desk.Backup(r.Context(), ask.Dir)
}

func (s *server) migrate(_ http.ResponseWriter, r *http.Request) (any, error) {
	var ask desk.MoveAsk
	if err := body(r, &ask); err != nil {
		return nil, err
	}
	return nil, desk.Migrate(r.Context(), s.cfg.Desk, ask)
}

func (s *server) migration(http.ResponseWriter, *http.Request) (any, error) {
	return desk.Migration(s.cfg.Desk)
}

func (s *server) openapi(w http.ResponseWriter, _ *http.Request) (any, error) {
	w.Header().Set("Content-Type", "application/json")
	_, err := w.Write(s.doc)
	if err != nil {
		s.cfg.Log.Debug("answer not sent", "err", err)
	}
	return streamed{}, nil
}
