// Package board is the network's public page: which volunteers and teams brought the most pages that others saw alike. It shows who wants to be shown, by nickname,
// and nothing else of anybody; it only reads, sets no cookie, runs no script and loads nothing from elsewhere. It stands on an address of its own,
// so that the public never reaches the operator's pages.
//
// It is not for operators (package web), and not for what one volunteer is told of itself, which the peer asks the manager.
package board

import (
	"context"
	"embed"
	"encoding/json"
	"fmt"
	"html/template"
	"log/slog"
	"net/http"
	"strconv"
	"sync"
	"time"

	"shoal/manager"
)

// Source is where the board is read.
type Source interface {
	Board(ctx context.Context, since time.Time, n int) (manager.Board, error)
}

// Config of the board. All fields but Name and Contact are needed.
type Config struct {
	Source  Source
	Network string // id, against which certificates are checked
	Name    string // of the network, for people; may be empty
	Contact string // URL of those who run it; may be empty
	Now     func() time.Time
	Log     *slog.Logger
}

// Limits of the board.
const (
	maxListed = 50_000           // accounts, and teams
	pageRows  = 100              // of an answer
	keptFor   = 30 * time.Second // that a list is told again: to make one, the archive goes through all credits
	maxName   = 256              // bytes of a name that is asked for
)

// spans are the times that the board adds up, by weeks.
var spans = []struct {
	Weeks int
	Name  string
}{{1, "This week"}, {4, "Four weeks"}, {0, "Ever"}}

//go:embed page.html style.css
var files embed.FS

type server struct {
	cfg  Config
	page *template.Template

	mu    sync.Mutex // guards lists
	lists map[int]*list
}

// list is the board over one time.
type list struct {
	made  time.Time
	from  time.Time // zero: ever
	names []row
	teams []row
	other manager.BoardRow // of those who do not want to be shown

	byName, byTeam map[string]int // places in names and teams, by manager.NameKey
}

// row is a volunteer or a team.
type row struct {
	Rank  int    `json:"rank"` // those with as many pages share one
	Name  string `json:"name"`
	Team  string `json:"team,omitempty"`
	Pages uint64 `json:"pages"`
	Bytes uint64 `json:"bytes"`
}

// Handler serves the board.
func Handler(cfg Config) (http.Handler, error) {
	t, err := template.New("").Funcs(template.FuncMap{"count": count, "size": size, "day": func(t time.Time) string { return t.Format("2 January 2006") }}).ParseFS(files, "page.html")
	if err != nil {
		return nil, fmt.Errorf("parse the board's page: %w", err)
	}
	s := &server{cfg: cfg, page: t, lists: map[int]*list{}}
	m := http.NewServeMux()
	m.HandleFunc("GET /{$}", s.show)
	m.HandleFunc("GET /board.json", s.tell)
	m.HandleFunc("GET /badge/{file}", s.badge(func(l *list) ([]row, map[string]int) { return l.names, l.byName }))
	m.HandleFunc("GET /team-badge/{file}", s.badge(func(l *list) ([]row, map[string]int) { return l.teams, l.byTeam }))
	m.HandleFunc("GET /style.css", func(w http.ResponseWriter, r *http.Request) { http.ServeFileFS(w, r, files, "style.css") })
	return guard(newLimits(cfg.Now), m), nil
}

// guard sets what a browser may do with the answers, and turns away who asks too much.
func guard(l *limits, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", "default-src 'none'; style-src 'self'; img-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cache-Control", "public, max-age=30")
		if !l.take(r) {
			h.Set("Retry-After", "10")
			h.Set("Cache-Control", "no-store")
			http.Error(w, "Too many requests came from your address. Try again in ten seconds.", http.StatusTooManyRequests)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// list returns the board over some weeks, of which the last is this one; 0: ever. It is at most keptFor old.
func (s *server) list(ctx context.Context, weeks int) (*list, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.cfg.Now()
	if l := s.lists[weeks]; l != nil && now.Sub(l.made).Abs() < keptFor {
		return l, nil
	}
	var since time.Time
	if weeks > 0 {
		since = now.AddDate(0, 0, -7*(weeks-1))
	}
	b, err := s.cfg.Source.Board(context.WithoutCancel(ctx), since, maxListed) // the next one wants it too
	if err != nil {
		return nil, err
	}
	l := &list{made: now, other: manager.BoardRow{Earned: b.Others}}
	if weeks > 0 {
		l.from = b.From
	}
	l.names, l.byName = ranked(b.Names)
	l.teams, l.byTeam = ranked(b.Teams)
	s.lists[weeks] = l
	return l, nil
}

// ranked gives rows their ranks, and their places by name. The archive sorts them.
func ranked(in []manager.BoardRow) (out []row, by map[string]int) {
	out, by = make([]row, len(in)), make(map[string]int, len(in))
	for i, r := range in {
		out[i] = row{i + 1, r.Name, r.Team, r.Pages, r.Bytes}
		if i > 0 && r.Pages == in[i-1].Pages {
			out[i].Rank = out[i-1].Rank
		}
		if key := manager.NameKey(r.Name); !has(by, key) {
			by[key] = i
		}
	}
	return out, by
}

func has(by map[string]int, key string) bool {
	_, ok := by[key]
	return ok
}

// asked reads which list is wanted, and from which row on.
func (s *server) asked(w http.ResponseWriter, r *http.Request) (l *list, weeks, from int, ok bool) {
	var err error
	if text := r.URL.Query().Get("weeks"); text != "" {
		weeks, err = strconv.Atoi(text)
	}
	known := err == nil
	if known {
		known = false
		for _, sp := range spans {
			known = known || sp.Weeks == weeks
		}
	}
	if text := r.URL.Query().Get("from"); text != "" && known {
		from, err = strconv.Atoi(text)
		known = err == nil && from >= 0 && from <= maxListed
	}
	if !known {
		http.Error(w, fmt.Sprintf("The board is of 1 week, of 4 weeks, or with weeks=0 of all time; from=N is the number of the first row, 0 to %d.", maxListed), http.StatusBadRequest)
		return nil, 0, 0, false
	}
	if l, err = s.list(r.Context(), weeks); err != nil {
		s.cfg.Log.Warn("the board cannot be read", "err", err)
		http.Error(w, "The board cannot be read now. Try again later.", http.StatusServiceUnavailable)
		return nil, 0, 0, false
	}
	return l, weeks, from, true
}

// part is the rows of an answer.
func part(rows []row, from int) []row {
	from = min(from, len(rows))
	return rows[from:min(from+pageRows, len(rows))]
}

// answer is /board.json.
type answer struct {
	Network string    `json:"network"`
	Name    string    `json:"network_name,omitempty"`
	Made    time.Time `json:"made"`
	From    time.Time `json:"from,omitzero"` // Monday; absent: ever
	Names   []row     `json:"volunteers"`
	All     int       `json:"all_volunteers"` // on the board, also those not in this answer
	Teams   []row     `json:"teams"`
	AllT    int       `json:"all_teams"`
	Others  amount    `json:"others"` // of volunteers who are not shown
}

type amount struct {
	Pages uint64 `json:"pages"`
	Bytes uint64 `json:"bytes"`
}

func (s *server) tell(w http.ResponseWriter, r *http.Request) {
	l, _, from, ok := s.asked(w, r)
	if !ok {
		return
	}
	open(w)
	send(w, answer{Network: s.cfg.Network, Name: s.cfg.Name, Made: l.made.UTC(), From: l.from, Names: part(l.names, from), All: len(l.names), Teams: part(l.teams, from), AllT: len(l.teams), Others: amount{l.other.Pages, l.other.Bytes}})
}

// open lets pages of other sites read an answer: it is public, and the same for everybody.
func open(w http.ResponseWriter) {
	w.Header().Set("Access-Control-Allow-Origin", "*")
	w.Header().Set("Cross-Origin-Resource-Policy", "cross-origin")
}

func send(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v) // a client that has gone needs no answer
}

func (s *server) show(w http.ResponseWriter, r *http.Request) {
	l, weeks, from, ok := s.asked(w, r)
	if !ok {
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	next := 0
	if from+pageRows < len(l.names) {
		next = from + pageRows
	}
	err := s.page.ExecuteTemplate(w, "page.html", map[string]any{"Network": s.cfg.Network, "Name": s.cfg.Name, "Contact": s.cfg.Contact, "Spans": spans, "Weeks": weeks, "From": l.from, "Made": l.made.UTC(),
		"Names": part(l.names, from), "All": len(l.names), "Teams": part(l.teams, from), "Others": l.other, "Next": next, "Before": max(from-pageRows, 0), "Later": from > 0})
	if err != nil {
		s.cfg.Log.Debug("the board was not sent", "err", err)
	}
}

// count writes a number with a comma between each three digits.
func count(n uint64) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// size words a number of bytes.
func size(n uint64) string {
	for _, u := range []struct {
		name string
		of   float64
	}{{"TiB", 1 << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}} {
		if float64(n) >= u.of {
			return fmt.Sprintf("%.1f %s", float64(n)/u.of, u.name)
		}
	}
	return fmt.Sprintf("%d B", n)
}
