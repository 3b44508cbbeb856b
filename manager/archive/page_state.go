package archive

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/dgraph-io/badger/v4"

	"shoal/channel"
	pb "shoal/manager/archive/archivepb"
)

// Page is what the archive knows of one URL.
type Page struct {
	URL          string
	Channel      channel.ID
	First        time.Time // first visit that stored anything
	Fetched      time.Time // last visit
	Changed      time.Time // last visit that found a change which counts
	Visits       int
	Changes      int
	Status       int
	Gone         bool
	Digest       uint64
	Shingle      uint64
	ETag         string
	LastModified string
	Mime         string
	Size         int
	Depth        int
	Importance   float32 // PageRank; 0: not ranked yet
	History      []Visit // changes that count, newest first, at most MaxHistory
}

// Visit is one change of a page.
type Visit struct {
	Fetched time.Time
	Digest  uint64
}

// Page reads the state of a URL. ErrNotFound if nothing of it was stored.
func (a *Archive) Page(ctx context.Context, rawURL string) (out Page, err error) {
	url, err := channel.Canonical(rawURL)
	if err != nil {
		return Page{}, err
	}
	h := channel.URLHash(url)
	err = a.db.View(func(txn *badger.Txn) error {
		var owner uint64
		item, err := txn.Get(key1(keyOwner, h))
		if errors.Is(err, badger.ErrKeyNotFound) {
			return ErrNotFound
		}
		if err == nil {
			err = item.Value(func(v []byte) error { owner = binary.BigEndian.Uint64(padded(v)); return nil })
		}
		if err != nil {
			return err
		}
		var m pb.Page
		var past pb.History
		ok, err := get(txn, key2(keyPage, owner, h), &m)
		if err != nil {
			return err
		}
		if !ok || m.Url != url {
			return ErrNotFound
		}
		if _, err := get(txn, key2(keyHistory, owner, h), &past); err != nil {
			return err
		}
		rank, err := rankAt(txn, key2(keyRank, owner, h))
		if err != nil {
			return err
		}
		out = Page{
			URL: url, Channel: channel.ID(owner), First: fromMicros(m.FirstUs), Fetched: fromMicros(m.FetchedUs), Changed: fromMicros(m.ChangedUs),
			Visits: int(m.Visits), Changes: int(m.Changes), Status: int(m.Status), Gone: m.Gone, Digest: m.Digest, Shingle: m.Shingle,
			ETag: string(m.Etag), LastModified: string(m.LastModified), Mime: m.Mime, Size: int(m.Size), Depth: int(m.Depth), Importance: rank,
		}
		for _, v := range past.Visits {
			out.History = append(out.History, Visit{fromMicros(v.FetchedUs), v.Digest})
		}
		return ctx.Err()
	})
	if err != nil {
		return Page{}, fmt.Errorf("state of %s: %w", url, err)
	}
	return out, nil
}
