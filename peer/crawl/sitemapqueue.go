package crawl

import (
	"shoal/channel"
)

// sitemapQueue chooses the sitemaps that a crawl reads. Where a list names more than one crawl may read, each crawl begins at another place of
// it, so that some crawls together read all. What an index names is read between the files that stand beside the index: otherwise a host
// with many indexes would have none of their files read.
type sitemapQueue struct {
	gen   uint64 // of the task: it grows from one crawl of the channel to the next
	left  int    // files that may still be read
	lists [][]string
	turn  int // of lists, the next to take from
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
	waiting := 1 // lists that share what is left
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

// stride is how far apart two crawls begin in a list of n: nearly as many as one crawl reads, and without a divisor that n has too, so that
// every place gets its turn.
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

// next gives the file to read.
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
