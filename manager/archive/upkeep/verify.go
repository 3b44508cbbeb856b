package upkeep

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"

	pb "shoal/manager/archive/archivepb"
	"shoal/manager/archive/ledger"
	"shoal/manager/archive/pages"
	"shoal/manager/archive/schema"
	"shoal/manager/archive/segment"
	"shoal/manager/archive/warc"
)

// Problem is one thing that is wrong.
type Problem struct {
	File   string `json:"file"`
	Offset int64  `json:"offset"` // zero: no place in it, or its beginning
	What   string `json:"what"`
}

func (p Problem) String() string {
	if p.Offset == 0 {
		return p.File + ": " + p.What
	}
	return fmt.Sprintf("%s at %d: %s", p.File, p.Offset, p.What)
}

// MaxProblems bounds those that are named.
const MaxProblems = 1000

// Verified is what verification found.
type Verified struct {
	Files    int       `json:"files"`
	Records  int       `json:"records"`
	Bytes    int64     `json:"bytes"`
	Captures int       `json:"captures"`
	Found    int       `json:"found"` // problems
	Problems []Problem `json:"problems"`

	whole records                     // that can be read
	upTo  map[uint32]segment.Info     // what was read of each segment
	short map[uint32]segment.Location // segments that end, or cannot be read, from there on
}

func (v *Verified) add(file string, off int64, format string, args ...any) {
	if v.Found++; len(v.Problems) < MaxProblems {
		v.Problems = append(v.Problems, Problem{file, off, fmt.Sprintf(format, args...)})
	}
}

// Verify reads every record of every segment, checks lengths, checksums and digests, and that the index points at records; and every byte of
// the ledger, and of what Config.Beside names. It changes nothing. progress, if not nil, is told the bytes done and all.
func (u *Upkeep) Verify(ctx context.Context, progress func(done, all int64)) (Verified, error) {
	release, err := u.turns.turn(ctx, verification)
	if err != nil {
		return Verified{}, err
	}
	defer release()
	v, err := u.verify(ctx, progress)
	if err != nil {
		return v, err
	}
	return v, u.verifyState(ctx, &v)
}

// verifyState looks at the databases.
func (u *Upkeep) verifyState(ctx context.Context, v *Verified) error {
	u.turns.step("reading the databases", 0)
	switch err := u.Scrub(ctx); {
	case err != nil && u.ledger.Damage() == nil:
		return fmt.Errorf("verify the database: %w", err)
	case err != nil:
		v.add("state", 0, "%s", strings.TrimPrefix(err.Error(), ledger.ErrStorage.Error()+": "))
	}
	if u.cfg.Beside == nil {
		return nil
	}
	more, err := u.cfg.Beside(ctx)
	if err != nil {
		return fmt.Errorf("verify: %w", err)
	}
	for _, p := range more {
		v.add(p.File, p.Offset, "%s", p.What)
	}
	return nil
}

// verify looks at segments and index.
func (u *Upkeep) verify(ctx context.Context, progress func(done, all int64)) (Verified, error) {
	v := Verified{Problems: []Problem{}, whole: records{}, short: map[uint32]segment.Location{}, upTo: map[uint32]segment.Info{}}
	all, err := u.ledger.Segments(ctx)
	if err != nil {
		return v, fmt.Errorf("verify: %w", err)
	}
	size := lengths(all)
	u.turns.step("reading files", size)
	for _, s := range all {
		v.upTo[s.ID] = s
		if err := u.segments.Scan(ctx, s, func(f segment.Found) error { return u.verifyRecord(s, f, &v) }); err != nil {
			return v, fmt.Errorf("verify %s: %w", s.Name, err)
		}
		v.Files++
		v.Bytes += int64(s.Length)
		u.turns.did(int64(s.Length))
		u.turns.yield()
		if progress != nil {
			progress(v.Bytes, size)
		}
	}
	u.turns.step("reading the index", 0)
	return v, u.verifyIndex(ctx, &v)
}

// verifyRecord notes what is at one place of a segment.
func (u *Upkeep) verifyRecord(s segment.Info, f segment.Found, v *Verified) error {
	what := ""
	switch {
	case f.Bad != nil:
		what = f.Bad.Error()
	case f.Record != nil:
		v.Records++
		if what = damage(f.Record); what == "" {
			v.whole.add(f.At)
		}
	}
	if what != "" {
		v.add(s.Name, u.segments.Place(f.At).Offset, "%s", what)
	}
	if f.End {
		v.short[s.ID] = f.At
	}
	return nil
}

// damage says what is wrong with a record that could be read.
func damage(r *warc.Read) string {
	if r.Field("WARC-Type") != warc.Response {
		return ""
	}
	_, payload := r.HTTP()
	want, err := warc.ParseDigest(r.Field("WARC-Payload-Digest"))
	if got := sha256.Sum256(payload); err != nil || !bytes.Equal(got[:], want) {
		return fmt.Sprintf("%s: payload does not match its digest", r.Field("WARC-Target-URI"))
	}
	return ""
}

// verifyIndex looks whether what the index names is there.
func (u *Upkeep) verifyIndex(ctx context.Context, v *Verified) error {
	return u.ledger.View(func(snap ledger.Snapshot) error {
		m := new(pb.Capture)
		return snap.Scan([]byte{schema.Capture}, nil, true, func(key, value []byte) (bool, error) {
			m.Reset()
			if err := schema.Decode(value, m); err != nil {
				return false, err
			}
			v.Captures++
			what, err := u.lost(snap, m, v)
			if what != "" {
				_, at, _ := schema.CaptureOf(key)
				v.add("index", 0, "%s of %s: %s", pages.URLOfCapture(key), at.Format("2006-01-02 15:04:05"), what)
			}
			return true, firstOf(err, ctx.Err())
		})
	})
}

// lost says which record of a capture cannot be read.
func (u *Upkeep) lost(snap ledger.Snapshot, m *pb.Capture, v *Verified) (string, error) {
	for _, stored := range []*pb.Location{m.At, m.Original} {
		if stored == nil {
			continue
		}
		at, err := u.pages.Locate(snap, schema.Location(stored))
		if errors.Is(err, pages.ErrNotFound) {
			return err.Error(), nil
		}
		if err != nil {
			return "", err
		}
		if v.whole.has(at) {
			continue
		}
		since, err := writtenSince(snap, at, v)
		if err != nil {
			return "", err
		}
		if !since {
			place := u.segments.Place(at)
			return fmt.Sprintf("no whole record in %s at %d", place.Name, place.Offset), nil
		}
	}
	return "", nil
}

// writtenSince tells whether a record came after its segment was read: the segment has grown, or is a new one.
func writtenSince(snap ledger.Snapshot, at segment.Location, v *Verified) (bool, error) {
	was, read := v.upTo[at.Segment]
	key := schema.SegmentKey(schema.Segment, at.Segment)
	grown := false
	_, err := snap.Get(key, func(value []byte) error {
		now, err := schema.DecodeSegment(key, value)
		grown = !read || now.Length > was.Length && at.Offset >= was.Length
		return err
	})
	return grown, err
}
