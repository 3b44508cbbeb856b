package web

import (
	"context"
	"net/http"
	"strings"
	"time"
)

// countTime is how long is counted what a purge would take back before the operator is asked.
const countTime = 10 * time.Second

// purgePage asks before all that a member delivered is taken back, and says how much that is.
func (s *server) purgePage(w http.ResponseWriter, r *http.Request) {
	d := s.frame(r, "peers", "Take back what a member delivered")
	name := strings.TrimSpace(r.URL.Query().Get("peer"))
	if name == "" {
		http.Redirect(w, r, "/peers", http.StatusSeeOther)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), countTime)
	defer cancel()
	count, err := s.cfg.Desk.PurgeCount(ctx, name)
	d["Name"], d["Count"] = name, count
	if err != nil {
		d["Why"] = plainly(err)
		w.WriteHeader(http.StatusBadRequest)
	}
	s.render(w, "purge", d)
}

func (s *server) purgePeer(_ http.ResponseWriter, r *http.Request) (string, error) {
	return "/peers", s.cfg.Desk.StartPurge(r.Context(), r.PostFormValue("peer"))
}

func (s *server) ban(_ http.ResponseWriter, r *http.Request) (string, error) {
	peer := strings.TrimSpace(r.PostFormValue("peer"))
	if err := s.cfg.Desk.KnownMember(r.Context(), peer); err != nil {
		return "", err
	}
	return "/peers", s.cfg.Desk.Ban(r.Context(), peer, true)
}

func (s *server) unban(_ http.ResponseWriter, r *http.Request) (string, error) {
	return "/peers", s.cfg.Desk.Ban(r.Context(), r.PostFormValue("peer"), false)
}
