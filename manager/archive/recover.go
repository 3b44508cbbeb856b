package archive

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"

	"github.com/dgraph-io/badger/v4"

	"shoal/channel"
	pb "shoal/manager/archive/archivepb"
	"shoal/manager/archive/warc"
)

// recover brings files and database into step after a start: whatever the last process was doing, bytes beyond the committed length of
// a WARC file were never acknowledged and are cut off, files that no transaction mentions are removed, and leases get a full term.
func (a *Archive) recover(ctx context.Context) error {
	g := &a.group
	files := map[string]*pb.File{}
	last := uint32(0)
	err := a.db.View(func(txn *badger.Txn) error {
		ok, err := get(txn, []byte{keyState}, &g.state)
		if err != nil {
			return err
		}
		if ok && g.state.Schema != schemaVersion {
			return fmt.Errorf("%w: schema %d, this program knows %d", ErrSchema, g.state.Schema, schemaVersion)
		}
		return scan(txn, []byte{keyFile}, nil, true, func(key []byte, item *badger.Item) (bool, error) {
			f := new(pb.File)
			n := binary.BigEndian.Uint32(key[1:])
			if err := item.Value(func(b []byte) error { return decode(b, f) }); err != nil {
				return false, err
			}
			files[f.Name], last = f, max(last, n)
			a.stats.addFile(n, f.Name)
			return ctx.Err() == nil, ctx.Err()
		})
	})
	if err != nil {
		return err
	}
	if len(g.state.Id) == 0 {
		g.state.Id = make([]byte, len(a.id))
		if _, err := rand.Read(g.state.Id); err != nil {
			return err
		}
		g.state.Schema, g.state.NextSeq, g.state.File = schemaVersion, a.firstSeq(), last
		txn := a.db.NewTransaction(true)
		if err := a.seal(txn); err != nil {
			return err
		}
	}
	copy(a.id[:], g.state.Id)
	a.stats.count(tally{pages: g.state.Pages, unchanged: g.state.Unchanged, bytes: g.state.Bytes, events: g.state.Events})
	a.stats.chunks = g.state.Chunks
	if err := a.recoverFiles(files); err != nil {
		return err
	}
	return a.recoverLeases(ctx)
}

// firstSeq is where the feed of a new archive begins: above all that one which it replaces can have told, at up to a million entries a
// second, since the manager takes no entry of a channel for news that is numbered below the last.
func (a *Archive) firstSeq() uint64 { return uint64(max(a.cfg.Clock().Unix(), 1)) << 20 }

// recoverFiles cuts torn tails off and opens the file that is being written.
func (a *Archive) recoverFiles(files map[string]*pb.File) error {
	g := &a.group
	sizes, err := a.cfg.FS.List(a.path("warc"))
	if err != nil {
		return err
	}
	seen := 0
	for _, name := range sorted(sizes) {
		if !strings.HasSuffix(name, ".warc.gz") {
			continue
		}
		f := files[name]
		if f == nil {
			if err := a.cfg.FS.Remove(a.path("warc", name)); err != nil {
				return fmt.Errorf("remove a file that was never committed: %w", err)
			}
			continue
		}
		seen++
		last := f.Name == a.stats.fileName(g.state.File) && !f.Sealed
		if sizes[name] == int64(f.Length) && !last {
			continue
		}
		out, err := warc.Resume(a.cfg.FS, a.path("warc", f.Name), int64(f.Length))
		if errors.Is(err, warc.ErrShort) {
			// What is left can still be read; verify names what is missing. Nothing is appended to it.
			a.log.Error("a WARC file has lost bytes that were durable: run shoal archive verify", "file", f.Name, "err", err)
			a.missing++
			continue
		}
		if err != nil {
			return err
		}
		if !last {
			if err := out.Close(); err != nil {
				return err
			}
			continue
		}
		g.out = out
		g.file = pb.File{Name: f.Name, Length: f.Length, Records: f.Records, CreatedUs: f.CreatedUs}
	}
	if seen < len(files) {
		a.missing += len(files) - seen
		a.log.Error("WARC files are missing: run shoal archive verify", "missing", len(files)-seen)
	}
	return nil
}

// recoverLeases gives every lease that runs a full term.
func (a *Archive) recoverLeases(ctx context.Context) error {
	var ids []channel.ID
	err := a.db.View(func(txn *badger.Txn) error {
		return scan(txn, []byte{keyLease}, nil, false, func(key []byte, _ *badger.Item) (bool, error) {
			ids = append(ids, channel.ID(binary.BigEndian.Uint64(key[1:])))
			return true, ctx.Err()
		})
	})
	if err != nil {
		return err
	}
	now := a.cfg.Clock()
	for _, id := range ids {
		s, err := a.lock(id)
		if err != nil {
			return err
		}
		s.v.fence.Restart(now, a.cfg.Terms)
		a.watch(id, &s.v)
		a.unlock(id, s)
	}
	return nil
}
