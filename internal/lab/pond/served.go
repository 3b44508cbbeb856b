package pond

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/url"
	"sync"
	"time"
)

// Served is one answer to a request for a page.
type Served struct {
	N           uint64    `json:"n"` // counts from 1
	When        time.Time `json:"when"`
	Host        int       `json:"host"`
	Page        int       `json:"page"`
	Version     uint64    `json:"version"`
	Text        uint64    `json:"text"` // seed of the content
	NotModified bool      `json:"not_modified"`
	From        string    `json:"from"` // address and port that asked
}

const (
	maxServed = 100_000 // answers in the log
	lastOf    = 4       // answers of each page that are kept beside the log
)

// servedLog remembers what was served: the newest answers of all, and the newest of each page.
type servedLog struct {
	mu    sync.Mutex
	n     uint64
	ring  []Served
	pages map[Target][]Served
	shown map[shown]struct{} // only with Trouble
}

func (l *servedLog) add(s Served) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.n++
	s.N = l.n
	if len(l.ring) < maxServed {
		l.ring = append(l.ring, s)
	} else {
		l.ring[(s.N-1)%maxServed] = s
	}
	if l.pages == nil {
		l.pages = make(map[Target][]Served)
	}
	at := Target{s.Host, s.Page}
	l.pages[at] = append(l.pages[at], s)
	l.pages[at] = l.pages[at][max(0, len(l.pages[at])-lastOf):]
}

// Log returns up to n answers after number since, in their order. Answers that are too old are gone.
func (s *Server) Log(since uint64, n int) []Served {
	l := &s.served
	l.mu.Lock()
	defer l.mu.Unlock()
	out := []Served{} // an empty list, not none, for who reads JSON
	if since >= l.n {
		return out
	}
	first := max(since+1, l.n-min(l.n, uint64(len(l.ring)))+1)
	for k := first; k <= l.n && len(out) < n; k++ {
		out = append(out, l.ring[(k-1)%maxServed])
	}
	return out
}

// Served returns the content that a page was served with nearest to a moment. If it was not served lately, it is the
// content that the page had then.
func (s *Server) Served(host, page int, about time.Time) (text uint64) {
	l := &s.served
	l.mu.Lock()
	defer l.mu.Unlock()
	var best time.Duration = -1
	for _, x := range l.pages[Target{host, page}] {
		if d := x.When.Sub(about).Abs(); best < 0 || d <= best {
			best, text = d, x.Text
		}
	}
	if best < 0 {
		return s.w.Version(host, page, about).Text
	}
	return text
}

// wouldServe is what a page shows at a moment.
type wouldServe struct {
	URL     string    `json:"url"`
	Host    int       `json:"host"` // as in Served
	Page    int       `json:"page"`
	At      time.Time `json:"at"`
	Version uint64    `json:"version"`
	Text    uint64    `json:"text"`
	Since   time.Time `json:"since"`
	SHA256  string    `json:"sha256"` // of the body
}

// wouldServe tells what the pond shows at a URL at a moment.
func (w *World) wouldServe(rawURL string, at time.Time) (wouldServe, error) {
	u, err := url.Parse(rawURL)
	if err != nil {
		return wouldServe{}, err
	}
	host, ok := w.Host(u.Hostname())
	if !ok {
		return wouldServe{}, fmt.Errorf("%s is not a host of this pond", u.Hostname())
	}
	page, ok := w.Lookup(host, u.RequestURI())
	if !ok {
		return wouldServe{}, fmt.Errorf("%s has no page %s", u.Hostname(), u.RequestURI())
	}
	v := w.Version(host, page, at)
	sum := sha256.Sum256(w.AppendPage(nil, host, page, v))
	return wouldServe{rawURL, host, page, at, v.ID, v.Text, v.Since, hex.EncodeToString(sum[:])}, nil
}
