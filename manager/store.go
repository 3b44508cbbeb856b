package manager

import (
	"context"
	"iter"

	"shoal/channel"
	"shoal/manager/archive"
)

// Store is the channel database, as the manager needs it. Channel/storetest tells what each method must do; channel/badgerdb is the
// default. Every write carries the epoch that Take gave, and is durable when it returns; after Take by another manager it fails with
// channel.ErrStaleEpoch. Methods may be called by several goroutines.
type Store interface {
	ChannelStore
	HostStore
	FeedStore

	// Take takes the channels over: writes with earlier epochs are refused from now on.
	Take(ctx context.Context) (channel.Epoch, error)
	// PutState stores a strategy's state under a name, in place of what was there; State reads it, nil if there is none.
	PutState(ctx context.Context, e channel.Epoch, name string, state []byte) error
	State(ctx context.Context, name string) ([]byte, error)
	// Kept reads a state as each manager keeps it that has the database or has had it, where each of several has one for itself. What one keeps that has the
	// database for itself comes first.
	Kept(ctx context.Context, name string) ([][]byte, error)
	Close() error
}

// ChannelStore is the part of Store that holds channels. Where there is no such channel, methods fail with channel.ErrUnknown.
type ChannelStore interface {
	// Add adds up to channel.MaxAdd channels; those whose scope is taken are refused. ids has a zero in their places.
	Add(ctx context.Context, e channel.Epoch, chs []channel.Channel) (ids []channel.ID, refused []channel.Refusal, err error)
	// Import adds any number of channels, or none at all if a line cannot be read or has a bad scope. Duplicates are left out and named.
	Import(ctx context.Context, e channel.Epoch, lines iter.Seq[channel.Line]) (channel.Imported, error)
	// Update changes scope, seeds, settings, state and reason of a channel.
	Update(ctx context.Context, e channel.Epoch, id channel.ID, change func(*channel.Channel)) error
	Remove(ctx context.Context, e channel.Epoch, id channel.ID) error
	// Issue makes handings-out durable, before their offers leave.
	Issue(ctx context.Context, e channel.Epoch, issues []channel.Issue) (refused []channel.Refusal, err error)

	Channel(ctx context.Context, id channel.ID) (channel.Channel, error)
	// Entire reads many channels at once, in the order of their ids. Those that are not there are left out.
	Entire(ctx context.Context, ids []channel.ID) ([]channel.Entire, error)
	// List reads up to n channels with ids above after, in their order.
	List(ctx context.Context, after channel.ID, n int) ([]channel.Channel, error)
	// Search reads up to n channels whose host's name (without scheme) begins with prefix; next is what to pass as after for more.
	Search(ctx context.Context, prefix, after string, n int) (chs []channel.Channel, next string, err error)
	// Matching finds the channels whose host's name, with its scheme, holds a text: n of them from the from-th on, in an order that stays,
	// and how many there are.
	Matching(ctx context.Context, text string, from, n int) (ids []channel.ID, total int, err error)
	// Lookup finds the channel of the most specific directory that a canonical URL falls into.
	Lookup(ctx context.Context, canonicalURL string) (channel.ID, error)
	// Holders is Lookup of many URLs at once; 0: no channel holds it.
	Holders(ctx context.Context, canonicalURLs []string) ([]channel.ID, error)
	// Lease reads the lease's record of a channel; nil: it was never handed out, or is not there.
	Lease(ctx context.Context, id channel.ID) ([]byte, error)
	// Scan reads the hot part of the channels with ids from first to last (0: all the rest), in their order. Lease and Facts are valid
	// during the call only.
	Scan(ctx context.Context, first, last channel.ID, f func(channel.Hot) error) error
}

// HostStore is the part of Store that holds Web hosts, and those that no channel covers.
type HostStore interface {
	// Host reads what is known of a host; of one that is not known, the name only.
	Host(ctx context.Context, name string) (channel.Host, error)
	// Hosts is Host of many at once, in their order.
	Hosts(ctx context.Context, names []string) ([]channel.Host, error)
	UpdateHost(ctx context.Context, e channel.Epoch, name string, change func(*channel.Host)) error
	// ScanHosts reads all hosts that anything is known of, without their Record.
	ScanHosts(ctx context.Context, f func(channel.Host) error) error
	// Candidates reads the n hosts without a channel that were found most often, those first, of the hosts that want takes; nil: of all. Where want is
	// given all names are read.
	Candidates(ctx context.Context, n int, want func(host string) bool) ([]channel.Candidate, error)
	CountCandidates(ctx context.Context) (int, error)
	DropCandidates(ctx context.Context, e channel.Epoch, hosts []string) error
}

// FeedStore is the part of Store that takes in the archives' feeds.
type FeedStore interface {
	// Apply takes in stretches of feeds, each exactly once: its effects and its cursor are one write. channel.ErrCursor: not at From.
	Apply(ctx context.Context, e channel.Epoch, stretches ...channel.Advance) error
	Cursor(ctx context.Context, feed string) (string, error)
	// Counters are the sums of what was applied.
	Counters(ctx context.Context) (map[string]int64, error)
}

// Credit says how much of a channel's stored copy one peer has delivered.
type Credit = archive.Credit

// AccountCredit is what an account was credited with.
type AccountCredit = archive.AccountCredit

// Board is who brought the most that others corroborated.
type Board = archive.Board

// BoardRow is one line of a Board.
type BoardRow = archive.BoardRow

// Profile is how an account wants to be shown on the board.
type Profile = archive.Profile

// NameKey is the same for nicknames and teams that readers take for one.
func NameKey(name string) string { return archive.NameKey(name) }

// ErrProfile says that a profile cannot be shown as it is.
var ErrProfile = archive.ErrProfile

// Withdrawing is how far a purge of deliverers is.
type Withdrawing = archive.Withdrawing

// Withdrawn tells what a purge of deliverers took back from the archive.
type Withdrawn = archive.Withdrawn
