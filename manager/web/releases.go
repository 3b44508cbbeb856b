package web

import (
	"net/http"

	"shoal/manager/desk"
)

// Releases is what the page about releases of the volunteers' program needs. desk.Shelf is one.
type Releases interface {
	Releases() (desk.Releases, error)
	Roll(ask desk.RolloutAsk) (desk.Releases, error)
	StopRollout() (desk.Releases, error)
}

// releaseRoutes adds the page about releases.
func (s *server) releaseRoutes(mux *http.ServeMux) {
	if s.cfg.Releases == nil {
		return
	}
	mux.HandleFunc("GET /releases", s.view(s.releasesPage))
	mux.HandleFunc("POST /releases/rollout", s.operate("rollout", s.rollout))
	mux.HandleFunc("POST /releases/stop", s.operate("stop", s.stopRollout))
}

func (s *server) releasesPage(w http.ResponseWriter, r *http.Request) {
	d := s.frame(r, "peers", "Releases of the volunteers' program")
	of, err := s.cfg.Releases.Releases()
	if err == nil {
		d["Of"], d["Shares"] = of, []string{"1%", "10%", "50%", "100%"}
	}
	s.shows(w, "releases", d, err)
}

func (s *server) rollout(_ http.ResponseWriter, r *http.Request) (string, error) {
	_, err := s.cfg.Releases.Roll(desk.RolloutAsk{Version: r.PostFormValue("version"), Share: r.PostFormValue("share"), Again: r.PostFormValue("again") != ""})
	return "/releases", err
}

func (s *server) stopRollout(http.ResponseWriter, *http.Request) (string, error) {
	_, err := s.cfg.Releases.StopRollout()
	return "/releases", err
}
