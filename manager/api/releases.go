package api

import (
	"net/http"

	"shoal/manager/desk"
)

// releaseRoutes are the operations about releases of the volunteers' program.
func (s *server) releaseRoutes() []route {
	return []route{
		{method: "GET", path: "/releases", what: "Releases of the volunteers' program: which are signed, how many peers run which, how many fell back, how far the roll-out is.", out: desk.Releases{}, serve: s.releases},
		{method: "POST", path: "/releases/rollout", what: "Give a signed release to a share of all peers, such as 10%. A larger share contains every smaller one.", in: desk.RolloutAsk{}, out: desk.Releases{}, serve: s.rollout},
		{method: "POST", path: "/releases/stop", what: "Give the release to no further peer.", out: desk.Releases{}, serve: s.stopRollout},
	}
}

func (s *server) releases(http.ResponseWriter, *http.Request) (any, error) {
	return s.cfg.Desk.Shelf().Releases()
}

func (s *server) rollout(_ http.ResponseWriter, r *http.Request) (any, error) {
	var ask desk.RolloutAsk
	if err := body(r, &ask); err != nil {
		return nil, err
	}
	return s.cfg.Desk.Shelf().Roll(ask)
}

func (s *server) stopRollout(http.ResponseWriter, *http.Request) (any, error) {
	return s.cfg.Desk.Shelf().StopRollout()
}
