package main

import (
	"cmp"
	"context"
	"errors"
	"math"
	"slices"
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
	served func(host, page int, about time.Time) uint64   // the content that a crawl was given; nil: what the page showed then
	again  func(ctx context.Context) (*pond.World, error) // asks the pond what it is; nil: it is this process's own

	mu     sync.Mutex
	world  *pond.World
	cursor string
	begun  bool             // what the archive had before its feed begins was read
	copies []map[int]uint64 // by host: the stored content of each page
	fresh  []int            // by host: stored pages that are current, as of its last look
	of     [][]crawled      // by host: its channels that are crawled
	next   int              // host to look at next
	last   time.Time        // of the last look
	passed float64          // seconds between looks, since the first one
	sum    desk.Truth       // over that time, as is
	est    float64
	off    float64
}

// crawled is a channel of the pond.
type crawled struct {
	id     channel.ID
	weight float64
	within *channel.Matcher // nil: it is all of its host
	ended  bool             // a crawl of it came to its end: until then what is stored of it is a part
	whole  bool             // a crawl has ended, something is stored, and all of that is current, as of its host's last look
}

// pagesASecond bounds the work of a look.
const pagesASecond = 12_000

func newTruth(w *pond.World, served func(int, int, time.Time) uint64) *truth {
	t := &truth{served: served}
	t.begin(w)
	return t
}

// begin begins anew, with nothing known of the archive.
func (t *truth) begin(w *pond.World) {
	n := len(w.Hosts())
	t.world, t.cursor, t.begun, t.next = w, "", false, 0
	t.copies, t.fresh, t.of = make([]map[int]uint64, n), make([]int, n), make([][]crawled, n)
	for i := range t.copies {
		t.copies[i] = make(map[int]uint64)
	}
}

// meet begins anew if the pond was started anew meanwhile, as another Web or at another time. It reports whether it was.
func (t *truth) meet(ctx context.Context) bool {
	w, err := t.again(ctx)
	if err != nil {
		return false // it is away, or as busy as to be asked later
	}
	is, was := w.Config(), t.world.Config()
	if is.Start.Equal(was.Start) && is.Seed == was.Seed && is.Hosts == was.Hosts && is.Pages == was.Pages && is.MaxHost == was.MaxHost {
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.begin(w)
	return true
}

const meetEvery = 30 * time.Second

// text is the content that a page was crawled with at a time. What was crawled before the pond's time began was another pond's.
func (t *truth) text(host, page int, at time.Time) uint64 {
	switch {
	case at.Before(t.world.Config().Start):
		return math.MaxUint64 // no page has that
	case t.served != nil:
		return t.served(host, page, at)
	}
	return t.world.Version(host, page, at).Text
}

// changes is the archive's feed, and what it shows of a page.
type changes interface {
	Changes(ctx context.Context, cursor string, limit int) ([]archive.Change, string, error)
	Get(ctx context.Context, url string, at time.Time) (archive.Capture, error)
}

// run looks once a second until ctx ends. It reads the channels as often, unless they are so many that this would take more than a part of its time: an operator
// may add some, or say that others count more.
func (t *truth) run(ctx context.Context, feed changes, list func(context.Context, channel.ID, int) ([]channel.Channel, error), estimate func() float64) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for again, met := time.Now(), time.Now(); ; {
		if t.again != nil && time.Since(met) >= meetEvery {
			if met = time.Now(); t.meet(ctx) {
				again = met
			}
		}
		if began := time.Now(); !began.Before(again) {
			t.readChannels(ctx, list)
			again = began.Add(readPart * time.Since(began))
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

const readPart = 30 // one in so many seconds is spent on reading channels, at most

// readChannels learns which channels are crawled, and how much they count.
func (t *truth) readChannels(ctx context.Context, list func(context.Context, channel.ID, int) ([]channel.Channel, error)) {
	of := make([][]crawled, len(t.of))
	for after := channel.ID(0); ; {
		chs, err := list(ctx, after, 500)
		if err != nil {
			return // the next reading may succeed
		}
		if len(chs) == 0 {
			break
		}
		for i := range chs {
			h, ok := t.host(chs[i].Scope.Host)
			if !ok || chs[i].State != channel.Active {
				continue
			}
			c := crawled{id: chs[i].ID, weight: cmp.Or(float64(chs[i].Settings.Weight), 1), ended: !chs[i].Learnt.Updated.Before(t.world.Config().Start)}
			if s := &chs[i].Scope; s.Kind != channel.WholeHost || len(s.Filters)+len(s.Exclude) > 0 {
				if c.within, err = s.Compile(); err != nil {
					return // the database would not have taken it
				}
			}
			of[h] = append(of[h], c)
		}
		after = chs[len(chs)-1].ID
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for h := range of {
		for i := range of[h] {
			c := &of[h][i]
			c.whole = slices.ContainsFunc(t.of[h], func(old crawled) bool { return old.id == c.id && old.whole })
		}
	}
	t.of = of
}

func (t *truth) host(origin string) (int, bool) {
	_, name, _ := strings.Cut(origin, "://")
	name, _, _ = strings.Cut(name, ":")
	return t.world.Host(name)
}

// follow takes in what the archive stored. Where the feed has forgotten what was not read yet, it begins anew.
func (t *truth) follow(ctx context.Context, feed changes) {
	for {
		list, next, err := feed.Changes(ctx, t.cursor, 1000)
		if t.cursor != "" && (errors.Is(err, archive.ErrTrimmed) || errors.Is(err, archive.ErrCursor)) {
			t.mu.Lock()
			of := t.of
			t.begin(t.world)
			t.of = of
			t.mu.Unlock()
			continue
		}
		if err != nil {
			return // the next reading may succeed
		}
		if len(list) == 0 {
			break
		}
		t.mu.Lock()
		for i := range list {
			t.stored(&list[i])
		}
		t.cursor = next
		t.mu.Unlock()
	}
	if !t.begun {
		t.begun = t.recall(ctx, feed)
	}
}

// recall reads what the archive shows of pages of which its feed tells nothing: retention forgets the changes of long ago. It reports whether it could.
func (t *truth) recall(ctx context.Context, feed changes) bool {
	for h := range t.copies {
		for page := range t.world.Hosts()[h].Pages {
			if _, ok := t.copies[h][page]; ok { // only follow and recall write copies
				continue
			}
			c, err := feed.Get(ctx, t.world.URL(h, page), time.Time{})
			switch {
			case errors.Is(err, archive.ErrNotFound):
				continue
			case err != nil:
				return false
			case c.Status == 200 || c.Status == 304:
				text := t.text(h, page, c.Fetched)
				t.mu.Lock()
				t.copies[h][page] = text
				t.mu.Unlock()
			}
		}
	}
	return true
}

func (t *truth) stored(c *archive.Change) {
	if c.Event == archive.Corroborated || c.Event == archive.Doubted {
		return // what was told before is verified, or no more
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
	t.copies[h][page] = t.text(h, page, c.Fetched)
}

// look looks at the next hosts, and adds what is true for the time since the last look.
func (t *truth) look(now time.Time, estimate float64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for seen, hosts := 0, 0; seen < pagesASecond && hosts < len(t.copies); hosts++ {
		t.lookAt(t.next, now)
		seen += len(t.copies[t.next]) + 1
		t.next = (t.next + 1) % len(t.copies)
	}
	at := t.shares()
	d := 0. // a busy machine does not look each second
	if !t.last.IsZero() {
		d = max(now.Sub(t.last).Seconds(), 0)
	}
	t.last, t.passed = now, t.passed+d
	t.sum.Channels, t.sum.Pages, t.sum.Weight = t.sum.Channels+d*at.Channels, t.sum.Pages+d*at.Pages, t.sum.Weight+d*at.Weight
	t.est += d * estimate
	t.off += d * math.Abs(estimate-at.Channels)
}

// lookAt compares what is stored of a host with what it shows.
func (t *truth) lookAt(h int, now time.Time) {
	t.fresh[h] = 0
	of := t.of[h]
	stored, stale := make([]bool, len(of)), make([]bool, len(of))
	for page, text := range t.copies[h] {
		current := t.world.Version(h, page, now).Text == text
		if current {
			t.fresh[h]++
		}
		for i := range of {
			if of[i].within == nil || of[i].within.Contains(t.world.URL(h, page)) {
				stored[i], stale[i] = true, stale[i] || !current
			}
		}
	}
	for i := range of {
		of[i].whole = of[i].ended && stored[i] && !stale[i]
	}
}

// shares are those of the hosts' last looks.
func (t *truth) shares() (s desk.Truth) {
	var channels, pages, weight float64
	for h, of := range t.of {
		if len(of) == 0 {
			continue
		}
		pages += float64(t.world.Hosts()[h].Pages)
		s.Pages += float64(t.fresh[h])
		for _, c := range of {
			channels, weight = channels+1, weight+c.weight
			if c.whole {
				s.Channels, s.Weight = s.Channels+1, s.Weight+c.weight
			}
		}
	}
	if channels == 0 {
		return desk.Truth{}
	}
	return desk.Truth{Channels: s.Channels / channels, Pages: s.Pages / pages, Weight: s.Weight / weight}
}

// now is what is true now and was on average, for the page and the metrics.
func (t *truth) now() *desk.Truth {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.shares()
	s.Mean = t.means()
	return &s
}

// rounded are averages as a summary tells them; nil: none are known.
func rounded(t *desk.Truth) *desk.TrueFreshness {
	if t == nil || t.Mean == nil {
		return nil
	}
	m := t.Mean
	return &desk.TrueFreshness{Channels: round3(m.Channels), Pages: round3(m.Pages), Weight: round3(m.Weight), Estimate: round3(m.Estimate), EstimateError: round3(m.EstimateError)}
}

// means are the averages over the time of this run; nil: none has passed.
func (t *truth) means() *desk.TrueFreshness {
	if t.passed == 0 {
		return nil
	}
	return &desk.TrueFreshness{Channels: t.sum.Channels / t.passed, Pages: t.sum.Pages / t.passed, Weight: t.sum.Weight / t.passed, Estimate: t.est / t.passed, EstimateError: t.off / t.passed}
}

func round3(x float64) float64 { return float64(int(x*1000+.5)) / 1000 }
