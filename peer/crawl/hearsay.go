package crawl

import (
	"net/http"

	"shoal/channel"
)

// hearsay is the URLs that the crawl has of other members: those that other channels' pages link to, and those that an earlier claim of the crawl found and did not
// fetch. Any member can make such URLs up, and a request for each would take the crawl's budget and its time. So they are believed as long as they are mostly
// there. Pages that the archive has are no hearsay.
type hearsay struct {
	told  map[uint64]struct{} // by hash
	wrong int                 // how many more of them were not there than were
	held  map[uint64]item     // what was not fetched for that
}

// Limits of hearsay.
const (
	maxWrong   = 16      // more that are not there than are, after which the rest is not fetched
	maxHearsay = 1 << 16 // URLs that are remembered as such
)

// listen notes URLs as hearsay.
func (h *hearsay) listen(hash uint64) {
	if h.told == nil {
		h.told = map[uint64]struct{}{}
	}
	if len(h.told) < maxHearsay {
		h.told[hash] = struct{}{}
	}
}

// seen takes in that a page of the host links to a URL: it is hearsay no more, and is to be fetched if it was held back.
func (h *hearsay) seen(hash uint64) (it item, held bool) {
	delete(h.told, hash)
	it, held = h.held[hash]
	delete(h.held, hash)
	return it, held
}

// heard takes in how a URL was answered. A host in trouble, or one that asks for time, says nothing of it.
func (h *hearsay) heard(hash uint64, status int) {
	_, told := h.told[hash]
	switch {
	case !told || status == 0 || status == http.StatusTooManyRequests || status >= 500:
	case status >= 400:
		h.wrong++
	case h.wrong < maxWrong:
		h.wrong = max(h.wrong-1, 0)
	}
}

// holds holds a URL back if it is hearsay, and that turned out to be worth no request.
func (h *hearsay) holds(it item) bool {
	if _, told := h.told[it.hash]; !told || h.wrong < maxWrong {
		return false
	}
	if h.held == nil {
		h.held = map[uint64]item{}
	}
	h.held[it.hash] = it
	return true
}

// listen notes what the crawl has of other members.
func (s *session) listen() {
	for _, u := range s.cfg.Body.Inter {
		if h := channel.URLHash(u); !s.known.has(h) {
			s.hearsay.listen(h)
		}
	}
	if len(s.cfg.Resume.Done) == 0 {
		return // all on the list is stored
	}
	for _, f := range s.cfg.Resume.Frontier {
		if h := channel.URLHash(f.URL); !s.known.has(h) {
			s.hearsay.listen(h)
		}
	}
}
