package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"shoal/channel/listing"
	"shoal/internal/plain"
	"shoal/manager/api"
)

// importList sends a list and tells what became of it. named, if not nil, are what the lines are called.
func importList(ctx context.Context, a *api.Client, s streams, r io.Reader, f listing.Format, name string, named []string) error {
	q := url.Values{}
	if f != "" {
		q.Set("format", string(f))
	}
	if name != "" {
		q.Set("name", name)
	}
	var out api.Imported
	if err := a.Do(ctx, http.MethodPost, "/channels/import", q, r, &out); err != nil {
		if named != nil {
			err = ofSite(err, named)
		}
		return err
	}
	if out.Added+out.Duplicates == 0 {
		_, err := fmt.Fprintln(s.out, "added 0 channels: the list names none")
		return err
	}
	fmt.Fprintf(s.out, "added %s", plain.Count(out.Added, "channel"))
	if out.Duplicates > 0 {
		fmt.Fprintf(s.out, ", left out %d that are there already", out.Duplicates)
	}
	fmt.Fprintln(s.out)
	for _, n := range out.New {
		if n.Line-1 < len(named) {
			fmt.Fprintf(s.out, "channel %d  %s\n", n.Channel, plain.Printable(withoutPassword(named[n.Line-1])))
		}
	}
	if more := out.Added - len(out.New); named != nil && more > 0 {
		fmt.Fprintf(s.out, "and %d more: shoal channel list shows them\n", more)
	}
	if out.Blocked > 0 {
		fmt.Fprintf(s.err, "%d of them are on blocked hosts and wait until those are unblocked: shoal host list --blocked\n", out.Blocked)
	}
	for i, d := range out.Refused {
		if i == 20 {
			fmt.Fprintf(s.err, "and %d more\n", out.Duplicates-20)
			break
		}
		what := fmt.Sprintf("line %d", d.Line)
		if d.Line-1 < len(named) {
			what = plain.Printable(named[d.Line-1])
		}
		fmt.Fprintf(s.err, "%s: is channel %d already\n", what, d.Channel)
	}
	return nil
}

type channelImportCmd struct {
	target
	File   string `arg:"" help:"The list; - for standard input." placeholder:"FILE"`
	Format string `help:"csv, jsonl, list, sitemap or opml; by default guessed." enum:",csv,jsonl,list,sitemap,opml" default:"" placeholder:"NAME"`
}

func (c *channelImportCmd) Run(ctx context.Context, s streams) error {
	in, size, name := io.Reader(os.Stdin), int64(0), ""
	if c.File == "" {
		return errors.New("name the file of the list, or - for standard input")
	}
	if c.File != "-" {
		f, err := os.Open(c.File)
		if err != nil {
			return fmt.Errorf("read the list: %w", err)
		}
		defer f.Close() // nothing was written
		info, err := f.Stat()
		if err != nil {
			return fmt.Errorf("read the list: %w", err)
		}
		if info.IsDir() {
			return fmt.Errorf("%s is a folder: name the file of the list, or - for standard input", c.File)
		}
		in, size, name = f, info.Size(), filepath.Base(c.File)
	}
	if isTerminal(s.err) {
		p := &progress{r: in, all: size, w: s.err, began: time.Now()}
		defer p.end()
		in = p
	}
	whole := &toEnd{r: in}
	err := c.with(ctx, false, func(a *api.Client) error {
		return importList(ctx, a, s, whole, listing.Format(c.Format), name, nil)
	})
	switch {
	case err == nil || ctx.Err() == nil:
		return err
	case whole.ended.Load():
		return errors.New("aborted when the list was read and its channels were being written: shoal channel list says whether they are there; all are, or none")
	}
	return errors.New("aborted: nothing was imported")
}

// toEnd notes whether all was read.
type toEnd struct {
	r     io.Reader
	ended atomic.Bool
}

func (t *toEnd) Read(b []byte) (int, error) {
	n, err := t.r.Read(b)
	if errors.Is(err, io.EOF) {
		t.ended.Store(true)
	}
	return n, err
}

// progress shows how much was read.
type progress struct {
	r           io.Reader
	all, n      int64
	w           io.Writer
	began, last time.Time

	mu    sync.Mutex // with a running manager another goroutine reads, perhaps still when the answer has come
	ended bool
}

const progressEvery = 100 * time.Millisecond

func (p *progress) Read(b []byte) (int, error) {
	n, err := p.r.Read(b)
	if err != nil {
		defer p.end() // what is said next begins on a line of its own
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.n += int64(n)
	if now := time.Now(); now.Sub(p.last) >= progressEvery && !p.ended {
		p.last = now
		p.show(now)
	}
	return n, err
}

func (p *progress) show(now time.Time) {
	if p.all <= 0 {
		fmt.Fprintf(p.w, "\r%.1f MB", float64(p.n)/1e6)
		return
	}
	const width = 40
	share := min(float64(p.n)/float64(p.all), 1)
	bar := strings.Repeat("=", int(share*width)) + strings.Repeat(" ", width-int(share*width))
	left := ""
	if share > .02 && share < 1 {
		left = (time.Duration(float64(now.Sub(p.began)) * (1 - share) / share)).Round(time.Second).String() + " left"
	}
	fmt.Fprintf(p.w, "\r[%s] %3.0f%% %-12s", bar, 100*share, left)
}

func (p *progress) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended {
		return
	}
	p.ended = true
	p.show(time.Now())
	fmt.Fprintln(p.w)
}
