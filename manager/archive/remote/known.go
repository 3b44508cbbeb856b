package remote

import (
	"context"
	"errors"
	"fmt"

	"shoal/manager/archive/bucket"
	"shoal/manager/archive/ledger"
	"shoal/manager/archive/ledger/pgledger"
)

// A database that was lost, or another one whose name was given by mistake, looks like one in which a network begins. The bucket tells them apart: the first
// object is written when the ledger has an entry. Without that look the manager would begin a new archive, and take all pages for what nobody refers to.

// ErrForgotten says that a bucket holds an archive of which the database knows nothing.
var ErrForgotten = fmt.Errorf("%w: the bucket holds an archive of which the database knows nothing", ledger.ErrState)

// kept begin the names of what an archive keeps in its bucket: pages, and snapshots of the ledger.
var kept = []string{"warc/", "ledger/"}

// Check returns ErrForgotten where Open would. It changes nothing, and makes no tables.
func (p *Place) Check(ctx context.Context) error { return p.known(ctx) }

// known looks whether the bucket holds something while the database has nothing.
func (p *Place) known(ctx context.Context) error {
	if is, _, err := pgledger.Unwritten(ctx, p.server()); err != nil || !is {
		return err
	}
	b, err := bucket.OpenToRead(bucket.Config{URL: p.Bucket})
	if err != nil {
		return err
	}
	for _, prefix := range kept {
		found, enough := "", errors.New("enough")
		if err := b.List(ctx, prefix, func(o bucket.Object) error {
			found = o.Name
			return enough
		}); err != nil && !errors.Is(err, enough) {
			return err
		}
		if found == "" {
			continue
		}
		is, where, err := pgledger.Unwritten(ctx, p.server())
		if err != nil || !is { // another manager has begun meanwhile
			return err
		}
		return fmt.Errorf("%w: %s is in %s, and %s has no archive: name the database that belongs to the bucket, or restore that one from its backup; nothing was changed. If it is lost for good, %s. If nothing in the bucket is wanted, empty it",
			ErrForgotten, found, shown(p.Bucket), where, ledger.RebuildHint)
	}
	return nil
}
