package api

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"time"

	"shoal/manager/desk"
	"shoal/recrawl"
)

// plan answers with what a plan starts from: one line for the whole, then one for every channel that is crawled. Where that breaks off,
// a Problem is the last line.
func (s *server) plan(w http.ResponseWriter, r *http.Request) (any, error) {
	pace := desk.StoppedPace{Tick: time.Minute}
	if t := r.FormValue("tick"); t != "" {
		var err error
		if pace.Tick, err = time.ParseDuration(t); err != nil {
			return nil, fmt.Errorf("%w: tick: %w", errAsk, err)
		}
	}
	for name, to := range map[string]*recrawl.Tick{"every": &pace.Every, "min_ticks": &pace.MinTicks} {
		n, err := number(r, name, 0, math.MaxInt32)
		if err != nil {
			return nil, err
		}
		*to = recrawl.Tick(n)
	}
	basis, err := s.cfg.Desk.PlanBasis(r.Context(), pace)
	if err != nil {
		return nil, err
	}
	w.Header().Set("Content-Type", "application/x-ndjson")
	e := json.NewEncoder(w)
	if err = e.Encode(basis); err == nil {
		err = s.cfg.Desk.PlanChannels(r.Context(), func(c desk.PlanChannel) error { return e.Encode(c) })
	}
	if err != nil {
		s.cfg.Log.Warn("basis of a plan broke off", "err", err)
		_ = errors.Join(e.Encode(Problem{err.Error()}), http.NewResponseController(w).Flush()) // the last line says why
		panic(http.ErrAbortHandler)                                                            // the reader must see that it is not complete
	}
	return streamed{}, nil
}
