package api

import (
	"fmt"
	"net/http"
	"path/filepath"
	"slices"

	"shoal/manager"
	"shoal/recrawl"
)

// Hosts is a part of the Web hosts that anything is known of.
type Hosts struct {
	Hosts []manager.HostRow `json:"hosts"`
}

func (s *server) hosts(_ http.ResponseWriter, r *http.Request) (any, error) {
	n, err := number(r, "n", 100, 100_000)
	if err != nil {
		return nil, err
	}
	q := r.URL.Query()
	rows, err := s.cfg.Desk.Hosts(r.Context(), q.Get("q"), q.Get("blocked") == "1", n)
	return Hosts{rows}, err
}

// HostAsk names a host, and why.
type HostAsk struct {
	Host string `json:"host"`
	Why  string `json:"why,omitempty"`
}

func (s *server) block(_ http.ResponseWriter, r *http.Request) (any, error) {
	var ask HostAsk
	if err := body(r, &ask); err != nil {
		return nil, err
	}
	if ask.Why == "" {
		ask.Why = "by an operator"
	}
	return nil, s.cfg.Desk.Block(r.Context(), ask.Host, ask.Why)
}

func (s *server) unblock(_ http.ResponseWriter, r *http.Request) (any, error) {
	var ask HostAsk
	if err := body(r, &ask); err != nil {
		return nil, err
	}
	return nil, s.cfg.Desk.Block(r.Context(), ask.Host, "")
}

func (s *server) purge(_ http.ResponseWriter, r *http.Request) (any, error) {
	var ask HostAsk
	if err := body(r, &ask); err != nil {
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
	return s.cfg.Live.Overview(), nil
}

func (s *server) peers(http.ResponseWriter, *http.Request) (any, error) {
	return s.cfg.Live.Peers(), nil
}

// MaxUses bounds the peers of one invite.
const MaxUses = 100_000

// Invite asks for a join string.
type Invite struct {
	Uses uint32 `json:"uses"`
}

// Invited is one.
type Invited struct {
	Join string `json:"join"`
	Uses uint32 `json:"uses"`
}

func (s *server) invite(_ http.ResponseWriter, r *http.Request) (any, error) {
	ask := Invite{Uses: 1}
	if err := body(r, &ask); err != nil {
		return nil, err
	}
	if ask.Uses < 1 || ask.Uses > MaxUses {
		return nil, fmt.Errorf("%w: an invite for %d peers: want 1 to %d", errAsk, ask.Uses, MaxUses)
	}
	join, err := s.cfg.Members.Invite(ask.Uses)
	return Invited{join, ask.Uses}, err
}

// Ban names a peer id or an account.
type Ban struct {
	Peer   string `json:"peer"`
	Banned bool   `json:"banned"`
}

func (s *server) ban(_ http.ResponseWriter, r *http.Request) (any, error) {
	ask := Ban{Banned: true}
	if err := body(r, &ask); err != nil {
		return nil, err
	}
	if ask.Peer == "" {
		return nil, fmt.Errorf("%w: no peer or account is named", errAsk)
	}
	if !ask.Banned && !slices.Contains(s.cfg.Members.Banned(), ask.Peer) {
		return nil, fmt.Errorf("%w: %s is not banned; shoal peer list names who is", errAsk, ask.Peer)
	}
	return nil, s.cfg.Members.Ban(ask.Peer, ask.Banned)
}

func (s *server) banned(http.ResponseWriter, *http.Request) (any, error) {
	return map[string][]string{"banned": s.cfg.Members.Banned()}, nil
}

func (s *server) strategy(_ http.ResponseWriter, r *http.Request) (any, error) {
	return s.cfg.Live.Strategy(r.Context())
}

// StrategyAsk is a strategy, and limits that hold for all. What is left out stays as it is.
type StrategyAsk struct {
	manager.StrategyChoice
	Limits *manager.Limits `json:"limits,omitempty"`
}

func (s *server) setStrategy(_ http.ResponseWriter, r *http.Request) (any, error) {
	ask, now, named, err := s.choice(r)
	if err != nil {
		return nil, err
	}
	if *ask.Limits != now.Limits {
		if err := s.cfg.Live.UseLimits(r.Context(), *ask.Limits); err != nil {
			return nil, err
		}
	}
	if named || ask.StrategyChoice != now.StrategyChoice {
		if err := s.cfg.Live.UseStrategy(r.Context(), ask.StrategyChoice); err != nil {
			return nil, err
		}
	}
	return s.cfg.Live.Strategy(r.Context())
}

func (s *server) tryStrategy(_ http.ResponseWriter, r *http.Request) (any, error) {
	ask, now, _, err := s.choice(r)
	if err != nil {
		return nil, err
	}
	if *ask.Limits != now.Limits {
		return nil, fmt.Errorf("%w: a strategy is tried within the limits in force", errAsk)
	}
	return s.cfg.Live.TryStrategy(r.Context(), ask.StrategyChoice)
}

// choice reads a strategy; what is left out stays as it is: the share of new channels, the limits, or without a name all but those.
func (s *server) choice(r *http.Request) (ask StrategyAsk, now manager.StrategyInfo, named bool, err error) {
	now, err = s.cfg.Live.Strategy(r.Context())
	if err != nil {
		return ask, now, false, err
	}
	limits := now.Limits
	ask.NewShare, ask.Limits = now.NewShare, &limits
	if err := body(r, &ask); err != nil {
		return ask, now, false, err
	}
	if ask.Limits == nil {
		ask.Limits = &limits
	}
	if ask.Name == "" {
		if ask.Params != (recrawl.Params{}) {
			return ask, now, false, fmt.Errorf("%w: parameters without the name of their strategy", errAsk)
		}
		ask.Name, ask.Params = now.Name, now.Params
		return ask, now, false, nil
	}
	return ask, now, true, nil
}

func (s *server) check(_ http.ResponseWriter, r *http.Request) (any, error) {
	found := []manager.Finding{}
	if s.cfg.Check != nil {
		found = append(found, s.cfg.Check(r.Context())...)
	}
	return map[string]any{"findings": found}, nil
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
	if !filepath.IsAbs(ask.Dir) {
		return nil, fmt.Errorf("%w: %q is no absolute path of a folder", errAsk, ask.Dir)
	}
	return nil, s.cfg.Backup(r.Context(), filepath.Clean(ask.Dir))
}

func (s *server) openapi(w http.ResponseWriter, _ *http.Request) (any, error) {
	w.Header().Set("Content-Type", "application/json")
	_, err := w.Write(s.doc)
	if err != nil {
		s.cfg.Log.Debug("answer not sent", "err", err)
	}
	return streamed{}, nil
}
