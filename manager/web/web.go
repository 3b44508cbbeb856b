// Package web shows an operator what the manager does: server-rendered pages with SVG plots and a little plain JavaScript that
// refreshes them and adds to forms what says who sends them, no build step. It decides nothing: it shows what a Desk tells it and passes wishes on to it. It is not
// for the volunteer's page, which belongs to the agent.
package web

import (
	"context"
	"crypto/subtle"
	"embed"
	"errors"
	"fmt"
	"html/template"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"shoal/channel"
	"shoal/manager"
	"shoal/manager/desk"
)

// Desk is what the pages read and ask for. *desk.Desk is one.
type Desk interface {
	Overview() desk.Overview
	Banner(ctx context.Context) []desk.Finding
	Tally(ctx context.Context) (desk.Tally, error)
	Peers() ([]desk.Peer, error)
	PurgeCount(ctx context.Context, name string) (desk.PurgedPeer, error)
	StartPurge(ctx context.Context, name string) error
	Purging() *manager.Withdrawing
	Ban(ctx context.Context, peer string, banned bool) error
	Refused(ctx context.Context) ([]desk.Refused, error)
	Suspects() (out []desk.Suspect, more int, err error)
	Rows(ctx context.Context, find desk.Find) (rows []desk.Row, total int, err error)
	Row(ctx context.Context, id channel.ID) (desk.Row, []desk.Event, error)
	CrawlNow(ctx context.Context, id channel.ID) error
	Pause(ctx context.Context, id channel.ID, paused bool) error
	Remove(ctx context.Context, id channel.ID) error
	LeftOut(ctx context.Context, id channel.ID) ([]desk.LeftOut, error)
	Add(ctx context.Context, urls []string) (added []desk.Added, blocked int, err error)
	Proposals(ctx context.Context, id channel.ID) (dirs []desk.DirCount, pages int, err error)
	Split(ctx context.Context, id channel.ID, dirs []string) ([]channel.ID, []string, error)
	Hosts(ctx context.Context, query string, blocked bool, n int) ([]desk.Host, error)
	KnownHost(ctx context.Context, host string) error
	KnownMember(ctx context.Context, name string) error
	Block(ctx context.Context, host, why string) error
	Strategy(ctx context.Context) (desk.Strategy, error)
	SetStrategy(ctx context.Context, ask desk.StrategyAsk) (desk.Strategy, error)
	TryStrategy(ctx context.Context, ask desk.StrategyAsk) (desk.Trial, error)
}

// Config of the pages.
type Config struct {
	Desk     Desk
	Court    Court    // nil: there are no pages about whom to believe
	Releases Releases // nil: there is no page about releases
	Token    string   // with it one may operate
	OpenView bool     // looking needs no token (one person's machine); one that does not fit is refused all the same
	Address  string   // where the pages are served; browsers' sessions are told apart by its port
	Hosts    []string
	Kept     []byte       // sessions that Keep was given before; nil: none
	Keep     func([]byte) // keeps sessions over a restart; nil: they end with the process
	API      http.Handler // served below /api/v1/: reading as the pages are, changing with the token; nil: none
	Probes   http.Handler // served at /metrics, /healthz and /readyz without a token; may be nil
	Debug    http.Handler // served below /debug/ to clients with the token; may be nil
	Log      *slog.Logger
}

//go:embed page.html login.html trust.html releases.html style.css live.js enter.js
var files embed.FS

type server struct {
	cfg      Config
	pages    *template.Template
	cookie   string // name of the browsers' half of a session
	sessions *sessions
}

// ErrNoDesk is returned by Handler for a Config without a Desk.
var ErrNoDesk = errors.New("web: the pages need a desk")

// Handler serves the operator's pages and their JSON.
func Handler(cfg Config) (http.Handler, error) {
	if cfg.Desk == nil {
		return nil, ErrNoDesk
	}
	t, err := template.New("").Funcs(funcs).ParseFS(files, "page.html", "login.html", "trust.html", "releases.html")
	if err != nil {
		return nil, fmt.Errorf("parse pages: %w", err)
	}
	s := &server{cfg: cfg, pages: t, cookie: cookieFor(cfg.Address), sessions: newSessions(cfg.Token, cfg.Address, cfg.Kept, cfg.Keep)}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", s.view(s.page("overview")))
	mux.HandleFunc("GET /channels", s.view(s.page("channels")))
	mux.HandleFunc("GET /channels/added", s.view(s.added))
	mux.HandleFunc("GET /channel/{id}", s.view(s.page("channel")))
	mux.HandleFunc("GET /peers", s.view(s.page("peers")))
	mux.HandleFunc("/", s.view(s.missing))
	s.mount(mux)
	s.routes(mux)
	s.trustRoutes(mux)
	s.releaseRoutes(mux)
	mux.HandleFunc("GET /login", s.login)
	mux.HandleFunc("POST /login", s.loginPost)
	mux.HandleFunc("POST /logout", s.logout)
	mux.HandleFunc("GET /style.css", s.static("style.css", "text/css; charset=utf-8"))
	mux.HandleFunc("GET /live.js", s.static("live.js", "text/javascript; charset=utf-8"))
	mux.HandleFunc("GET /enter.js", s.static("enter.js", "text/javascript; charset=utf-8"))
	return s.guard(s.watch(mux)), nil
}

// mount adds what others serve.
func (s *server) mount(mux *http.ServeMux) {
	if s.cfg.API != nil {
		mux.HandleFunc("/api/v1/", func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodGet || r.Method == http.MethodHead {
				s.view(s.cfg.API.ServeHTTP)(w, r)
				return
			}
			if t, any := shown(r); !any || !s.fits(t) { // no cookie changes anything there
				unauthorized(w, r)
				return
			}
			s.cfg.API.ServeHTTP(w, r)
		})
	}
	if s.cfg.Probes != nil {
		for _, path := range []string{"/metrics", "/healthz", "/readyz"} {
			mux.Handle("GET "+path, s.cfg.Probes)
		}
	}
	if s.cfg.Debug != nil {
		mux.HandleFunc("/debug/", func(w http.ResponseWriter, r *http.Request) {
			if !s.mayOperate(r) {
				unauthorized(w, r)
				return
			}
			s.cfg.Debug.ServeHTTP(w, r)
		})
	}
}

// guard refuses what a foreign page could make a browser do: other Host names (DNS rebinding) and cross-site writes. It has strangers hurry.
func (s *server) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.hurry(w, r)
		if !s.knownHost(r.Host) {
			http.Error(w, "This name is not one of this manager's. Open the page by the address that it printed at its start.", http.StatusMisdirectedRequest)
			return
		}
		if origin := r.Header.Get("Origin"); r.Method != http.MethodGet && origin != "" {
			if u, err := url.Parse(origin); err != nil || u.Host != r.Host {
				http.Error(w, "Refused: the request came from another site's page.", http.StatusForbidden)
				return
			}
		}
		h := w.Header()
		h.Set("Content-Security-Policy", "default-src 'none'; style-src 'self' 'unsafe-inline'; script-src 'self'; connect-src 'self'; img-src 'self' data:; form-action 'self'; frame-ancestors 'none'; base-uri 'none'")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "same-origin") // with no-referrer browsers call the Origin of our own forms null
		h.Set("Cache-Control", "no-store")
		s.forgetToken(w, r)
		next.ServeHTTP(w, r)
	})
}

func (s *server) knownHost(hostport string) bool {
	host, _, err := net.SplitHostPort(hostport)
	if err != nil {
		host = hostport
	}
	if host == "localhost" || net.ParseIP(strings.Trim(host, "[]")) != nil {
		return true
	}
	for _, h := range s.cfg.Hosts {
		if strings.EqualFold(h, host) {
			return true
		}
	}
	return false
}

// fits reports whether a token is the operator's.
func (s *server) fits(token string) bool {
	return s.cfg.Token != "" && subtle.ConstantTimeCompare([]byte(token), []byte(s.cfg.Token)) == 1
}

// shown is the token that a program shows in so many words, if any. A browser's cookie is not one: it may be left from another manager.
func shown(r *http.Request) (token string, any bool) {
	return strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
}

// mayView reports whether the client may look: if it may operate, or if looking is open and it does not send a wrong
// token, with which it takes this manager for another one.
func (s *server) mayView(r *http.Request) bool {
	_, any := shown(r)
	return s.mayOperate(r) || s.cfg.OpenView && !any
}

const (
	needsToken = "This needs the operator's token: send it as Authorization: Bearer TOKEN. It is in operator.token of the manager's data folder."
	wrongToken = "That token does not fit this manager. Its own is in operator.token of its data folder."
)

// unauthorized refuses a program.
func unauthorized(w http.ResponseWriter, r *http.Request) {
	why := needsToken
	if _, any := shown(r); any {
		why = wrongToken
	}
	http.Error(w, why, http.StatusUnauthorized)
}

func (s *server) view(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		t := r.URL.Query().Get("token")
		_, any := shown(r)
		switch {
		case t != "" && s.fits(t):
			s.enter(w, ownPage(r.URL.RequestURI()))
		case t != "":
			s.loginAgain(w, r.URL.RequestURI())
		case s.mayView(r):
			next(w, r)
		case any || strings.HasPrefix(r.URL.Path, "/api/"):
			unauthorized(w, r)
		default:
			http.Redirect(w, r, loginFor(r.URL.RequestURI()), http.StatusSeeOther)
		}
	}
}

// loginFor is the address that asks for the token, and then leads to a page.
func loginFor(page string) string {
	if page = ownPage(page); page == "/" {
		return "/login"
	}
	return "/login?" + url.Values{"to": {page}}.Encode()
}

// ownPage is the address of a page of this manager to which a link leads, and the overview if it leads elsewhere. It is without a token, which would stay in the
// history of a browser.
func ownPage(link string) string {
	u, err := url.Parse(link)
	if err != nil || u.Scheme != "" || u.Host != "" || !strings.HasPrefix(u.Path, "/") || strings.HasPrefix(u.Path, "//") || strings.HasPrefix(u.Path, "/\\") ||
		u.Path == "/login" { // browsers take // and /\ for the beginning of a host
		return "/"
	}
	q := u.Query()
	for _, name := range []string{"token", "done", "fragment"} {
		q.Del(name)
	}
	own := url.URL{Path: u.Path, RawQuery: q.Encode()}
	return own.String()
}

// loginAgain asks for the token anew.
func (s *server) loginAgain(w http.ResponseWriter, to string) {
	w.WriteHeader(http.StatusUnauthorized)
	s.render(w, "login", map[string]any{"Title": "Log in", "Wrong": true, "To": ownPage(to)})
}

// missing says that there is no such page.
func (s *server) missing(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		http.Error(w, "Nothing here takes that.", http.StatusMethodNotAllowed)
		return
	}
	w.WriteHeader(http.StatusNotFound)
	s.render(w, "missing", s.frame(r, "", "No such page"))
}

func pathID(r *http.Request) (channel.ID, error) {
	n, err := strconv.ParseUint(r.PathValue("id"), 10, 64)
	if err != nil || n == 0 {
		return 0, fmt.Errorf("%q is no channel's number; the list of channels shows them", r.PathValue("id"))
	}
	return channel.ID(n), nil
}

func (s *server) static(name, kind string) http.HandlerFunc {
	body, err := files.ReadFile(name)
	return func(w http.ResponseWriter, _ *http.Request) {
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", kind)
		if _, err := w.Write(body); err != nil {
			s.cfg.Log.Debug("page not sent", "err", err)
		}
	}
}

const (
	pageRows    = 50
	pageRowsMax = 1000
)

func paging(r *http.Request) (from, n int) {
	from, _ = strconv.Atoi(r.URL.Query().Get("from"))
	n, _ = strconv.Atoi(r.URL.Query().Get("n"))
	if n <= 0 {
		n = pageRows
	}
	return max(from, 0), min(n, pageRowsMax)
}
