package remote

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"shoal/channel"
	"shoal/manager/archive"
	"shoal/manager/archive/bucket"
	"shoal/manager/archive/ledger"
	"shoal/manager/archive/ledger/badgerledger"
	"shoal/manager/archive/ledger/pgledger"
	"shoal/manager/archive/segment"
	"shoal/manager/archive/warc"
	"shoal/manager/archive/warc/folder"
	"shoal/manager/archive/warc/objects"
)

// Moved is what a migration moved and compared.
type Moved struct {
	Segments int    `json:"files"`
	Records  int    `json:"records"`
	Captures int    `json:"captures"`
	Bytes    int64  `json:"bytes"`
	Kept     string `json:"kept"` // where the archive before is
}

// errDiffers says that a copy was read and is not what was copied.
var errDiffers = errors.New("the copy of the archive does not hold what the archive holds: nothing was changed")

// Up moves the archive in a data folder to servers. It may be broken off and begun again: objects that are there are not sent again. Every record
// is read back and checked before the new place counts. The old archive is kept.
func Up(ctx context.Context, data string, to Place, tell func(string)) (out Moved, err error) {
	dir := filepath.Join(data, "archive")
	was, err := sealed(ctx, archive.Config{Dir: dir})
	if err != nil {
		return out, err
	}
	if err := to.receive(ctx, dir, tell); err != nil {
		return out, err
	}
	scratch, err := os.MkdirTemp(data, "migrate-")
	if err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(scratch)) }()
	tell("reading every record back")
	fresh := filepath.Join(scratch, "archive")
	if out, err = compared(ctx, was, to.Config(archive.Config{Dir: fresh})); err != nil {
		return out, err
	}
	if err := Note(data, BucketFile, to.Bucket); err != nil { // from here on the server counts
		return out, err
	}
	if out.Kept, err = before(dir); err != nil {
		return out, err
	}
	return out, Rename(fresh, dir)
}

// before moves the archive that was out of the way.
func before(dir string) (string, error) {
	old := fmt.Sprint(dir, ".before-", time.Now().UTC().Format("20060102-150405"))
	return old, Rename(dir, old)
}

// refuse stands where a running archive checks tasks.
func refuse(time.Time, channel.Signed) (channel.Header, error) {
	return channel.Header{}, errors.New("remote: a migration takes no tasks")
}

// sealed ends the segment that was being written, and reads the whole archive.
func sealed(ctx context.Context, cfg archive.Config) (v archive.Verified, err error) {
	cfg.Verify, cfg.MinFree = refuse, -1
	a, err := archive.Open(ctx, cfg)
	if err != nil {
		return v, err
	}
	if err = a.Seal(); err == nil {
		v, err = a.Verify(ctx, nil)
	}
	return v, errors.Join(err, a.Close())
}

// compared reads the whole copy of an archive and compares what it holds.
func compared(ctx context.Context, was archive.Verified, cfg archive.Config) (out Moved, err error) {
	is, err := sealed(ctx, cfg)
	if err != nil {
		return out, err
	}
	out = Moved{Segments: is.Files, Records: is.Records, Captures: is.Captures, Bytes: is.Bytes}
	if was.Files != is.Files || was.Records != is.Records || was.Captures != is.Captures || was.Bytes != is.Bytes || was.Found != is.Found {
		return out, fmt.Errorf("%w: %d files, %d records, %d captures, %d bytes and %d problems were to be copied; the copy has %d, %d, %d, %d and %d",
			errDiffers, was.Files, was.Records, was.Captures, was.Bytes, was.Found, is.Files, is.Records, is.Captures, is.Bytes, is.Found)
	}
	return out, nil
}

// stores opens what an archive in a folder stands on.
func stores(ctx context.Context, dir string) (ledger.Store, segment.Store, []segment.Info, error) {
	l, s, err := archive.Embedded(dir).Open(ctx, archive.Own{State: filepath.Join(dir, "state"), Clock: time.Now})
	if err != nil {
		return nil, nil, nil, err
	}
	all, err := ledger.Segments(ctx, l)
	if err == nil {
		_, err = s.Recover(all, l.Head().Segment)
	}
	if err != nil {
		return nil, nil, nil, errors.Join(err, s.Close(), l.Close())
	}
	return l, s, all, nil
}

// receive copies the archive of a folder, all segments of which are sealed.
func (p *Place) receive(ctx context.Context, dir string, tell func(string)) error {
	b, err := p.bucket(ctx)
	if err != nil {
		return err
	}
	l, from, all, err := stores(ctx, dir)
	if err != nil {
		return err
	}
	to, server := objects.Open(objects.Config{Bucket: b}), pgledger.Config{Server: p.server(), Objects: b}
	if err := pgledger.MayAdopt(ctx, server, l.Head().ID); err != nil {
		return errors.Join(err, from.Close(), l.Close())
	}
	for n, s := range all {
		if s.Length > 0 {
			if _, err = to.Import(ctx, from, s); err != nil {
				break
			}
		}
		tell(fmt.Sprintf("%d of %d files are in the bucket", n+1, len(all)))
	}
	if err == nil {
		err = ledger.Whole(l) // it may be one that was on servers, out of a backup
	}
	if err == nil {
		err = pgledger.Adopt(ctx, server, l)
	}
	return errors.Join(err, from.Close(), l.Close())
}

// Down moves an archive from servers into its data folder. It may be broken off and begun again: files that are there are not fetched again.
// Every record is read and checked before the folder counts. What is on the servers is kept.
func Down(ctx context.Context, data string, from Place, tell func(string)) (out Moved, err error) {
	dir := filepath.Join(data, "archive")
	was, err := sealed(ctx, from.Config(archive.Config{Dir: dir}))
	if errors.Is(err, pgledger.ErrOwn) { // an earlier try has only left the note
		return out, Forget(data, BucketFile)
	}
	if err != nil {
		return out, err
	}
	part := dir + ".part"
	if err := from.send(ctx, dir, part, tell); err != nil {
		return out, err
	}
	tell("reading every record back")
	if out, err = compared(ctx, was, archive.Config{Dir: part}); err != nil {
		return out, err
	}
	out.Kept = shown(from.Bucket)
	return out, takePlace(data, dir, part)
}

// shown is a bucket's URL for messages, without a key.
func shown(bucket string) string {
	u, err := url.Parse(bucket)
	if err != nil {
		return "the bucket"
	}
	u.User = nil
	return u.String()
}

// send copies an archive on servers, all segments of which are sealed, into a folder.
func (p *Place) send(ctx context.Context, dir, part string, tell func(string)) error {
	files, state := filepath.Join(part, "warc"), filepath.Join(part, "state")
	if err := errors.Join(os.RemoveAll(state), os.MkdirAll(files, 0o750)); err != nil {
		return err
	}
	b, l, err := p.openKnown(ctx, archive.Own{State: filepath.Join(dir, "state"), Clock: time.Now})
	if err != nil {
		return err
	}
	all, err := ledger.Segments(ctx, l)
	if err == nil {
		err = fetch(ctx, b, all, files, tell)
	}
	if err == nil {
		err = copyLedger(l, state)
	}
	return errors.Join(err, l.Close())
}

// fetch copies segments into a folder.
func fetch(ctx context.Context, b *bucket.Bucket, all []segment.Info, files string, tell func(string)) error {
	from, to := objects.Open(objects.Config{Bucket: b}), folder.Open(folder.Config{Dir: files})
	for n, s := range all {
		at := filepath.Join(files, s.Name)
		st, err := os.Stat(at)
		if err == nil && st.Size() == int64(s.Length) {
			continue
		}
		if err == nil { // of an earlier try
			err = os.Remove(at)
		}
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		if err := to.Import(ctx, from, s); err != nil {
			return err
		}
		tell(fmt.Sprintf("%d of %d files are in the folder", n+1, len(all)))
	}
	return warc.OS{}.SyncDir(files)
}

// copyLedger makes a folder's ledger of a server's.
func copyLedger(from ledger.Store, state string) error {
	in, out := io.Pipe()
	read := make(chan error, 1)
	go func() {
		err := from.Backup(out)
		read <- err
		_ = out.CloseWithError(err) // it never fails
	}()
	err := badgerledger.Restore(state, in, time.Now())
	_ = in.Close() // ends the reading, if it has not ended
	if err = errors.Join(err, <-read); err != nil {
		return err
	}
	l, err := badgerledger.Open(badgerledger.Config{Dir: state})
	if err != nil {
		return err
	}
	return errors.Join(ledger.Whole(l), l.Close())
}
