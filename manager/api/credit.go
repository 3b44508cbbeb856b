package api

import (
	"net/http"

	"shoal/manager"
	"shoal/manager/desk"
)

func (s *server) board(_ http.ResponseWriter, r *http.Request) (any, error) {
	n, err := number(r, "n", 100, desk.MaxBoard)
	if err != nil {
		return nil, err
	}
	weeks, err := number(r, "weeks", 0, desk.MaxBoardWeeks)
	if err != nil {
		return nil, err
	}
	return s.cfg.Desk.Board(r.Context(), weeks, n, r.URL.Query().Get("name"))
}

func (s *server) credit(_ http.ResponseWriter, r *http.Request) (any, error) {
	return s.cfg.Desk.CreditOf(r.Context(), r.URL.Query().Get("account"))
}

// ProfileAsk says how an account wants to be shown.
type ProfileAsk struct {
	Account string `json:"account"`
	manager.Profile
}

func (s *server) setProfile(_ http.ResponseWriter, r *http.Request) (any, error) {
	var ask ProfileAsk
	if err := body(r, &ask); err != nil {
		return nil, err
	}
	return nil, s.cfg.Desk.SetProfile(r.Context(), ask.Account, ask.Profile)
}
