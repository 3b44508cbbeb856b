// Package judge looks at a network from outside and says what it did that it must not do. It knows the HTTP interface of the manager and the pond's
// own log, and shares no code with either, so a mistake of the product cannot hide in its judge.
//
// Look reads what is new; call it often, since the pond's log is bounded. End reads everything once more. The judge finds these breaches:
//
//   - lost: a change that the archive's feed has told is gone from the feed or the index; the index has a version that the feed never told; the newest version of
//     a stored page, or an older one, has another content than its capture; pages of a host that was crawled as a whole were never stored, or are told to be gone;
//     a channel is gone that nobody removed;
//   - unserved: the index has a version of a page that the pond did not serve to a fetch of its own at that time;
//   - miscounted: a channel has fewer updates than before, more than there were fetches of its first page, or of its other pages, or fewer than the archive has
//     visits of each page;
//   - impolite: two requests in flight to a host, or closer together than the host's delay;
//   - forbidden: something was fetched or archived that robots.txt or a block forbade then;
//   - stale: a channel was not crawled again in time after the last fault, or a host has none that must have one;
//   - leaked: a process holds much more memory, goroutines, descriptors or files than before;
//   - undead: what was taken down is in the archive;
//   - forgotten: the manager goes by another strategy than the one that an operator chose last, or a host is blocked whose block was lifted;
//   - barred: a host that behaves is blocked, and nobody asked for that;
//   - believed: what a member that lies delivered and the pond did not serve is verified, or is there after it was taken back;
//   - mute: a text about an error tells nothing;
//   - twice: the feed told one change of a page twice;
//   - disordered: the feed told a change of a page after a later one.
//
// Of hosts that misbehave the pond's log does not tell the content, and they may answer nothing. The judge looks at how politely they are treated.
//
// A Judge belongs to one goroutine.
package judge

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
)

// Kind is a kind of breach.
type Kind string

// The kinds, as the package comment explains them.
const (
	Lost       Kind = "lost"
	Unserved   Kind = "unserved"
	Miscounted Kind = "miscounted"
	Impolite   Kind = "impolite"
	Forbidden  Kind = "forbidden"
	Stale      Kind = "stale"
	Leaked     Kind = "leaked"
	Undead     Kind = "undead"
	Forgotten  Kind = "forgotten"
	Barred     Kind = "barred"
	Believed   Kind = "believed"
	Mute       Kind = "mute"
	Twice      Kind = "twice"
	Disordered Kind = "disordered"
)

// Breach is something that must not be.
type Breach struct {
	Kind Kind
	What string
}

func (b Breach) String() string { return string(b.Kind) + ": " + b.What }

// Config says where the network is, and what is allowed for clocks and waits.
type Config struct {
	Manager string            // base URL of the manager's page
	Token   string            // of its operator
	Pond    string            // base URL of the pond
	Alias   map[string]string // names that hosts of the pond have beside the pond's, each with the pond's
	// Astray tells how often a request for the first page of a host, by such a name, came to another host's server, or not through to the pond, which does not see either. nil: none does.
	Astray func(host string) int
	Client *http.Client // nil: one with a timeout of a minute

	// Slack is how far the time of a capture may be from the time at which the pond served it: the longest stop of a process, and a busy machine.
	Slack time.Duration
	// Endless are hosts that do not end their answers: see StandsStill.
	Endless []string
	// Gap is the wait before each page, of every host that behaves, whatever its robots.txt asks for. 0: that alone is judged.
	Gap time.Duration
	// BlockGrace is how long running tasks may go on after a host was blocked. A block that is shorter shows nothing.
	BlockGrace time.Duration
	// Crawled are hosts of which each has a channel when all is calm: see Behind.
	Crawled []string
	// Whole is how many pages a host has at most of which each crawl fetches all that there are. What should be there of larger ones is not known. 0: of none.
	Whole int
	// Strategy is the one by which the manager goes at first. Empty: by which it goes is not judged.
	Strategy string
	// Ordered says that no member lies, so that each change is told once, and those of a page in the order of their times. Times of which a clock that had
	// stepped may have told are left out.
	Ordered bool
	// Tell is called with each breach as soon as it is found. nil: Breaches tells all.
	Tell func(Breach)
	// Hear is called between reading the channels and counting their updates, for what the judge must be told before that: which hosts liars have had tasks of meanwhile. nil: nothing.
	Hear func()
	// Reads is how many pages End reads at most of their newest versions, and as many of older ones. They are spread evenly over all. 0: of each page one.
	Reads int
}

// maxBreaches bounds what is kept of each kind. More are counted.
const maxBreaches = 20

// Judge holds what was seen so far.
type Judge struct {
	cfg      Config
	hosts    []host
	number   map[string]int // of a host, by name
	bad      map[int]string // how hosts misbehave
	log      int64          // the last answer that was read
	answers  map[pageKey][]answer
	last     map[int]answer // the last page of each host
	blocks   map[int][]span
	orders   map[int][]order   // to block hosts, and to lift blocks
	purged   map[int]time.Time // when hosts were last taken down
	choices  []choice          // of strategies, in their order
	steps    []step            // of clocks
	still    []span            // when peers stood still
	overlaps int               // requests to endless hosts while they did
	parted   map[int]bool      // hosts that ever had more than one channel
	renamed  map[int]bool      // hosts that have other names
	told     []change
	once     map[string]bool      // changes that were told
	newest   map[string]time.Time // when the last change of a page was
	cursor   string
	updates  map[int64]int     // of each channel, as last seen
	rowsNow  []row             // the channels as last seen
	crawled  map[int64]string  // channels that were ever updated, with their hosts
	removed  map[int]bool      // hosts of which an operator removed a channel
	liars    map[string]string // peers that lie, with their numbers as far as they are known
	lied     map[int]bool      // hosts of which liars had a task: how often they were crawled is not known
	taken    bool              // what liars delivered was taken back
	muted    map[string]bool   // texts that were found to tell nothing
	violated int
	breaches []Breach
	counts   map[Kind]int
}

// host is a host as the pond describes it.
type host struct {
	Name       string
	Pages      int
	CrawlDelay time.Duration
	Robots     bool
	Private    bool
}

type pageKey struct{ host, page int }

// answer is an entry of the pond's log.
type answer struct {
	N       int64     `json:"n"`
	When    time.Time `json:"when"`
	Host    int       `json:"host"`
	Page    int       `json:"page"`
	Version uint64    `json:"version"`
	Text    uint64    `json:"text"`
	From    string    `json:"from"`
}

// span is a time in which a host was blocked. A zero end is not yet.
type span struct{ from, to time.Time }

// New returns a Judge that has read what hosts the pond has.
func New(ctx context.Context, cfg Config) (*Judge, error) {
	if cfg.Client == nil {
		cfg.Client = &http.Client{Timeout: time.Minute}
	}
	j := &Judge{cfg: cfg, number: map[string]int{}, bad: map[int]string{}, answers: map[pageKey][]answer{}, last: map[int]answer{}, blocks: map[int][]span{}, orders: map[int][]order{}, purged: map[int]time.Time{}, parted: map[int]bool{}, renamed: map[int]bool{}, muted: map[string]bool{}, liars: map[string]string{}, lied: map[int]bool{},
		crawled: map[int64]string{}, removed: map[int]bool{},
		updates: map[int64]int{}, once: map[string]bool{}, newest: map[string]time.Time{}, counts: map[Kind]int{}}
	if cfg.Strategy != "" {
		j.choices = []choice{{name: cfg.Strategy, done: true}}
	}
	if err := j.pond(ctx, "/_pond/hosts", &j.hosts); err != nil {
		return nil, err
	}
	for i, h := range j.hosts {
		j.number[h.Name] = i
	}
	for name, of := range cfg.Alias {
		n, ok := j.number[of]
		if !ok {
			return nil, fmt.Errorf("judge: the pond has no host %s", of)
		}
		j.number[name] = n
		j.renamed[n] = true
	}
	var world struct {
		Bad map[string]string `json:"bad"`
	}
	if err := j.pond(ctx, "/_pond/world", &world); err != nil {
		return nil, err
	}
	for name, how := range world.Bad {
		j.bad[j.number[name]] = how
	}
	return j, nil
}

// Breaches returns what was found, the first of each kind; the last entry of a kind says how many more there are.
func (j *Judge) Breaches() []Breach {
	all := slices.Clone(j.breaches)
	for _, k := range []Kind{Lost, Unserved, Miscounted, Impolite, Forbidden, Stale, Leaked, Undead, Forgotten, Barred, Believed, Mute, Twice, Disordered} {
		if more := j.counts[k] - maxBreaches; more > 0 {
			all = append(all, Breach{k, fmt.Sprintf("and %d more", more)})
		}
	}
	return all
}

func (j *Judge) breach(k Kind, format string, args ...any) {
	if j.counts[k]++; j.counts[k] <= maxBreaches {
		b := Breach{k, fmt.Sprintf(format, args...)}
		if j.breaches = append(j.breaches, b); j.cfg.Tell != nil {
			j.cfg.Tell(b)
		}
	}
}

// Seen says how much was looked at, so that a judge who saw nothing is not taken for one who found nothing.
type Seen struct {
	Answers, Changes, Captures, Updates int
}

func (s Seen) String() string {
	return fmt.Sprintf("%d answers of the pond, %d changes in the feed, %d captures, %d updates", s.Answers, s.Changes, s.Captures, s.Updates)
}

// bare is the name of a host without its scheme.
func bare(origin string) string {
	_, name, ok := strings.Cut(origin, "://")
	if !ok {
		return origin
	}
	return name
}
