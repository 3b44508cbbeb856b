package archive

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/dgraph-io/badger/v4"

	"shoal/channel"
	pb "shoal/manager/archive/archivepb"
	"shoal/manager/archive/warc"
)

// Rebuilt tells what a rebuild found.
type Rebuilt struct {
	Files    int
	Captures int
	Pages    int
	Damaged  int    // places where a file could not be read
	Old      string // where the old state is now
}

// Rebuild makes a new state for an archive whose database cannot be opened, from its WARC files. What only the database knew is gone:
// claims (running crawls start anew, the manager's generations go on), the feed (every page is told as created, cursors of old are
// refused) and change histories. The old state is moved aside, not removed.
func Rebuild(ctx context.Context, cfg Config) (out Rebuilt, err error) {
	state := filepath.Join(cfg.Dir, "state")
	out.Old = fmt.Sprintf("%s.broken-%s", state, time.Now().UTC().Format("20060102150405"))
	if err := os.Rename(state, out.Old); err != nil {
		return out, fmt.Errorf("rebuild: %w", err)
	}
	if cfg.FS == nil {
		cfg.FS = warc.OS{}
	}
	sizes, err := cfg.FS.List(filepath.Join(cfg.Dir, "warc"))
	if err != nil {
		return out, fmt.Errorf("rebuild: %w", err)
	}
	maps.DeleteFunc(sizes, func(name string, _ int64) bool { return !strings.HasSuffix(name, ".warc.gz") })
	db, err := openDB(state, 0, nil)
	if err != nil {
		return out, fmt.Errorf("rebuild: %w", err)
	}
	b := rebuilder{out: &out, fs: cfg.FS, dir: filepath.Join(cfg.Dir, "warc"), wb: db.NewWriteBatch(), pages: map[string]*pb.Page{}, content: map[string]*pb.Content{}}
	err = b.rebuild(ctx, sorted(sizes))
	b.wb.Cancel()
	if err = errors.Join(err, db.Close()); err != nil {
		return out, fmt.Errorf("rebuild: %w", err)
	}
	// Opening gives the archive an id; then the pages are told.
	a, err := Open(ctx, cfg)
	if err != nil {
		return out, fmt.Errorf("rebuild: %w", err)
	}
	return out, errors.Join(a.tellCreated(b.pages), a.Close())
}

// rebuilder reads files in order. It holds the state of every page in memory: about 500 bytes each.
type rebuilder struct {
	fs      warc.FS
	dir     string
	out     *Rebuilt
	wb      *badger.WriteBatch
	pages   map[string]*pb.Page
	content map[string]*pb.Content // by payload digest
	state   pb.State
}

func (b *rebuilder) rebuild(ctx context.Context, names []string) error {
	for _, name := range names {
		n := fileNumber(name)
		if n == 0 {
			return fmt.Errorf("%s is not named as the archive's files are", name)
		}
		if err := b.file(ctx, name, n); err != nil {
			return err
		}
		b.out.Files++
		b.state.File = max(b.state.File, n)
	}
	for _, u := range sorted(b.pages) {
		p := b.pages[u]
		h := channel.URLHash(u)
		v, err := encode(p)
		if err != nil {
			return err
		}
		if err := errors.Join(b.wb.Set(key2(keyPage, 0, h), v), b.wb.Set(key1(keyOwner, h), make([]byte, 8))); err != nil {
			return err
		}
	}
	b.out.Pages = len(b.pages)
	return b.wb.Flush()
}

// fileNumber reads the number at the end of a file's name; 0: there is none.
func fileNumber(name string) uint32 {
	s := strings.TrimSuffix(name, ".warc.gz")
	n, err := strconv.ParseUint(s[strings.LastIndexByte(s, '-')+1:], 10, 32)
	if err != nil {
		return 0
	}
	return uint32(n)
}

// fileTime reads the time in a file's name; zero: there is none.
func fileTime(name string) time.Time {
	parts := strings.Split(name, "-")
	t, err := time.Parse("20060102150405", parts[max(len(parts)-2, 0)])
	if err != nil {
		return time.Time{}
	}
	return t
}

func (b *rebuilder) file(ctx context.Context, name string, n uint32) error {
	in, err := b.fs.Open(filepath.Join(b.dir, name), false)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }() // it was only read
	size, err := in.Size()
	if err != nil {
		return err
	}
	f := &pb.File{Name: name, Sealed: true, CreatedUs: micros(fileTime(name))}
	from := int64(0)
	for from < size {
		s := warc.NewScanner(io.NewSectionReader(in, from, size-from))
		var last *warc.Read
		var begin int64
		take := func(end int64) error {
			if last == nil {
				return nil
			}
			f.Records++
			f.Length = uint64(from + end)
			return b.record(last, &pb.Location{File: n, Offset: uint64(from + begin), Length: uint32(end - begin)})
		}
		for s.Scan() {
			if err := errors.Join(take(s.Offset()), ctx.Err()); err != nil {
				return err
			}
			last, begin = s.Record(), s.Offset()
		}
		if err := take(s.Offset()); err != nil {
			return err
		}
		if s.Err() == nil {
			break
		}
		b.out.Damaged++
		if from, err = nextMember(in, from+s.Offset()+1, size); err != nil {
			return err
		}
		if from < 0 {
			break
		}
	}
	if f.Length < uint64(size) { // what lies beyond cannot be read, or was never acknowledged
		if err := os.Truncate(name, int64(f.Length)); err != nil {
			return err
		}
	}
	v, err := encode(f)
	if err != nil {
		return err
	}
	return b.wb.Set(keyOfFile(n), v)
}

// record indexes one record.
func (b *rebuilder) record(r *warc.Read, at *pb.Location) error {
	kind, url := r.Field("WARC-Type"), r.Field("WARC-Target-URI")
	if kind != warc.Response && kind != warc.Revisit {
		return nil
	}
	when, err := time.Parse(time.RFC3339Nano, r.Field("WARC-Date"))
	if err != nil || damage(r) != "" {
		b.out.Damaged++
		return nil
	}
	header, body := r.HTTP()
	sha := r.Field("WARC-Payload-Digest")
	sum, err := warc.ParseDigest(sha)
	if err != nil {
		b.out.Damaged++
		return nil
	}
	status := statusOf(header)
	m := &pb.Capture{At: at, Status: uint32(status), Sha256: sum, Mime: mediaType(header), Revisit: kind == warc.Revisit}
	c := b.content[sha]
	switch {
	case m.Revisit && c == nil:
		return nil // what it refers to is lost
	case m.Revisit:
		m.Original = c.At
	default:
		c = &pb.Content{At: at, Url: url, DateUs: when.UnixMicro(), Id: parseID(r.Field("WARC-Record-ID"))}
		b.content[sha] = c
		if len(body) >= minDedup {
			v, err := encode(c)
			if err != nil {
				return err
			}
			if err := b.wb.Set(keyOfContent([32]byte(sum)), v); err != nil {
				return err
			}
		}
	}
	b.out.Captures++
	p := b.pages[url]
	if p == nil {
		p = &pb.Page{Url: url, FirstUs: when.UnixMicro(), ChangedUs: when.UnixMicro()}
		b.pages[url] = p
	}
	p.FetchedUs, p.Status, p.Gone = when.UnixMicro(), m.Status, status < 200 || status > 299 && status != 304
	p.Visits++
	p.Content, p.Sha256 = c, sum // the digest is not known: the next crawl fetches it in full
	if m.Mime != "" {
		p.Mime = m.Mime
	}
	v, err := encode(m)
	if err != nil {
		return err
	}
	return b.wb.Set(keyOfCapture(url, when), v)
}

// statusOf reads the status in an HTTP header.
func statusOf(header []byte) int {
	f := strings.Fields(string(header[:min(len(header), 64)]))
	if len(f) < 2 {
		return 0
	}
	n, err := strconv.Atoi(f[1])
	if err != nil || n < 0 || n > 999 {
		return 0
	}
	return n
}

// parseID reads what warc.ID.String writes; nil: it is none.
func parseID(s string) []byte {
	hex := strings.ReplaceAll(strings.TrimSuffix(strings.TrimPrefix(s, "<urn:uuid:"), ">"), "-", "")
	out := make([]byte, 0, 16)
	for n := 0; n+2 <= len(hex); n += 2 {
		v, err := strconv.ParseUint(hex[n:n+2], 16, 8)
		if err != nil {
			return nil
		}
		out = append(out, byte(v))
	}
	if len(out) != 16 {
		return nil
	}
	return out
}

// tellCreated tells indexers of every page that there is.
func (a *Archive) tellCreated(pages map[string]*pb.Page) error {
	j := &job{}
	now := micros(a.cfg.Clock())
	for _, u := range sorted(pages) {
		p := pages[u]
		if p.Gone {
			continue
		}
		j.entries = append(j.entries, &pb.Entry{WhenUs: now, Page: &pb.PageEvent{
			Url: u, Event: uint32(Created), FetchedUs: p.FetchedUs, Status: p.Status, Mime: p.Mime, At: p.Content.At,
		}})
		if len(j.entries) == upkeepBatch {
			if err := a.commit(j); err != nil {
				return err
			}
			j = &job{}
		}
	}
	return a.commit(j)
}
