package crawl

import (
	"shoal/channel"
)

// sitemapQueue chooses which sitemaps a crawl reads. If a list has more files than a crawl may read, each crawl begins at another place of the
// list, so that several crawls read all of it. The queue takes from its lists in turn: otherwise the crawl of a host with many indexes would
// read indexes only.
type sitemapQueue struct {
	gen   uint64 // of the task; it grows from one crawl of the channel to the next
	left  int    // files that may still be read
	lists [][]string
	turn  int // the list to take from next
	asked map[string]bool
}

func newSitemapQueue(gen channel.Gen, most int) *sitemapQueue {
	return &sitemapQueue{gen: uint64(gen), left: most, asked: map[string]bool{}}
}

// add adds a list of files.
func (q *sitemapQueue) add(list []string) {
	var fresh []string
	for _, u := range list {
		if !q.asked[u] {
			q.asked[u] = true
			fresh = append(fresh, u)
		}
	}
	if len(fresh) == 0 {
		return
	}
	waiting := 1 // lists that share what is left, this one included
	for _, list := range q.lists {
		if len(list) > 0 {
			waiting++
		}
	}
	if n, share := uint64(len(fresh)), uint64(max(q.left/waiting, 1)); n > share {
		from := int(q.gen % n * stride(n, share) % n)
		fresh = append(fresh[from:len(fresh):len(fresh)], fresh[:from]...)
	}
	q.lists = append(q.lists, fresh)
	q.turn = len(q.lists) - 1
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
		if list := q.lists[i]; len(list) > 0 {
			q.lists[i] = list[1:]
			q.left--
			return list[0], true
		}
	}
	return "", false
}
