package main

import (
	"context"
	"strings"
	"sync"
	"time"

	"shoal/channel"
	"shoal/internal/lab/pond"
	"shoal/manager/archive"
	"shoal/manager/desk"
)

// truth compares the archive with the pond, which knows what every page shows at every moment. It looks at some hosts
// each second, so that its figures are a few seconds old.
type truth struct {
	world  *pond.World
	served func(host, page int, about time.Time) uint64 // the content that a crawl was given

	mu     sync.Mutex
	cursor string
	copies []map[int]uint64 // by host: the stored content of each page
	fresh  []state          // by host, as of its last look
	weight []float64        // by host: of its channels; 0: it has none
	next   int              // host to look at next
	sum    desk.Truth       // of the seconds since the start
	est    float64
	off    float64
	n      int
}

// state is what is true of a host: whether all that is stored of it is current, and of how many pages that is so.
type state struct {
	whole bool
	pages int
}

// pagesASecond bounds the work of a look.
const pagesASecond = 12_000

func newTruth(w *pond.World, served func(int, int, time.Time) uint64) *truth {
	n := len(w.Hosts())
	t := &truth{world: w, served: served, copies: make([]map[int]uint64, n), fresh: make([]state, n), weight: make([]float64, n)}
	for i := range t.copies {
		t.copies[i] = make(map[int]uint64)
	}
	return t
}

// changes is the archive's feed.
type changes interface {
	Changes(ctx context.Context, cursor string, limit int) ([]archive.Change, string, error)
}

// run looks once a second until ctx ends.
func (t *truth) run(ctx context.Context, feed changes, list func(context.Context, channel.ID, int) ([]channel.Channel, error), estimate func() float64) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for k := 0; ; k++ {
		if k%30 == 0 {
			t.readChannels(ctx, list)
		}
		t.follow(ctx, feed)
		t.look(time.Now(), estimate())
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// readChannels learns which hosts are crawled, and how much they count.
func (t *truth) readChannels(ctx context.Context, list func(context.Context, channel.ID, int) ([]channel.Channel, error)) {
	weight := make([]float64, len(t.weight))
	for after := channel.ID(0); ; {
		chs, err := list(ctx, after, 500)
		if err != nil {
			return // the next reading may succeed
		}
		if len(chs) == 0 {
			break
		}
		for i := range chs {
			if h, ok := t.host(chs[i].Scope.Host); ok && chs[i].State == channel.Active {
				w := float64(chs[i].Settings.Weight)
				if w == 0 {
					w = 1
				}
				weight[h] += w
			}
		}
		after = chs[len(chs)-1].ID
	}
	t.mu.Lock()
	t.weight = weight
	t.mu.Unlock()
}

func (t *truth) host(origin string) (int, bool) {
	_, name, _ := strings.Cut(origin, "://")
	name, _, _ = strings.Cut(name, ":")
	return t.world.Host(name)
}

// follow takes in what the archive stored.
func (t *truth) follow(ctx context.Context, feed changes) {
	for {
		list, next, err := feed.Changes(ctx, t.cursor, 1000)
		if err != nil || len(list) == 0 {
			return
		}
		t.mu.Lock()
		for i := range list {
			t.stored(&list[i])
		}
		t.cursor = next
		t.mu.Unlock()
	}
}

func (t *truth) stored(c *archive.Change) {
	if c.Event == archive.Corroborated {
		return // what was told before is verified
	}
	origin := channel.Origin(c.URL)
	h, ok := t.host(origin)
	if !ok {
		return
	}
	page, ok := t.world.Lookup(h, c.URL[len(origin):])
	if !ok {
		return
	}
	if c.Status != 200 {
		delete(t.copies[h], page)
		return
	}
	t.copies[h][page] = t.served(h, page, c.Fetched)
}

// look looks at the next hosts, and adds a sample.
func (t *truth) look(now time.Time, estimate float64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for seen, hosts := 0, 0; seen < pagesASecond && hosts < len(t.copies); hosts++ {
		h := t.next
		t.next = (t.next + 1) % len(t.copies)
		s := state{whole: len(t.copies[h]) > 0}
		for page, text := range t.copies[h] {
			if t.world.Version(h, page, now).Text == text {
				s.pages++
			} else {
				s.whole = false
			}
		}
		t.fresh[h] = s
		seen += len(t.copies[h]) + 1
	}
	at := t.shares()
	t.n++
	t.sum.Channels, t.sum.Pages, t.sum.Weight = t.sum.Channels+at.Channels, t.sum.Pages+at.Pages, t.sum.Weight+at.Weight
	t.est += estimate
	if d := estimate - at.Channels; d < 0 {
		t.off -= d
	} else {
		t.off += d
	}
}

// shares are those of the hosts' last looks.
func (t *truth) shares() (s desk.Truth) {
	var hosts, pages, weight float64
	for h, w := range t.weight {
		if w == 0 {
			continue
		}
		hosts, weight, pages = hosts+1, weight+w, pages+float64(t.world.Hosts()[h].Pages)
		s.Pages += float64(t.fresh[h].pages)
		if t.fresh[h].whole {
			s.Channels, s.Weight = s.Channels+1, s.Weight+w
		}
	}
	if hosts == 0 {
		return desk.Truth{}
	}
	return desk.Truth{Channels: s.Channels / hosts, Pages: s.Pages / pages, Weight: s.Weight / weight}
}

// now is what is true now, for the page and the metrics.
func (t *truth) now() *desk.Truth {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.shares()
	return &s
}

// fill adds the averages over time to a summary.
func (t *truth) fill(s *summary) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.n == 0 {
		return
	}
	n := float64(t.n)
	s.TrueFreshness = &TrueFreshness{round3(t.sum.Channels / n), round3(t.sum.Pages / n), round3(t.sum.Weight / n), round3(t.est / n), round3(t.off / n)}
}

func round3(x float64) float64 { return float64(int(x*1000+.5)) / 1000 }

// TrueFreshness are averages over the time of a run in the pond.
type TrueFreshness struct {
	Channels      float64 `json:"fresh_true"`        // share of channels of which every stored page is what the pond shows
	Pages         float64 `json:"fresh_true_pages"`  // share of all pages of the pond that are stored as it shows them
	Weight        float64 `json:"fresh_true_weight"` // as fresh_true, by the channels' importance
	Estimate      float64 `json:"fresh_estimate"`    // what the manager thought
	EstimateError float64 `json:"estimate_error"`    // mean distance of the two
}
