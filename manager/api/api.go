// Package api is the operator's HTTP interface: /api/v1, with an OpenAPI document of itself. The same handler serves
// a running manager and, without a socket, a stopped one's database, so that the command line has one way of doing
// things. It decides nothing. The code that mounts it decides who may ask (manager/web's guard, token and cookie).
package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"shoal/channel"
	"shoal/channel/listing"
	"shoal/manager/desk"
	"shoal/recrawl"
)

// Config of the interface.
type Config struct {
	Desk    *desk.Desk
	Archive http.Handler // served below /api/v1/archive; nil: not
	Log     *slog.Logger
}

// ErrNoDesk is returned by Handler for a Config without a Desk.
var ErrNoDesk = errors.New("api: needs a desk")

type server struct {
	cfg Config
	doc []byte
}

// Handler serves the interface.
func Handler(cfg Config) (http.Handler, error) {
	if cfg.Desk == nil {
		return nil, ErrNoDesk
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	s := &server{cfg: cfg}
	mux := http.NewServeMux()
	table := s.routes()
	doc, err := document(table)
	if err != nil {
		return nil, err
	}
	s.doc = doc
	for _, r := range table {
		switch {
		case r.serve != nil:
			mux.HandleFunc(r.method+" "+Prefix+r.path, s.asked(r, s.wrap(r)))
		case cfg.Archive != nil:
			mux.HandleFunc(r.method+" "+Prefix+r.path, s.asked(r, http.StripPrefix(Prefix+"/archive", cfg.Archive).ServeHTTP))
		}
	}
	mux.HandleFunc(Prefix+"/", func(w http.ResponseWriter, r *http.Request) { s.stray(w, r, mux) })
	return mux, nil
}

// stray answers where there is nothing, or nothing for that method.
func (s *server) stray(w http.ResponseWriter, r *http.Request, mux *http.ServeMux) {
	var known []string
	for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete} {
		other := r.Clone(r.Context())
		other.Method = method
		if _, pattern := mux.Handler(other); pattern != Prefix+"/" {
			known = append(known, method)
		}
	}
	if len(known) > 0 {
		w.Header().Set("Allow", strings.Join(known, ", "))
		s.problem(w, http.StatusMethodNotAllowed, fmt.Errorf("%s takes %s, not %s", r.URL.Path, strings.Join(known, " or "), r.Method))
		return
	}
	s.problem(w, http.StatusNotFound, fmt.Errorf("there is nothing at %s: %s/openapi.json says what there is", r.URL.Path, Prefix))
}

// Prefix is where the interface begins.
const Prefix = "/api/v1"

// Limits of requests.
const (
	maxBody   = 1 << 20 // but for imports
	maxImport = 8 << 30
	maxList   = 1000
)

// errAsk is a request that cannot be understood.
var errAsk = errors.New("api: not understood")

// handler answers a request; a nil answer is "done".
type handler func(w http.ResponseWriter, r *http.Request) (answer any, err error)

func (s *server) wrap(rt route) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		limit := int64(maxBody)
		if rt.upload {
			limit = maxImport
		}
		r.Body = http.MaxBytesReader(w, r.Body, limit)
		answer, err := rt.serve(w, r)
		if err != nil {
			s.fail(w, err)
			return
		}
		if _, written := answer.(streamed); written {
			return
		}
		if answer == nil {
			answer = map[string]bool{"ok": true}
		}
		w.Header().Set("Content-Type", "application/json")
		if err := json.NewEncoder(w).Encode(answer); err != nil {
			s.cfg.Log.Debug("answer not sent", "path", r.URL.Path, "err", err)
		}
	}
}

// asked refuses a query that the route does not know, or that says a thing twice, and a body where none is read: it is probably misspelt, and what was
// meant would not be done.
func (s *server) asked(rt route, next http.HandlerFunc) http.HandlerFunc {
	kinds := map[string]string{}
	var names []string
	for _, p := range rt.params {
		kinds[p.name], names = p.kind, append(names, p.name)
	}
	return func(w http.ResponseWriter, r *http.Request) {
		query, err := url.ParseQuery(r.URL.RawQuery)
		if err != nil {
			s.fail(w, fmt.Errorf("%w: the part behind the question mark cannot be read: %w", errAsk, err))
			return
		}
		for _, name := range slices.Sorted(maps.Keys(query)) {
			v := query[name]
			kind, ok := kinds[name]
			switch {
			case !ok && len(names) == 0:
				err = fmt.Errorf("%w: no parameter %.40q: there is none here", errAsk, name)
			case !ok:
				err = fmt.Errorf("%w: no parameter %.40q: there are %s", errAsk, name, strings.Join(names, ", "))
			case len(v) > 1:
				err = fmt.Errorf("%w: parameter %s is there twice", errAsk, name)
			case kind == flagKind && v[0] != "" && v[0] != "0" && v[0] != "1":
				err = fmt.Errorf("%w: %s=%.20q: want 1 for yes, or 0 for no", errAsk, name, v[0])
			}
			if err != nil {
				s.fail(w, err)
				return
			}
		}
		if rt.in == nil && !rt.upload && !empty(r.Body) {
			s.fail(w, fmt.Errorf("%w: %s %s takes no body%s", errAsk, r.Method, r.URL.Path, instead(names)))
			return
		}
		next(w, r)
	}
}

// instead says where the parameters stand.
func instead(names []string) string {
	if len(names) == 0 {
		return ""
	}
	return ": write its parameters behind the question mark: " + strings.Join(names, ", ")
}

// empty reports whether a body names nothing.
func empty(body io.Reader) bool {
	if body == nil {
		return true
	}
	raw, err := io.ReadAll(io.LimitReader(body, 64))
	said := strings.TrimSpace(string(raw))
	return err == nil && (said == "" || said == "{}" || said == "null") // the last is what clients write that have nothing to send
}

// streamed says that the answer is written already.
type streamed struct{}

// Problem is an error as the interface tells it.
type Problem struct {
	Error string `json:"error"`
}

func (s *server) fail(w http.ResponseWriter, err error) {
	code := http.StatusInternalServerError
	var big *http.MaxBytesError
	switch {
	case errors.Is(err, channel.ErrUnknown):
		code = http.StatusNotFound
	case errors.Is(err, channel.ErrDuplicate):
		code = http.StatusConflict
	case errors.Is(err, desk.ErrStopped), errors.Is(err, channel.ErrStaleEpoch), errors.Is(err, context.DeadlineExceeded):
		code = http.StatusServiceUnavailable
	case errors.As(err, &big):
		code, err = http.StatusRequestEntityTooLarge, fmt.Errorf("the request is larger than the %d bytes that are taken here", big.Limit)
	case errors.Is(err, errAsk), errors.Is(err, listing.ErrLine), errors.Is(err, listing.ErrFormat), errors.Is(err, channel.ErrScope),
		errors.Is(err, channel.ErrURL), errors.Is(err, channel.ErrHost), errors.Is(err, desk.ErrAsk), errors.Is(err, recrawl.ErrUnknown), errors.Is(err, recrawl.ErrParams):
		code = http.StatusBadRequest
	}
	s.problem(w, code, err)
}

func (s *server) problem(w http.ResponseWriter, code int, err error) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	if err := json.NewEncoder(w).Encode(Problem{err.Error()}); err != nil {
		s.cfg.Log.Debug("answer not sent", "err", err)
	}
}

func body(r *http.Request, v any) error {
	raw, err := io.ReadAll(r.Body)
	if err != nil {
		return err
	}
	if len(strings.TrimSpace(string(raw))) == 0 {
		return nil
	}
	if err := listing.Decode(raw, v); err != nil {
		return fmt.Errorf("%w: %s", errAsk, strings.TrimPrefix(err.Error(), listing.ErrLine.Error()+": ")) // there are no lines
	}
	return nil
}

// changes reads a body that must name something.
func changes(r *http.Request, v any) error {
	raw, err := io.ReadAll(r.Body)
	if err != nil {
		return err
	}
	r.Body = io.NopCloser(bytes.NewReader(raw))
	if err := body(r, v); err != nil {
		return err
	}
	var named map[string]json.RawMessage
	if err := json.Unmarshal(raw, &named); err != nil && len(bytes.TrimSpace(raw)) > 0 {
		return fmt.Errorf("%w: %w", errAsk, err)
	}
	if len(named) == 0 {
		return fmt.Errorf("%w: nothing to change is named", errAsk)
	}
	return nil
}

func idOf(r *http.Request) (channel.ID, error) {
	n, err := strconv.ParseUint(r.PathValue("id"), 10, 64)
	if err != nil || n == 0 {
		return 0, fmt.Errorf("%w: %q is no channel's number", errAsk, r.PathValue("id"))
	}
	return channel.ID(n), nil
}

// number reads a whole number from 0 on.
func number(r *http.Request, name string, otherwise, most int) (int, error) {
	text := r.URL.Query().Get(name)
	if text == "" {
		return otherwise, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 {
		return 0, fmt.Errorf("%w: %s=%.20q is no whole number from 0 on", errAsk, name, text)
	}
	return min(n, most), nil
}
