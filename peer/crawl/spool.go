package crawl

import (
	"context"
	"time"

	"shoal/channel"
)

// More bounds of a checkpoint, well under those of a chunk.
const (
	chunkPages    = 4000
	chunkLinks    = 200_000
	chunkFrontier = channel.MaxFrontierPart - channel.MaxPageLinks
)

// spool gathers what the next checkpoint will hold, and puts one while the crawl goes on: never more than two checkpoints are in memory.
// The session owns it but for the goroutine of the put that is under way.
type spool struct {
	ctx   context.Context
	sink  Sink
	every time.Duration

	body  channel.ChunkBody
	bytes int // of pages and to-do list
	links int
	since time.Time // of the oldest page in body; zero: none

	putting bool
	result  chan error
}

func newSpool(ctx context.Context, cfg *Config) *spool {
	every := cfg.Checkpoint
	if every <= 0 {
		every = Checkpoint
	}
	return &spool{ctx: ctx, sink: cfg.Sink, every: every, result: make(chan error, 1)}
}

// page takes a page.
func (s *spool) page(p channel.Page) {
	if s.since.IsZero() {
		s.since = time.Now()
	}
	s.body.Pages = append(s.body.Pages, p)
	s.bytes += len(p.Body) + len(p.Header) + len(p.URL) + 200
	for _, l := range p.Links {
		s.bytes += len(l)
	}
	s.links += len(p.Links)
}

// found takes a URL that has come onto the to-do list.
func (s *spool) found(it item) {
	s.body.Frontier = append(s.body.Frontier, channel.Frontier{URL: it.url, Depth: it.depth})
	s.bytes += len(it.url) + 8
}

// full tells whether it is time for a checkpoint.
func (s *spool) full() bool {
	return s.bytes >= ChunkBytes || len(s.body.Pages) >= chunkPages || s.links >= chunkLinks || len(s.body.Frontier) >= chunkFrontier ||
		!s.since.IsZero() && time.Since(s.since) >= s.every
}

// due is when a checkpoint is needed though nothing more comes; a long time if there is nothing to put.
func (s *spool) due() time.Duration {
	if s.since.IsZero() {
		return time.Hour
	}
	return max(s.every-time.Since(s.since), 0)
}

// checkpoint begins to put what is there; it first waits for the one before.
func (s *spool) checkpoint(report *channel.Report) error {
	if err := s.wait(); err != nil {
		return err
	}
	if len(s.body.Pages) == 0 && len(s.body.Frontier) == 0 && report == nil {
		return nil
	}
	b := s.body
	b.Report = report
	b.Frontier = pending(b)
	s.body, s.bytes, s.links, s.since = channel.ChunkBody{}, 0, 0, time.Time{}
	s.putting = true
	go func() { s.result <- s.sink.Put(s.ctx, b) }()
	return nil
}

// pending leaves out of a checkpoint's frontier what it holds as fetched already.
func pending(b channel.ChunkBody) []channel.Frontier {
	fetched := make(map[string]struct{}, len(b.Pages))
	for i := range b.Pages {
		fetched[b.Pages[i].URL] = struct{}{}
	}
	left := b.Frontier[:0]
	for _, f := range b.Frontier {
		if _, ok := fetched[f.URL]; !ok {
			left = append(left, f)
		}
	}
	return left
}

// wait ends when nothing is being put.
func (s *spool) wait() error {
	if !s.putting {
		return nil
	}
	err := <-s.result
	s.putting = false
	return err
}

// poll tells of a put that has failed, without waiting.
func (s *spool) poll() error {
	if !s.putting {
		return nil
	}
	select {
	case err := <-s.result:
		s.putting = false
		return err
	default:
		return nil
	}
}

// close waits for a put that is under way; what became of it, the crawl's end has told.
func (s *spool) close() { _ = s.wait() }
