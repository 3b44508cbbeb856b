package archive

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/dgraph-io/badger/v4"

	"shoal/channel"
	pb "shoal/manager/archive/archivepb"
	"shoal/manager/archive/warc"
)

// ErrNotFound says that there is no such page, or none of that time.
var ErrNotFound = errors.New("archive: not found")

// Capture is one visit of a page with its content.
type Capture struct {
	URL     string
	Fetched time.Time
	Status  int
	Mime    string
	Revisit bool     // the visit found what was stored already
	Header  []byte   // HTTP, of this visit
	Body    []byte   // decoded content
	Links   []string // as the visit that stored the content found them
	File    string   // WARC file of the record, and where in it
	Offset  int64
	sha     []byte
}

// Get reads a page as it was at a time: of the last visit then or before. A zero time means the last one.
func (a *Archive) Get(ctx context.Context, rawURL string, at time.Time) (Capture, error) {
	url, err := channel.Canonical(rawURL)
	if err != nil {
		return Capture{}, err
	}
	if at.IsZero() {
		at = time.UnixMicro(1<<62 - 1)
	}
	var out Capture
	err = a.db.View(func(txn *badger.Txn) error {
		m, when, err := a.capture(txn, url, at)
		if err != nil {
			return err
		}
		if out, err = a.readCapture(txn, m); err != nil {
			return err
		}
		out.URL, out.Fetched = url, when
		return ctx.Err()
	})
	if err != nil {
		return Capture{}, fmt.Errorf("get %s: %w", url, err)
	}
	return out, nil
}

// readCapture reads the records of a capture.
func (a *Archive) readCapture(txn *badger.Txn, m *pb.Capture) (Capture, error) {
	at, err := a.where(txn, m.At)
	if err != nil {
		return Capture{}, err
	}
	out := Capture{
		Status: int(m.Status), Mime: m.Mime, Revisit: m.Revisit, File: a.stats.fileName(at.GetFile()), Offset: int64(at.GetOffset()), sha: m.Sha256,
	}
	out.Header, out.Body, out.Links, err = a.readPage(txn, m.At, m.Original)
	return out, err
}

// readPage reads a page from the record of a visit and the one that holds the payload, if that is another.
func (a *Archive) readPage(txn *badger.Txn, at, original *pb.Location) (header, body []byte, links []string, err error) {
	if at, err = a.where(txn, at); err != nil {
		return nil, nil, nil, err
	}
	rec, links, err := a.readAt(at)
	if err != nil {
		return nil, nil, nil, err
	}
	header, body = rec.HTTP()
	if original == nil {
		return header, body, links, nil
	}
	if original, err = a.where(txn, original); err != nil {
		return nil, nil, nil, err
	}
	rec, first, err := a.readAt(original)
	if err != nil {
		return nil, nil, nil, err
	}
	if _, body = rec.HTTP(); links == nil {
		links = first
	}
	return header, body, links, nil
}

// capture finds the last capture of a URL at a time or before.
func (a *Archive) capture(txn *badger.Txn, url string, at time.Time) (*pb.Capture, time.Time, error) {
	last := keyOfCapture(url, at)
	prefix := last[:len(last)-9]
	o := badger.DefaultIteratorOptions
	o.Reverse, o.Prefix, o.PrefetchValues = true, prefix, false
	it := txn.NewIterator(o)
	defer it.Close()
	for it.Seek(append(last, 0xff)); it.ValidForPrefix(prefix); it.Next() {
		key := it.Item().Key()
		if len(key) != len(last) || key[len(key)-1] != last[len(last)-1] {
			continue
		}
		m := new(pb.Capture)
		if err := it.Item().Value(func(b []byte) error { return decode(b, m) }); err != nil {
			return nil, time.Time{}, err
		}
		return m, timeOfCapture(key), nil
	}
	return nil, time.Time{}, ErrNotFound
}

// timeOfCapture reads the time in a capture's key.
func timeOfCapture(key []byte) time.Time {
	return time.UnixMicro(int64(binary.BigEndian.Uint64(key[len(key)-9:]))).UTC()
}

// maxHops bounds how often a record is followed over compacted files.
const maxHops = 32

// where finds a record that may have moved when its file was compacted.
func (a *Archive) where(txn *badger.Txn, at *pb.Location) (*pb.Location, error) {
	if at == nil {
		return nil, fmt.Errorf("%w: no record", ErrNotFound)
	}
	for range maxHops {
		if a.stats.fileName(at.GetFile()) != "" {
			return at, nil
		}
		next := new(pb.Location)
		switch ok, err := get(txn, keyOfMoved(at), next); {
		case err != nil:
			return nil, err
		case !ok:
			return nil, fmt.Errorf("%w: its record was removed, WARC file %d", ErrNotFound, at.GetFile())
		}
		at = next
	}
	return nil, fmt.Errorf("%w: record moved more than %d times", ErrNotFound, maxHops)
}

// readAt reads a record, and the outlinks of the metadata record that follows it.
func (a *Archive) readAt(at *pb.Location) (*warc.Read, []string, error) {
	name := a.stats.fileName(at.GetFile())
	if name == "" || strings.ContainsRune(name, os.PathSeparator) {
		return nil, nil, fmt.Errorf("%w: WARC file %d", ErrNotFound, at.GetFile())
	}
	f, err := a.cfg.FS.Open(a.path("warc", name), false)
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = f.Close() }() // it was only read
	rec, err := warc.ReadRecord(io.NewSectionReader(f, int64(at.Offset), int64(at.Length)))
	if err != nil {
		return nil, nil, fmt.Errorf("%s at %d: %w", name, at.Offset, err)
	}
	next, err := warc.ReadRecord(io.NewSectionReader(f, int64(at.Offset)+int64(at.Length), warc.MaxBlock))
	if err != nil || next.Field("WARC-Type") != warc.Metadata || next.Field("WARC-Refers-To") != rec.Field("WARC-Record-ID") {
		return rec, nil, nil // the end of the file, or another page
	}
	return rec, outlinks(next.Block), nil
}

// outlinks reads the links in a metadata record.
func outlinks(block []byte) (out []string) {
	for line := range bytes.SplitSeq(block, []byte("\r\n")) {
		if l, ok := bytes.CutPrefix(line, []byte("outlink: ")); ok {
			out = append(out, string(l))
		}
	}
	return out
}
