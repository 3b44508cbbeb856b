package manager

import (
	"context"
	"time"

	"shoal/channel"
	"shoal/manager/archive"
	"shoal/manager/archive/evidence"
	"shoal/manager/trust"
)

// Deliveries is what the manager needs of an archive to judge what peers deliver.
type Deliveries interface {
	// DepositAside is Deposit of a task whose pages are no part of a channel's copy, but the rest of its crawl to its peer.
	DepositAside(ctx context.Context, s channel.Signed, body []byte, as archive.Errand) error
	// DelivererNumber and PrefixNumber are the numbers by which records name peers, accounts and networks.
	DelivererNumber(name string) uint64
	PrefixNumber(prefix string) uint64
	// Deliverers lists who has delivered; an empty name: all.
	Deliverers(ctx context.Context, name string) ([]archive.Deliverer, error)
	// Delivery reads what a claim brought, with the pages' records, until Judge has stored what became of them.
	Delivery(ctx context.Context, id channel.ID, gen channel.Gen) (archive.Delivery, error)
	Judge(ctx context.Context, id channel.ID, of *archive.Delivery, all []archive.Judged) error
	// Record reads the record of one page, and Review changes those of all pages of a channel.
	Record(ctx context.Context, id channel.ID, hash uint64) (archive.Delivered, error)
	Review(ctx context.Context, id channel.ID, do func(g *trust.Page) (changed bool)) (changed int, err error)
	// CaptureBy is what a peer delivered of a page, from a time on.
	CaptureBy(ctx context.Context, url string, by trust.Peer, at int64) (archive.Capture, error)
	// Suspend withdraws what a peer alone has seen, and has those channels crawled first; Pardon gives it back. Both are durable, and go on by themselves.
	Suspend(ctx context.Context, by trust.Peer) error
	Pardon(ctx context.Context, by trust.Peer) error
	// Suspensions lists what of that holds or is under way.
	Suspensions(ctx context.Context) ([]archive.Suspension, error)
	// Older finds pages that a peer alone has seen.
	Older(ctx context.Context, by trust.Peer, from channel.ID, n int) ([]archive.Older, error)
}

// Evidence is what the manager needs of the archive's evidence room.
type Evidence interface {
	Answers(ctx context.Context, id channel.ID, gen channel.Gen) ([]*archive.EvidenceFetch, error)
	DropAnswers(ctx context.Context, id channel.ID, gen channel.Gen) error
	Open(ctx context.Context, about trust.Case, url string, checked *archive.EvidenceFetch) (number uint64, err error)
	Put(ctx context.Context, number uint64, s evidence.Side, f *archive.EvidenceFetch) error
	Ruled(ctx context.Context, number uint64, loser trust.Peer, amount, score float64, note string) error
	Object(ctx context.Context, number uint64, by trust.Peer, text string) error
	Objectors(ctx context.Context) (map[trust.Peer]int, error)
	Close(ctx context.Context, number uint64) error
	// List lists the cases that name a peer, Held those that are held against it; more is how many there are beside those.
	List(ctx context.Context, peer trust.Peer) (cases []archive.EvidenceCase, more int, err error)
	Held(ctx context.Context, peer trust.Peer) (cases []archive.EvidenceCase, more int, err error)
	Pardon(ctx context.Context, peer trust.Peer, at time.Time) error
	Unclosed(ctx context.Context) ([]uint64, error)
	Read(ctx context.Context, number uint64) (archive.EvidenceCase, error)
}
