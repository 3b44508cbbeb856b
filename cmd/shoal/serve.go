package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/http/pprof"
	"os"
	"path/filepath"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"shoal/internal/member"
	"shoal/internal/version"
	"shoal/manager/api"
	"shoal/manager/archive"
	"shoal/manager/desk"
	"shoal/manager/web"
)

// handler is all that the station serves over HTTP: pages, API, archive, metrics, health, profiles.
func (st *station) handler() (http.Handler, error) {
	a, err := api.Handler(api.Config{Desk: st.desk, Archive: st.archive.Handler(), Log: st.cfg.log})
	if err != nil {
		return nil, err
	}
	probes, err := st.probes()
	if err != nil {
		return nil, err
	}
	sessions := filepath.Join(st.cfg.data, "page-sessions.json")
	kept, err := os.ReadFile(sessions)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		st.cfg.log.Warn("browsers must log in again: their sessions cannot be read", "err", err)
	}
	keep := func(b []byte) {
		if err := member.WriteFile(sessions, b); err != nil {
			st.cfg.log.Warn("browsers must log in again after a restart: their sessions cannot be kept", "err", err)
		}
	}
	return web.Handler(web.Config{Desk: st.desk, Court: st.desk.Court(), Releases: st.desk.Shelf(), Token: st.token, OpenView: st.cfg.openView && loopback(st.page.Addr()), Hosts: st.cfg.names,
		Address: st.page.Addr().String(), Kept: kept, Keep: keep, API: a, Probes: probes, Debug: profiles(), Log: st.cfg.log})
}

// loopback reports whether only this machine reaches an address.
func loopback(a net.Addr) bool {
	t, ok := a.(*net.TCPAddr)
	return ok && t.IP.IsLoopback()
}

// probes are metrics and health.
func (st *station) probes() (http.Handler, error) {
	reg := prometheus.NewRegistry()
	build := prometheus.NewGauge(prometheus.GaugeOpts{Name: "shoal_build_info", Help: "1, labelled with the version.", ConstLabels: prometheus.Labels{"version": version.String()}})
	build.Set(1)
	damaged := prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "shoal_manager_database_damaged", Help: "1 when bytes of the channel database are not what was written."}, func() float64 {
		if st.db.Damaged() != nil {
			return 1
		}
		return 0
	})
	if t := st.cfg.truth; t != nil {
		for by, of := range map[string]func(*desk.Truth) float64{
			"channel": func(t *desk.Truth) float64 { return t.Channels }, "page": func(t *desk.Truth) float64 { return t.Pages },
			"weight": func(t *desk.Truth) float64 { return t.Weight },
		} {
			share := prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "shoal_pond_fresh_true_share", Help: "Share that is current in truth, as the pond knows.", ConstLabels: prometheus.Labels{"by": by}},
				func() float64 { return of(t.now()) })
			if err := reg.Register(share); err != nil {
				return nil, fmt.Errorf("metrics: %w", err)
			}
		}
		for by, of := range map[string]func(*desk.TrueFreshness) float64{
			"channel": func(m *desk.TrueFreshness) float64 { return m.Channels }, "page": func(m *desk.TrueFreshness) float64 { return m.Pages },
			"weight": func(m *desk.TrueFreshness) float64 { return m.Weight },
		} {
			if err := reg.Register(t.mean("shoal_pond_fresh_true_mean_share", "Share that was current in truth on average since the start.", prometheus.Labels{"by": by}, of)); err != nil {
				return nil, fmt.Errorf("metrics: %w", err)
			}
		}
		if err := reg.Register(t.mean("shoal_pond_estimate_error", "How far the estimate was from the share of channels that was current in truth, on average since the start.", nil,
			func(m *desk.TrueFreshness) float64 { return m.EstimateError })); err != nil {
			return nil, fmt.Errorf("metrics: %w", err)
		}
	}
	if n := st.cfg.near; n != nil {
		if err := n.register(reg); err != nil {
			return nil, err
		}
	}
	if err := st.managersMetrics(reg); err != nil {
		return nil, err
	}
	for _, c := range []prometheus.Collector{st.manager.Collector(), st.archive.Collector(), build, damaged, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{})} {
		if err := reg.Register(c); err != nil {
			return nil, fmt.Errorf("metrics: %w", err)
		}
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(prometheus.Gatherers{reg, st.node.Metrics()}, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /healthz", answer(func(ctx context.Context) error { return alive(ctx, st.manager, st.database()) }))
	mux.HandleFunc("GET /readyz", answer(st.ready))
	return mux, nil
}

// mean is a metric of what was true on average.
func (t *truth) mean(name, help string, labels prometheus.Labels, of func(*desk.TrueFreshness) float64) prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help, ConstLabels: labels}, func() float64 {
		if m := t.now().Mean; m != nil {
			return of(m)
		}
		return 0
	})
}

// alive says that a restart would help, if so. While the database is away the manager's loop may wait for it, and so would one that was restarted.
func alive(ctx context.Context, m loop, database func(context.Context) error) error {
	if database != nil && m.Running() {
		soon, cancel := context.WithTimeout(ctx, readyFor)
		defer cancel()
		if database(soon) != nil {
			return nil
		}
	}
	return m.Alive(ctx)
}

// loop is what alive asks of a manager.
type loop interface {
	Running() bool
	Alive(context.Context) error
}

// readyFor is how long the database may take to give a sign of life.
const readyFor = time.Second

// failingFor is for how long a failed write counts after which none was tried: peers try again within that.
const failingFor = time.Minute

// ready says why no work is done, if so.
func (st *station) ready(ctx context.Context) error {
	if reach := st.database(); reach != nil {
		soon, cancel := context.WithTimeout(ctx, readyFor)
		defer cancel()
		if err := reach(soon); err != nil {
			return err
		}
	}
	switch s := st.archive.Ledger.Figures(); {
	case s.Failing && time.Since(s.LastFailed) < failingFor:
		return fmt.Errorf("the archive cannot store what peers bring: %s", s.LastFailure)
	case !s.Writing.IsZero() && time.Since(s.Writing) > archive.SlowWrite:
		return fmt.Errorf("a write of what peers bring goes on since %s: a disk, a database or a bucket is slow, or does not answer", s.Writing.UTC().Format("15:04:05 UTC"))
	}
	return st.manager.Ready(ctx)
}

// database asks for a sign of life of the server with the channels; nil: they are in the data folder.
func (st *station) database() func(context.Context) error {
	if s, is := st.db.(interface{ Reach(context.Context) error }); is {
		return s.Reach
	}
	return nil
}

func answer(f func(context.Context) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if err := f(r.Context()); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		_, _ = fmt.Fprintln(w, "ok") // the client may be gone
	}
}

func profiles() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	return mux
}

// addressFile tells the command line where the manager that runs on a data folder is.
const addressFile = "manager.url"

func (st *station) tellAddress() (undo func() error, err error) {
	path := filepath.Join(st.cfg.data, addressFile)
	if err := member.WriteFile(path, []byte("http://"+st.page.Addr().String()+"\n")); err != nil {
		return nil, fmt.Errorf("write where the manager is: %w", err)
	}
	return func() error {
		if err := os.Remove(path); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	}, nil
}
