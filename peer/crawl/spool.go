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
	chunkFrontier = channel.MaxFrontierPart - 2*newsMost
	newsMost      = 1000 // URLs found that wait for the next record
)

// spool keeps what was fetched in files until the archive has it: each part of it is one checkpoint. A crawl that is killed finds it
// when it runs again in the same folder. One part is put at a time while the crawl goes on; when the archive is slow they wait on disk,
// up to a bound, and then the crawl waits.
//
// The session owns it but for the goroutine of the put that is under way.
type spool struct {
	ctx   context.Context
	sink  Sink
	every time.Duration
	most  int64 // bytes on disk
	parts parts

	open    *part   // that pages go to; nil: there is none
	closed  []*part // to be put, oldest first
	news    []channel.Frontier
	bytes   int64 // of all parts
	record  []byte
	held    int  // parts that wait for the report
	putting bool // the first of closed
	result  chan error
}

func newSpool(ctx context.Context, cfg *Config) *spool {
	every := cfg.Checkpoint
	if every <= 0 {
		every = Checkpoint
	}
	return &spool{ctx: ctx, sink: cfg.Sink, every: every, most: cfg.spoolBytes(), parts: partsOf(cfg.Spool, cfg.Header), result: make(chan error, 1)}
}

// page takes a page. It keeps nothing of p.
func (s *spool) page(p *channel.Page) error {
	return s.write(channel.ChunkBody{Pages: []channel.Page{*p}}, len(p.Links))
}

// found takes a URL that has come onto the to-do list. It goes to disk with the page that is worked on.
func (s *spool) found(it item) error {
	s.news = append(s.news, channel.Frontier{URL: it.url, Depth: it.depth})
	if len(s.news) < newsMost {
		return nil
	}
	if err := s.write(channel.ChunkBody{}, 0); err != nil || !s.full() {
		return err
	}
	return s.checkpoint()
}

func (s *spool) write(b channel.ChunkBody, links int) (err error) {
	if s.open == nil {
		if s.open, err = s.parts.create(); err != nil {
			return err
		}
	}
	b.Frontier = s.news
	s.record = b.Append(s.record[:0])
	n, err := s.open.add(s.record)
	if err != nil {
		return err
	}
	s.open.pages += len(b.Pages)
	s.open.found += len(s.news)
	s.open.links += links
	s.bytes += n
	clear(s.news)
	s.news = s.news[:0]
	if cap(s.record) > 512<<10 { // a big page does not keep its memory
		s.record = nil
	}
	return nil
}

// full tells whether it is time for a checkpoint.
func (s *spool) full() bool {
	p := s.open
	return p != nil && (p.bytes >= ChunkBytes || p.pages >= chunkPages || p.links >= chunkLinks || p.found >= chunkFrontier || p.pages > 0 && time.Since(p.since) >= s.every)
}

// due is when a checkpoint, or a flush, is needed though nothing more comes; a long time if there is nothing to put.
func (s *spool) due() time.Duration {
	if s.open == nil {
		return time.Hour
	}
	d := max(s.every-time.Since(s.open.since), 0)
	if s.open.w.Buffered() > 0 {
		d = min(d, flushEvery)
	}
	return d
}

// flush brings to disk what is still in memory.
func (s *spool) flush() error {
	if s.open == nil {
		return nil
	}
	return s.open.flush(time.Now())
}

// checkpoint begins to put what is there. It waits only when too much waits already.
func (s *spool) checkpoint() error {
	if err := s.cut(); err != nil {
		return err
	}
	s.put(nil)
	for s.bytes > s.most && s.putting {
		if err := s.stored(<-s.result); err != nil {
			return err
		}
	}
	return nil
}

// cut ends the open part.
func (s *spool) cut() error {
	if len(s.news) > 0 {
		if err := s.write(channel.ChunkBody{}, 0); err != nil {
			return err
		}
	}
	if s.open == nil {
		return nil
	}
	p := s.open
	s.open = nil
	s.closed = append(s.closed, p)
	return p.close()
}

// finish puts all that is left, with the report in the last chunk if there is one.
func (s *spool) finish(report *channel.Report) error {
	if report != nil {
		s.held = 1
	}
	if err := s.cut(); err != nil {
		return err
	}
	for s.put(nil); s.putting; {
		if err := s.stored(<-s.result); err != nil {
			return err
		}
	}
	if report == nil {
		return nil
	}
	s.put(report)
	return s.stored(<-s.result)
}

// put begins to put the oldest part if none is under way, and with it the report if there is one.
func (s *spool) put(report *channel.Report) {
	if s.putting || len(s.closed) <= s.held && report == nil {
		return
	}
	var p *part
	if len(s.closed) > 0 {
		p = s.closed[0]
	}
	s.putting = true
	go func() {
		buf, _ := raws.Get().(*[]byte)
		defer raws.Put(buf)
		var err error
		*buf = (*buf)[:0]
		if p != nil {
			*buf, err = p.read(*buf)
		}
		if err == nil {
			if report != nil {
				*buf = (&channel.ChunkBody{Report: report}).Append(*buf)
			}
			err = s.sink.Put(s.ctx, *buf, report != nil)
		}
		s.result <- err
	}()
}

// stored takes the outcome of a put, and begins the next.
func (s *spool) stored(err error) error {
	s.putting = false
	if err != nil {
		return err
	}
	if len(s.closed) > 0 {
		s.bytes -= s.closed[0].bytes
		s.closed[0].remove()
		s.closed[0] = nil
		s.closed = s.closed[1:]
	}
	s.put(nil)
	return nil
}

// poll tells of a put that has failed, without waiting.
func (s *spool) poll() error {
	if !s.putting {
		return nil
	}
	select {
	case err := <-s.result:
		return s.stored(err)
	default:
		return nil
	}
}

// close waits for a put that is under way; what became of it, the crawl's end has told. Files remain only if they are to be kept, for
// the same task when it runs again.
func (s *spool) close(keep bool) {
	if s.putting {
		<-s.result
		s.putting = false
	}
	if s.open != nil {
		_ = s.open.close() // what cannot be written now is fetched again
	}
	if !keep {
		s.parts.remove()
	}
}

// load gives what an earlier run of this task left, record by record, and queues it. What the archive has already goes.
func (s *spool) load(done func(url uint64) bool, each func(b *channel.ChunkBody)) error {
	s.parts.removeOthers()
	old, err := s.parts.list()
	if err != nil {
		return err
	}
	var buf []byte
	for _, p := range old {
		archived := false
		var list []channel.ChunkBody
		if buf, err = p.load(buf); err != nil {
			return err
		}
		p.bytes = records(buf, func(record []byte) {
			b, err := channel.ParseChunkBody(record)
			if err != nil || b.Report != nil {
				return
			}
			for i := range b.Pages {
				archived = archived || done(channel.URLHash(b.Pages[i].URL))
				b.Pages[i].Body, b.Pages[i].Header, b.Pages[i].Links = nil, nil, nil
			}
			list = append(list, b)
		})
		if archived || len(list) == 0 { // a part is stored as a whole, or not at all
			p.remove()
			continue
		}
		s.closed = append(s.closed, p)
		s.bytes += p.bytes
		for i := range list {
			each(&list[i])
		}
	}
	s.put(nil)
	return nil
}
