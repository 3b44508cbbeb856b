package api

import (
	"net/http"

	"shoal/manager/desk"
)

// TrustPeers are peers that have had a task.
type TrustPeers struct {
	Peers []desk.PeerTrust `json:"peers"`
	More  int              `json:"more"` // that are not listed
}

// OnePeer names a peer id, or a deliverer as captures name it.
type OnePeer struct {
	Peer string `json:"peer"`
}

// Vouch names a peer to believe.
type Vouch struct {
	Peer  string `json:"peer"`
	Ahead bool   `json:"ahead,omitempty"` // it need not have joined yet
}

// trustRoutes are the operations about whom to believe.
func (s *server) trustRoutes() []route {
	peer := param{"peer", "a peer id, or a deliverer as captures name it", "string"}
	return []route{
		{method: "GET", path: "/trust", what: "How far what peers deliver is believed, by which rules, and what that costs.", out: desk.Trust{}, serve: s.trust},
		{method: "PUT", path: "/trust", what: "Change those rules that the body names; kept over a restart.", in: desk.TrustAsk{}, out: desk.Trust{}, serve: s.setTrust},
		{method: "GET", path: "/trust/peers", what: "Peers that have had a task, those first against whom most is held.", out: TrustPeers{}, serve: s.trustPeers},
		{method: "GET", path: "/trust/case", what: "One case with what each side saw.", params: []param{{"number", "of the case", "string"}}, out: desk.Case{}, serve: s.trustCase},
		{method: "GET", path: "/peers/evidence", what: "What is held against a peer, and what it held against others.", params: []param{peer}, out: desk.PeerEvidence{}, serve: s.evidence},
		{method: "POST", path: "/peers/uphold", what: "Make a suspension final.", in: OnePeer{}, out: desk.PeerTrust{}, serve: s.uphold},
		{method: "POST", path: "/peers/pardon", what: "Give a suspended peer everything back.", in: OnePeer{}, out: desk.Pardoned{}, serve: s.pardon},
		{method: "POST", path: "/peers/vouch", what: "Believe a peer by the operator's word, as if its probation were over.", in: Vouch{}, serve: s.vouch},
	}
}

func (s *server) trust(_ http.ResponseWriter, r *http.Request) (any, error) {
	return s.cfg.Desk.Court().Rules(r.Context())
}

func (s *server) setTrust(_ http.ResponseWriter, r *http.Request) (any, error) {
	var ask desk.TrustAsk
	if err := body(r, &ask); err != nil {
		return nil, err
	}
	return s.cfg.Desk.Court().Set(r.Context(), ask)
}

func (s *server) trustPeers(_ http.ResponseWriter, r *http.Request) (any, error) {
	peers, more, err := s.cfg.Desk.Court().Peers(r.Context())
	return TrustPeers{peers, more}, err
}

func (s *server) trustCase(_ http.ResponseWriter, r *http.Request) (any, error) {
	return s.cfg.Desk.Court().Case(r.Context(), r.URL.Query().Get("number"))
}

func (s *server) evidence(_ http.ResponseWriter, r *http.Request) (any, error) {
	return s.cfg.Desk.Court().Evidence(r.Context(), r.URL.Query().Get("peer"))
}

func (s *server) uphold(_ http.ResponseWriter, r *http.Request) (any, error) {
	var ask OnePeer
	if err := body(r, &ask); err != nil {
		return nil, err
	}
	return s.cfg.Desk.Court().Uphold(r.Context(), ask.Peer)
}

func (s *server) pardon(_ http.ResponseWriter, r *http.Request) (any, error) {
	var ask OnePeer
	if err := body(r, &ask); err != nil {
		return nil, err
	}
	return s.cfg.Desk.Court().Pardon(r.Context(), ask.Peer)
}

func (s *server) vouch(_ http.ResponseWriter, r *http.Request) (any, error) {
	var ask Vouch
	if err := body(r, &ask); err != nil {
		return nil, err
	}
	return nil, s.cfg.Desk.Court().Vouch(r.Context(), ask.Peer, ask.Ahead)
}
