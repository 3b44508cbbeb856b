package crawl

import (
	"net/http"

	"shoal/channel"
)

// hearsay is the URLs that the crawl has of other members: those that other channels' pages link to, and those that an earlier claim of the crawl found and did not
// fetch. Any member can make such URLs up, and a request for each would take the crawl's budget and its time. So they are believed as long as they are mostly
// there: more that are not there than are may take an eighth of the requests that brought pages, and some in any case. What is beyond waits until the end, when it
// is known how many pages the host has. Pages that the archive has are no hearsay.
type hearsay struct {
	told  map[uint64]struct{} // by hash
	wrong int                 // how many more of them were not there than were
	good  int                 // pages of the host that were there
	held  map[uint64]item     // what was not fetched for that
	waits []uint64            // its hashes in order, and others
}

// Limits of hearsay.
const (
	leastWrong = 4       // more that are not there than are, after which the rest is not fetched
	maxWrong   = 16      // the same, of a host of many pages
	wrongShare = 8       // of so many pages, one more
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
	case status == 0 || status == http.StatusTooManyRequests || status >= 500:
	case status < 400:
		h.good++
		if told {
			h.wrong = max(h.wrong-1, -maxWrong)
		}
	case told:
		h.wrong++
	}
}

// enough reports whether hearsay turned out to be worth no more requests.
func (h *hearsay) enough() bool {
	return h.wrong >= min(max(h.good/wrongShare, leastWrong), maxWrong)
}

// holds holds a URL back if it is hearsay, and that turned out to be worth no request.
func (h *hearsay) holds(it item) bool {
	if _, told := h.told[it.hash]; !told || !h.enough() {
		return false
	}
	if h.held == nil {
		h.held = map[uint64]item{}
	}
	h.held[it.hash] = it
	h.waits = append(h.waits, it.hash)
	return true
}

// next gives a URL that was held back, when nothing else is left to fetch.
func (h *hearsay) next() (item, bool) {
	for len(h.waits) > 0 && !h.enough() {
		hash := h.waits[0]
		h.waits = h.waits[1:]
		if it, held := h.held[hash]; held {
			delete(h.held, hash)
			return it, true
		}
	}
	return item{}, false
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
