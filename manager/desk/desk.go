// Package desk has all that an operator can see and do: add and change channels, block hosts and take them down, choose the strategy, admit
// volunteers, find out what is wrong. The pages, the HTTP interface and, through it, the command line share it, so that they cannot differ.
// A desk works at a running manager and on a stopped one's database alike: what it writes is the same, and a running manager is told.
//
// The package decides nothing about crawling, which is package manager's, and knows no HTTP, which is web's and api's.
package desk

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"shoal/channel"
	"shoal/coords"
	"shoal/manager"
	"shoal/manager/archive"
	"shoal/manager/trust"
	"shoal/overlay"
)

// ErrAsk is returned for a wish that cannot be granted.
var ErrAsk = manager.ErrAsk

// ErrStopped is returned for what only a running manager can do.
var ErrStopped = manager.ErrStopped

// Running is what a desk needs of a manager that runs in the same process. *manager.Manager is one. All methods may be called before
// its Run and by several goroutines.
type Running interface {
	// Epoch is the manager's in the database. The desk's writes carry it.
	Epoch() channel.Epoch
	// Overview is the state of the whole, a moment old at most.
	Overview() manager.Overview
	// Alive reports whether the manager answers.
	Alive(ctx context.Context) error
	// Peers are the members that take tasks, and where the manager is.
	Peers() ([]overlay.PeerRecord, coords.Coord)

	// IDs are n channels from the from-th on, and how many there are.
	IDs(ctx context.Context, from, n int) (ids []channel.ID, total int, err error)
	// Inspect tells what the manager holds of channels beside their records.
	Inspect(ctx context.Context, chs []channel.Channel) ([]manager.Inspection, error)
	// Explain says how a channel changes, and Events what happened to it of late, the latest first.
	Explain(ctx context.Context, ch *channel.Channel) (string, error)
	Events(ctx context.Context, id channel.ID) ([]manager.Event, error)
	// Adopt takes in channels that were added to the database. It calls taken after each, and returns how many are on blocked hosts.
	Adopt(ctx context.Context, first, last channel.ID, taken func()) (blocked int, err error)
	// Edited, Forget and SetBlocked take in what was changed in the database, or is going to be.
	Edited(ctx context.Context, before, after *channel.Channel) error
	Forget(ctx context.Context, ch *channel.Channel) error
	// Kept takes in again what was forgotten, if it is still in the database.
	Kept(ctx context.Context, ch *channel.Channel) error
	SetBlocked(ctx context.Context, origin, why string) error
	// ResetHost takes in that what was known of a host is forgotten.
	ResetHost(ctx context.Context, origin string) error
	// StandOff leaves a channel's host alone until a task that is called back must have ended.
	StandOff(ctx context.Context, id channel.ID, host string) error
	Pause(ctx context.Context, id channel.ID, paused bool) error
	CrawlNow(ctx context.Context, id channel.ID) error

	Strategy(ctx context.Context) (manager.StrategyInfo, error)
	UseStrategy(ctx context.Context, c manager.StrategyChoice) error
	UseLimits(ctx context.Context, l manager.Limits) error
	TryStrategy(ctx context.Context, c manager.StrategyChoice) (manager.Trial, error)
	PlanBasis(ctx context.Context) (manager.PlanBasis, error)

	// Trust tells how far peers are believed, SetTrust by which rules, and TrustPeers each one.
	Trust(ctx context.Context) (manager.TrustInfo, error)
	SetTrust(ctx context.Context, c manager.TrustChoice) (manager.TrustInfo, error)
	TrustPeers(ctx context.Context) ([]manager.PeerTrust, error)
	// Evidence is what is held against a peer, and Case what each side of it saw.
	Evidence(ctx context.Context, peer string) (manager.PeerTrust, []archive.EvidenceCase, error)
	Case(ctx context.Context, number uint64) (archive.EvidenceCase, error)
	// Objectors counts the objections of each peer that lost a case.
	Objectors(ctx context.Context) (map[trust.Peer]int, error)
	// Uphold makes a suspension final, Pardon takes it back, and Vouch ends a probation.
	Uphold(ctx context.Context, peer string) (manager.PeerTrust, error)
	// Pardon is told which others of the peer's account are suspended elsewhere.
	Pardon(ctx context.Context, peer string, others ...trust.Peer) (manager.PeerTrust, error)
	Vouch(ctx context.Context, peers ...string) error
}

// Archive is what a desk needs of the archive: to call tasks back and to remove pages. One that is an Index and a Mover too can split channels
// by what is stored.
type Archive interface {
	// Recall ends all tasks of a channel: nothing that their peers still send is stored.
	Recall(ctx context.Context, id channel.ID) error
	// Purge removes all pages of Web hosts, and says so in the feed.
	Purge(ctx context.Context, hosts channel.Hosts) (pages int, err error)
	// Withdraw takes back all that a peer, or the peers of an account, have delivered, and says so in the feed.
	Withdraw(ctx context.Context, name string) (manager.Withdrawn, error)
	// Forget recalls, and drops what the next crawl would go on from.
	Forget(ctx context.Context, id channel.ID) error
}

// Members admits and refuses volunteers.
type Members interface {
	Invite(uses uint32) (join string, err error)
	Ban(peer string, banned bool) error
	Banned() []string
}

// Config of a Desk.
type Config struct {
	Network string // its name, as volunteers see it
	Store   manager.Store
	Running Running // nil: the manager is stopped
	Archive Archive // nil: there is none at hand; nothing can be purged, and nothing called back
	Members Members // nil: the manager is stopped
	// Releases are the versions of the volunteers' program that it serves. Nil: the manager is stopped.
	Releases ReleaseKeeper
	// Checks look at what lies outside of the manager: disk, keys, clock, network. Nil: none.
	Checks func(ctx context.Context) []Finding
	// Database asks the server with the channels for a sign of life. Nil: they are in the data folder.
	Database func(ctx context.Context) error
	// Backup writes everything into a new folder. Nil: the manager is stopped.
	Backup func(ctx context.Context, dir string) error
	// Migrator moves all data to another place while the manager runs. Nil: the manager is stopped, or cannot.
	Migrator Migrator
	// Orders are the page orderings that channels may name. None: any.
	Orders []string
	// Starts is the command that starts a stopped manager. Empty: shoal manager.
	Starts string
	// Reach refuses a Web host that peers of this network cannot fetch from. Nil: PublicHost.
	Reach func(origin string) error
	// Managers are those that share the network, this one first, and what others have counted that are gone since this one's start. Nil: there is no other.
	Managers func() (here []Manager, gone Figures)
	// Truth is how fresh the copy really is, in a synthetic Web. Nil: that is not known.
	Truth func() *Truth
	// Pond is where the synthetic Web is served that the peers crawl. Empty: they crawl the Web.
	Pond string
	// Now is the clock. Nil: time.Now.
	Now func() time.Time
}

// Desk is where an operator works. Its methods may be called by several goroutines.
type Desk struct {
	cfg     Config
	store   manager.Store
	epoch   channel.Epoch
	m       Running // nil: stopped
	files   Archive // nil: no archive at hand
	imports imports
	tallies tallies
	banner  banner

	objections objections
}

// ErrConfig says that a Config cannot be used.
var ErrConfig = errors.New("desk: bad configuration")

// Open makes a desk. Without a running manager it takes the database over.
func Open(ctx context.Context, cfg Config) (*Desk, error) {
	if cfg.Store == nil {
		return nil, fmt.Errorf("%w: it needs the channel database", ErrConfig)
	}
	if cfg.Reach == nil {
		cfg.Reach = PublicHost
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	cfg.Starts = cmp.Or(cfg.Starts, "shoal manager")
	d := &Desk{cfg: cfg, store: cfg.Store, m: cfg.Running, files: cfg.Archive}
	if d.m != nil {
		d.epoch = d.m.Epoch()
		return d, nil
	}
	var err error
	if d.epoch, err = cfg.Store.Take(ctx); err != nil {
		return nil, fmt.Errorf("take the channels over: %w", err)
	}
	return d, nil
}

// Running reports whether a manager is behind the desk.
func (d *Desk) Running() bool { return d.m != nil }

// Live refuses what a stopped manager cannot do.
func (d *Desk) Live() error {
	if d.m == nil {
		return fmt.Errorf("%w: start it with `%s`, then ask again", ErrStopped, d.cfg.Starts)
	}
	return nil
}

// batch is how many channels are read at a time.
const batch = 500

// asks says what is wrong with a wish.
func asks(format string, v ...any) error {
	return fmt.Errorf("%w: %s", ErrAsk, fmt.Sprintf(format, v...))
}
