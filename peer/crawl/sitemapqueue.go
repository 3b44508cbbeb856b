package crawl

import (
	"math/bits"

	"shoal/channel"
)

// sitemapQueue chooses which sitemaps a crawl reads. Each crawl begins at another place of a list, so that several crawls read all of it: there may
// be more files than a crawl may read, and the first of them have what the others leave of the room for pages. The queue takes from its lists in turn:
// otherwise the crawl of a host with many indexes would read indexes only.
type sitemapQueue struct {
	gen   channel.Gen // of the task; it grows from one crawl of the channel to the next
	left  int         // files that may still be read
	lists []sitemapList
	turn  int // the list to take from next
	last  int // the list that the last file is of
	asked map[string]bool
}

// sitemapList is a list of files that were named together.
type sitemapList struct {
	files []string
	long  bool // the list, or one that led to it, has more files than a crawl may read
}

func newSitemapQueue(gen channel.Gen, most int) *sitemapQueue {
	return &sitemapQueue{gen: gen, left: most, asked: map[string]bool{}}
}

// add adds a list of files that the last one has named. It bounds how many it holds; each crawl begins elsewhere.
func (q *sitemapQueue) add(list []string) {
	waiting := 1 // lists that share what is left, this one included
	for _, l := range q.lists {
		if len(l.files) > 0 {
			waiting++
		}
	}
	share := max(q.left/waiting, 1)
	long := len(q.lists) > 0 && q.lists[q.last].long
	from := q.begin(len(list), share, long)
	var fresh []string
	for i := range list {
		if u := list[(from+i)%len(list)]; !q.asked[u] && len(q.asked) < maxSitemapURLs {
			q.asked[u] = true
			fresh = append(fresh, u)
		}
	}
	if len(fresh) > 0 {
		q.turn = len(q.lists)
		q.lists = append(q.lists, sitemapList{fresh, long || len(list) > share})
	}
}

// begin gives the place at which a crawl begins in a list of n files, of which it reads share. The places in a list and in one that led to it have
// nothing in common: otherwise each index would be read at the same place whenever its turn comes.
func (q *sitemapQueue) begin(n, share int, long bool) int {
	switch {
	case n <= 1:
		return 0
	case long, n <= share && len(q.lists) > 0:
		return place(q.gen, sqrt2, n)
	case n <= share:
		return place(q.gen, sqrt3, n)
	}
	all := uint64(n)
	return int(uint64(q.gen) % all * stride(all, uint64(share)) % all)
}

// Fractions of irrational numbers, times 2^64. No multiple of one is near one of another for long.
const (
	golden = 0x9e3779b97f4a7c15 // (sqrt(5)-1)/2
	sqrt2  = 0x6a09e667f3bcc908
	sqrt3  = 0xbb67ae8584caa73b
	sqrt7  = 0xa54ff53a5f1d36f1
)

// place gives one of n places to each crawl, the first to generation 1. With the multiples of an irrational number all places have their turn, whichever
// generations crawl, as long as those are not chosen for it.
func place(gen channel.Gen, fraction uint64, n int) int {
	at, _ := bits.Mul64(uint64(gen-1)*fraction, uint64(n))
	return int(at)
}

// waiting gives how many files are still to be read, as far as they are known.
func (q *sitemapQueue) waiting() (n int) {
	for _, l := range q.lists {
		n += len(l.files)
	}
	return min(n, q.left)
}

// stride is the distance between the beginnings of two crawls in a list of n files: the largest up to window that has no divisor in common
// with n, so that every place gets its turn.
func stride(n, window uint64) uint64 {
	for ; window > 1; window-- {
		a, b := n, window
		for b > 0 {
			a, b = b, a%b
		}
		if a == 1 {
			break
		}
	}
	return window
}

// next gives the next file to read.
func (q *sitemapQueue) next() (string, bool) {
	if q.left == 0 {
		return "", false
	}
	for range q.lists {
		i := q.turn % len(q.lists)
		q.turn = i + 1
		if l := &q.lists[i]; len(l.files) > 0 {
			u := l.files[0]
			l.files = l.files[1:]
			q.last = i
			q.left--
			return u, true
		}
	}
	return "", false
}
