package web

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"shoal/manager/desk"
)

// Court is what the pages need of it: whom the manager believes, and why. desk.Court is one.
type Court interface {
	Rules(ctx context.Context) (desk.Trust, error)
	Peers(ctx context.Context) (peers []desk.PeerTrust, more int, err error)
	Evidence(ctx context.Context, peer string) (desk.PeerEvidence, error)
	Case(ctx context.Context, number string) (desk.Case, error)
	Uphold(ctx context.Context, peer string) (desk.PeerTrust, error)
	Pardon(ctx context.Context, peer string) (desk.Pardoned, error)
}

// trustRoutes adds the pages about whom to believe, if there is a court.
func (s *server) trustRoutes(mux *http.ServeMux) {
	if s.cfg.Court == nil {
		return
	}
	mux.HandleFunc("GET /trust", s.view(s.trustPage))
	mux.HandleFunc("GET /trust/peer", s.view(s.trustPeerPage))
	mux.HandleFunc("GET /trust/case", s.view(s.casePage))
	mux.HandleFunc("POST /trust/uphold", s.operate("uphold", s.uphold))
	mux.HandleFunc("POST /trust/pardon", s.operate("pardon", s.pardon))
}

// stampOf is a moment as the pages show one that evidence is about.
func stampOf(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") }

func (s *server) trustPage(w http.ResponseWriter, r *http.Request) {
	d := s.frame(r, "peers", "Whom to believe")
	rules, err := s.cfg.Court.Rules(r.Context())
	if err == nil {
		d["Trust"] = rules
		d["Peers"], d["More"], err = s.cfg.Court.Peers(r.Context())
	}
	s.shows(w, "trust", d, err)
}

func (s *server) trustPeerPage(w http.ResponseWriter, r *http.Request) {
	d := s.frame(r, "peers", "What is held against a peer")
	e, err := s.cfg.Court.Evidence(r.Context(), r.URL.Query().Get("peer"))
	if err == nil {
		d["Of"] = e
	}
	s.shows(w, "trustpeer", d, err)
}

func (s *server) casePage(w http.ResponseWriter, r *http.Request) {
	d := s.frame(r, "peers", "A contested page")
	c, err := s.cfg.Court.Case(r.Context(), r.URL.Query().Get("number"))
	if err == nil {
		d["Case"] = c
	}
	s.shows(w, "case", d, err)
}

// shows renders a page, or says on it why it shows nothing.
func (s *server) shows(w http.ResponseWriter, name string, d map[string]any, err error) {
	if err != nil {
		d["Wrong"] = plainly(err)
		w.WriteHeader(http.StatusBadRequest)
	}
	s.render(w, name, d)
}

func (s *server) uphold(_ http.ResponseWriter, r *http.Request) (string, error) {
	peer := r.PostFormValue("peer")
	_, err := s.cfg.Court.Uphold(r.Context(), peer)
	return "/trust/peer?peer=" + url.QueryEscape(peer), err
}

func (s *server) pardon(_ http.ResponseWriter, r *http.Request) (string, error) {
	peer := r.PostFormValue("peer")
	_, err := s.cfg.Court.Pardon(r.Context(), peer)
	return "/trust/peer?peer=" + url.QueryEscape(peer), err
}
