package manager

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"shoal/channel"
	"shoal/channel/lease"
	"shoal/coords"
	"shoal/manager/archive"
	"shoal/overlay"
	"shoal/recrawl"
)

// Archive is what the manager needs of an archive, in its own process or elsewhere.
type Archive interface {
	// Known is what a task carries of the stored copy: digests, validators, known inter-site URLs, pages not visited since.
	Known(ctx context.Context, id channel.ID, since time.Time, looked ...uint64) (archive.Known, error)
	// Deposit leaves a task's body where its claim will fetch it. An *archive.FencedError says which generations are used up.
	Deposit(ctx context.Context, s channel.Signed, body []byte) error
	// TakeBack ends a task that a peer may have taken, unless it was claimed. The feed says so.
	TakeBack(ctx context.Context, id channel.ID, gen channel.Gen) error
	// Lost ends a task that was never deposited, so that no peer can have it. The feed says so.
	Lost(ctx context.Context, id channel.ID, gen channel.Gen) error
	// Over says in the feed again that a task has ended which the manager takes for one that runs. Of one that runs nothing changes.
	Over(ctx context.Context, id channel.ID, gen channel.Gen) error
	// Feed reads at most n entries behind the cursor; none at once when there are none.
	Feed(ctx context.Context, cursor string, n int) (entries []archive.Entry, next string, err error)
	// Notify returns a channel that is closed when the feed grows.
	Notify() <-chan struct{}
	// Ack says that what lies before the cursor was taken in, durably: it may be forgotten.
	Ack(ctx context.Context, cursor string) error
	// Stats is for people.
	Stats() archive.Stats

	Deliveries
}

// Swarm is what the manager needs of the overlay.
type Swarm interface {
	// Place finds a near peer that takes the task, and asks the named one first. overlay.ErrRefused says that for certain none has the task.
	Place(ctx context.Context, s channel.Signed, h channel.Header, r coords.HostRecord, named overlay.Named) (overlay.Placed, error)
	// Survey has peers measure the round-trip time to a host of which something is known or nothing, n of them at first.
	Survey(ctx context.Context, of overlay.Survey, r coords.HostRecord) ([]coords.Sample, error)
	// View is what is known of the members. It may be a moment old.
	View() *overlay.View
	// Coord is where the manager itself is.
	Coord() coords.Coord
	// Delivered, Wasted and GaveBack tell what became of a task that a peer took at some time: it brought pages; it came to nothing by the peer's doing;
	// the peer ended it early, while its lease ran. They are hints, and do not wait.
	Delivered(peer overlay.ID)
	Wasted(peer overlay.ID, took time.Time)
	GaveBack(peer overlay.ID)
}

// Config of a Manager.
type Config struct {
	Store Store
	// Several, if set, says that other managers work on the same database and archive.
	Several  *Several
	Archive  Archive
	Swarm    Swarm
	Evidence Evidence
	// Arbiter fetches contested pages. Nil: two more checkers decide, and what that is worth is said on the page.
	Arbiter Arbiter
	Sign    func(channel.Header) (channel.Signed, error)
	// Bar ends the membership of a peer or an account at once, or admits it again. Nil: a suspended peer gets no tasks, and stays a member.
	Bar     func(name string, barred bool) error
	Network [32]byte
	// ArchiveID is the peer id of the archive that tasks name.
	ArchiveID string
	// ArchiveFor is the archive that the tasks of a channel name, where there are several that store the same. Nil: ArchiveID.
	ArchiveFor func(channel.ID) string

	// Strategy and its parameters; the names are recrawl.Names(). Default fixed.
	Strategy string
	Params   recrawl.Params
	// PlanEvery is the planning interval in ticks of strategies whose Params name none. Zero: theirs, a day of minutes.
	PlanEvery float64
	// KeptStrategy has the strategy that an operator chose while the manager ran come before Strategy.
	KeptStrategy bool
	// NewShare is the share of room that channels never crawled get while others wait too, in [0, 1). Zero: what an operator set while the manager ran, if
	// KeptStrategy, else what the strategy says.
	NewShare float64
	// ClockRight says that the present clock is right, whatever the database holds: what it has dated far in the future counts as of now. False: it may also be
	// the present clock that is wrong, so that this is left, and told.
	ClockRight bool
	// Unjudged leaves what peers deliver unjudged: to measure what judging costs.
	Unjudged bool
	// Discover says what becomes of the URLs of other sites that crawls find. Default listed.
	Discover Discover
	// DiscoverMost bounds the channels that discovery adds, ever. Default 10,000.
	DiscoverMost int
	// Reach refuses the origin of a discovered URL that peers of this network cannot fetch from. Nil: none is refused.
	Reach   func(origin string) error
	Options recrawl.Options
	// Tick is the length of a scheduler tick. Default one minute; a second in the pond.
	Tick  time.Duration
	Terms lease.Terms
	// Failing is about channels whose crawls fail.
	Failing Failing

	// Gap is the politeness wait that a task asks for at least. Default 1 s.
	Gap time.Duration
	// FirstBudget is the page budget of a channel's first task; it grows fourfold while a crawl ends with URLs left, up to MaxBudget.
	// Defaults 64 and 25,000.
	FirstBudget, MaxBudget int
	// MaxOut bounds the tasks out at once. Zero: what the threads and a fifth of the queues of the known peers hold.
	MaxOut int
	// Placers is how many tasks are built and offered at a time. Those whose bodies are deposited together share a durable write, and an offer takes a
	// round trip to a peer. Default 128.
	Placers int
	// Vantages is how many peers measure a host that was never measured. Default 8; zero: none, so that the first task lands anywhere.
	Vantages int
	// MinPeers is how many peers must be known before the first task is handed out, unless MinPeersWait has passed. Defaults 1 and 30 s.
	MinPeers     int
	MinPeersWait time.Duration
	// Contact is the URL that Web hosts find in the User-Agent.
	Contact string

	Now func() time.Time
	Log *slog.Logger
	// Until, if set, is when the manager will be stopped: nothing is handed out that would not end before.
	Until time.Time
	// Data is the folder that people are told of.
	Data string

	// Disk, if set, says why nothing new should be written: no room, or no permission. It is called now and then, and must be quick.
	Disk func() error
	// OnPlaced, if set, is told of every task of a channel that a peer accepted. It must not block.
	OnPlaced func(host string, p overlay.Placed)
}

// Default gives the configuration of a manager that crawls the Web; Store, Archive, Swarm, Sign and Contact are the caller's.
func Default() Config {
	return Config{
		Strategy: "fixed", Discover: DiscoverListed, DiscoverMost: 10_000, Options: recrawl.DefaultOptions(), Tick: time.Minute, Terms: lease.Default(), Gap: time.Second,
		Failing:     Failing{Pause: 15 * time.Minute, MaxPause: 24 * time.Hour, Limit: 12},
		FirstBudget: 64, MaxBudget: 25_000, Placers: 128, Vantages: 8, MinPeers: 1, MinPeersWait: 30 * time.Second, Now: time.Now, Log: slog.New(slog.DiscardHandler),
	}
}

// ErrConfig says that a Config cannot be used.
var ErrConfig = errors.New("manager: bad configuration")

// Validate names the first bad field.
func (c Config) Validate() error {
	switch {
	case c.Store == nil || c.Archive == nil || c.Evidence == nil || c.Swarm == nil || c.Sign == nil:
		return fmt.Errorf("%w: store, archive, its evidence room, swarm and signer are all needed", ErrConfig)
	case c.Tick <= 0:
		return fmt.Errorf("%w: a tick of %v, must be positive", ErrConfig, c.Tick)
	case c.PlanEvery < 0:
		return fmt.Errorf("%w: %v ticks between plans, must not be negative", ErrConfig, c.PlanEvery)
	case c.Gap < 0:
		return fmt.Errorf("%w: a gap of %v is negative", ErrConfig, c.Gap)
	case c.FirstBudget < 1 || c.MaxBudget < c.FirstBudget:
		return fmt.Errorf("%w: page budgets %d to %d: want at least 1, and growing", ErrConfig, c.FirstBudget, c.MaxBudget)
	case c.Placers < 1 || c.MaxOut < 0 || c.Vantages < 0:
		return fmt.Errorf("%w: %d placers, %d out, %d vantages: want positive ones", ErrConfig, c.Placers, c.MaxOut, c.Vantages)
	case !(c.NewShare >= 0 && c.NewShare < 1):
		return fmt.Errorf("%w: new channels get %v of the room: want at least 0 and less than 1", ErrConfig, c.NewShare)
	case c.Now == nil || c.Log == nil:
		return fmt.Errorf("%w: clock and log are needed", ErrConfig)
	}
	if err := c.Failing.validate(); err != nil {
		return err
	}
	if err := c.Discover.validate(); err != nil {
		return err
	}
	if err := c.Terms.Validate(); err != nil {
		return err
	}
	return c.Options.Validate()
}
