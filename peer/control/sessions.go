package control

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"slices"
	"sync"
	"time"

	"shoal/internal/member"
)

// Bounds of sessions and links.
const (
	OnceFor     = time.Minute         // how long a one-time link is good
	maxOnce     = 8                   // links at a time; a new one ends the oldest
	sessionFor  = 30 * 24 * time.Hour // since its last use
	maxSessions = 16                  // a new one ends the one used longest ago
	noteEvery   = time.Hour           // how exactly the last use is kept
)

// session is kept as hashes, so that its file opens nothing.
type session struct {
	Cookie string    `json:"cookie"`
	Key    string    `json:"key"`
	Used   time.Time `json:"used"`
	Addr   string    `json:"addr"` // at which it began
}

// sessions are those of browsers. They outlive the process, so that a restart logs nobody out. They do not outlive its address: where another one had to be
// taken, another user's program may listen at the old one, and browsers show it both halves. It is safe for concurrent use.
type sessions struct {
	path string
	addr string
	now  func() time.Time

	mu    sync.Mutex
	list  []session
	links []link
}

type link struct {
	once string
	till time.Time
}

func openSessions(path, addr string, now func() time.Time) *sessions {
	s := &sessions{path: path, addr: addr, now: now}
	if b, err := os.ReadFile(path); err == nil && json.Unmarshal(b, &s.list) != nil {
		s.list = nil // a damaged file opens nothing
	}
	if slices.ContainsFunc(s.list, func(x session) bool { return x.Addr != addr }) {
		s.list = []session{}
		s.save() // at once: nor are they good when the old address is free again
	}
	return s
}

func hashed(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:])
}

// once makes a one-time link's secret.
func (s *sessions) once() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.links) >= maxOnce {
		s.links = slices.Delete(s.links, 0, 1)
	}
	l := link{secret(), s.now().Add(OnceFor)}
	s.links = append(s.links, l)
	return l.once
}

// use reports whether a link's secret is good, and ends it.
func (s *sessions) use(once string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, l := range s.links {
		if same(l.once, once) {
			s.links = slices.Delete(s.links, i, i+1)
			return s.now().Before(l.till)
		}
	}
	return false
}

// make begins a session and returns its halves.
func (s *sessions) make() (half, key string) {
	half, key = secret(), secret()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.expire()
	if len(s.list) >= maxSessions {
		oldest := slices.MinFunc(s.list, func(a, b session) int { return a.Used.Compare(b.Used) })
		s.list = slices.DeleteFunc(s.list, func(x session) bool { return x == oldest })
	}
	s.list = append(s.list, session{hashed(half), hashed(key), s.now(), s.addr})
	s.save()
	return half, key
}

// has reports whether there is a session with these halves. Files of the page need the cookie alone.
func (s *sessions) has(half, key string, both bool) bool {
	h, k := hashed(half), hashed(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.expire()
	for i := range s.list {
		x := &s.list[i]
		if !same(x.Cookie, h) || both && !same(x.Key, k) {
			continue
		}
		if now := s.now(); now.Sub(x.Used) > noteEvery {
			x.Used = now
			s.save()
		}
		return true
	}
	return false
}

func (s *sessions) expire() {
	now := s.now()
	s.list = slices.DeleteFunc(s.list, func(x session) bool { return now.Sub(x.Used) > sessionFor })
}

// save keeps the sessions over a restart. A folder that cannot be written to costs a login, which is no reason to refuse this one.
func (s *sessions) save() {
	if b, err := json.Marshal(s.list); err == nil {
		_ = member.WriteFile(s.path, b)
	}
}
