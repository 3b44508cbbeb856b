package objects

import (
	"context"
	"errors"
	"fmt"
	"io"

	"shoal/manager/archive/bucket"
	"shoal/manager/archive/segment"
)

// Read implements segment.Store.
func (s *Store) Read(at segment.Location, most int64) (io.ReadCloser, error) {
	r := s.run(at.Segment)
	if r == nil {
		return nil, fmt.Errorf("%w: %d", segment.ErrNone, at.Segment)
	}
	from := int64(at.Offset)
	to := min(from+int64(at.Length)+most, int64(r.info.Length))
	c := &chained{s: s, ctx: context.Background, parts: r.parts, at: from, to: to}
	return c, c.open()
}

// chained reads on from part to part.
type chained struct {
	s      *Store
	ctx    func() context.Context
	parts  []part
	at, to int64 // in the segment
	in     io.ReadCloser
	until  int64 // where in's part ends
}

// open opens the part in which at lies.
func (c *chained) open() error {
	for _, p := range c.parts {
		if c.at < p.base || c.at >= p.base+p.length {
			continue
		}
		end := min(c.to, p.base+p.length)
		in, err := c.s.ahead.get(c.ctx(), c.s.cfg.Bucket, p.name, p.length, c.at-p.base, end-c.at)
		if errors.Is(err, bucket.ErrNoObject) {
			err = fmt.Errorf("%w: %w", segment.ErrNone, err)
		}
		if errors.Is(err, bucket.ErrRange) {
			err = fmt.Errorf("%w: %w", segment.ErrShort, err)
		}
		if err != nil {
			return err
		}
		c.in, c.until = in, end
		return nil
	}
	return fmt.Errorf("%w: nothing at %d", segment.ErrShort, c.at)
}

func (c *chained) Read(b []byte) (int, error) {
	for c.at < c.to {
		if c.in == nil {
			if err := c.open(); err != nil {
				return 0, err
			}
		}
		n, err := c.in.Read(b[:min(int64(len(b)), c.until-c.at)])
		c.at += int64(n)
		if c.at == c.until {
			err = errors.Join(c.in.Close())
			c.in = nil
		}
		if err == io.EOF { //nolint:errorlint // what wraps it is a connection that broke off
			err = fmt.Errorf("%w: an object ends %d bytes too early", segment.ErrShort, c.until-c.at)
		}
		if n > 0 || err != nil {
			return n, err
		}
	}
	return 0, io.EOF
}

func (c *chained) Close() error {
	if c.in == nil {
		return nil
	}
	return c.in.Close()
}

// Copy implements segment.Store.
func (s *Store) Copy(ctx context.Context, info segment.Info, w io.Writer) error {
	r, err := newRun(info)
	if err != nil {
		return err
	}
	c := &chained{s: s, ctx: func() context.Context { return ctx }, parts: r.parts, to: int64(info.Length)}
	n, err := io.Copy(w, c)
	if err = errors.Join(err, c.Close()); err != nil {
		return fmt.Errorf("copy %s: %d bytes short: %w", info.Name, int64(info.Length)-n, err)
	}
	return nil
}

// Scan implements segment.Store. Where a part is missing it finds no record, and goes on behind it.
func (s *Store) Scan(ctx context.Context, info segment.Info, do func(segment.Found) error) error {
	r, err := newRun(info)
	if err != nil {
		return err
	}
	if err := s.look(ctx, r, map[string]int64{}); err != nil {
		return err
	}
	if r.size() == 0 && info.Length > 0 {
		return do(segment.Found{At: segment.Location{Segment: info.ID}, Bad: fmt.Errorf("cannot be opened: %w", segment.ErrNone), End: true})
	}
	return segment.ScanBytes(ctx, &window{s: s, ctx: func() context.Context { return ctx }, parts: r.parts}, r.size(), info, do)
}

// windowBytes is how much is fetched at a time by who reads a segment from its beginning to its end.
const windowBytes = 8 << 20

// window reads a segment at any place, best one behind the other. What is lost is zeros.
type window struct {
	s     *Store
	ctx   func() context.Context
	parts []part
	at    int64 // of held
	held  []byte
}

func (w *window) ReadAt(b []byte, off int64) (int, error) {
	done := 0
	for done < len(b) {
		at := off + int64(done)
		if at < w.at || at >= w.at+int64(len(w.held)) {
			if err := w.fetch(at); err != nil {
				return done, err
			}
		}
		done += copy(b[done:], w.held[at-w.at:])
	}
	return done, nil
}

// fetch reads on from a place.
func (w *window) fetch(at int64) error {
	for _, p := range w.parts {
		if at < p.base || at >= p.base+p.length {
			continue
		}
		n := min(windowBytes, p.base+p.length-at)
		w.at, w.held = at, make([]byte, n)
		have := min(n, p.base+p.is-at)
		if have <= 0 {
			return nil
		}
		in, err := w.s.cfg.Bucket.Get(w.ctx(), p.name, at-p.base, have)
		if err != nil {
			return err
		}
		_, err = io.ReadFull(in, w.held[:have])
		return errors.Join(err, in.Close())
	}
	return io.EOF
}
