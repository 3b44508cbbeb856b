package crawl

import (
	"errors"
	"slices"
	"sync"
	"time"

	"shoal/channel"
)

// More bounds of a checkpoint, well under those of a chunk.
const (
	chunkPages    = 4000
	chunkLinks    = 200_000
	chunkFrontier = channel.MaxFrontierPart - 2*foundMost
	foundMost     = 1000 // URLs that wait for the next record
)

// spool keeps fetched pages in files until the archive has them. Each file is a part, and each part is one checkpoint. After a crash the same
// task finds them again in its folder. The crawl goes on while one part is being put. If the archive is slow, parts wait on disk up to a
// bound, and then the crawl waits. Pages that the disk does not take wait in memory, and the crawl waits with them.
//
// The session, the keeper of checkpoints and the goroutine of the present put share it: mu guards the fields below it.
type spool struct {
	sink   func(body []byte, last bool) error // Config.Sink
	every  time.Duration
	most   int64         // bytes on disk
	news   chan struct{} // tend has something to do
	broken chan struct{} // closed when err is set
	onDisk func(error)

	mu      sync.Mutex
	turn    sync.Cond // signalled when a put ends
	parts   parts
	open    *part   // pages go there; nil: none
	closed  []*part // parts to put, oldest first
	found   []channel.Frontier
	bytes   int64 // of all parts
	record  []byte
	held    int   // parts that are put with the report
	putting bool  // the first of closed is being put
	tended  bool  // tend will look after what the open part has in memory
	err     error // why a put failed
	lost    error // why the disk has lost fetched pages
}

func newSpool(cfg *Config, sink func(body []byte, last bool) error) *spool {
	every := cfg.Checkpoint
	if every <= 0 {
		every = Checkpoint
	}
	s := &spool{sink: sink, every: every, most: cfg.spoolBytes(), parts: partsOf(cfg.Spool, cfg.Header),
		news: make(chan struct{}, 1), broken: make(chan struct{})}
	s.turn.L = &s.mu
	s.parts.files = cfg.disk()
	if s.onDisk = cfg.OnDisk; s.onDisk == nil {
		s.onDisk = func(error) {}
	}
	return s
}

// page adds a page. It keeps no reference to it.
func (s *spool) page(p *channel.Page) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.write(channel.ChunkBody{Pages: []channel.Page{*p}}, len(p.Links))
	return s.err
}

// add adds a URL that has come onto the to-do list. It goes to disk with the current page.
func (s *spool) add(it item) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.found = append(s.found, channel.Frontier{URL: it.url, Depth: it.depth})
	if len(s.found) < foundMost {
		return nil
	}
	s.write(channel.ChunkBody{}, 0)
	if !s.isFull() {
		return s.err
	}
	return s.cutAndPut()
}

func (s *spool) write(b channel.ChunkBody, links int) {
	if s.open == nil {
		s.open = s.parts.create()
	}
	b.Frontier = s.found
	s.record = b.Append(s.record[:0])
	n := s.open.add(s.record)
	if s.open.err != nil {
		s.onDisk(s.open.err)
	}
	s.open.pages += len(b.Pages)
	s.open.found += len(s.found)
	s.open.links += links
	s.bytes += n
	clear(s.found)
	s.found = s.found[:0]
	if cap(s.record) > 512<<10 { // do not keep the memory of a big page
		s.record = nil
	}
	if !s.tended {
		s.tended = true
		select {
		case s.news <- struct{}{}:
		default: // a signal is pending
		}
	}
}

// trouble reports an error of the disk.
func (s *spool) trouble(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.onDisk(err)
}

// full reports whether it is time for a checkpoint.
func (s *spool) full() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.isFull()
}

func (s *spool) isFull() bool {
	p := s.open
	return p != nil && (p.err != nil || p.bytes >= ChunkBytes || p.pages >= chunkPages || p.links >= chunkLinks || p.found >= chunkFrontier || p.pages > 0 && time.Since(p.since) >= s.every)
}

// crowded reports whether a checkpoint would have to wait for others.
func (s *spool) crowded() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.bytes > s.most
}

// tend flushes and puts what is due even if no more pages come. It returns how long to wait before the next call.
func (s *spool) tend() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.open != nil && s.err == nil {
		due := s.every - time.Since(s.open.since)
		switch {
		case due <= 0, s.open.err != nil:
			if s.cutAndPut() != nil {
				return time.Hour // the session will see the error
			}
			continue
		case len(s.open.buf) == 0:
			s.tended = false // the next page is to wait in memory for flushEvery, and not until then
			return due
		}
		if flush := flushEvery - time.Since(s.open.flushed); flush > 0 {
			return min(due, flush)
		}
		if s.open.flush(time.Now()); s.open.err != nil {
			s.onDisk(s.open.err)
		}
	}
	s.tended = false
	return time.Hour
}

// checkpoint begins to put the open part. It blocks only if too many parts wait already.
func (s *spool) checkpoint() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cutAndPut()
}

func (s *spool) cutAndPut() error {
	s.cut()
	s.put(nil)
	for (s.bytes > s.most || s.inMemory()) && s.putting {
		s.turn.Wait()
	}
	return s.err
}

// inMemory reports whether a part waits in memory.
func (s *spool) inMemory() bool {
	return slices.ContainsFunc(s.closed, func(p *part) bool { return len(p.buf) > 0 })
}

// cut ends the open part.
func (s *spool) cut() {
	if len(s.found) > 0 {
		s.write(channel.ChunkBody{}, 0)
	}
	p := s.open
	if p == nil {
		return
	}
	s.open = nil
	s.closed = append(s.closed, p)
	if p.close(); p.err != nil {
		s.onDisk(p.err)
	}
}

// finish puts all parts, and the report in the last chunk if there is one. If fetched pages are lost it does not put the report and returns
// errDisk.
func (s *spool) finish(report *channel.Report) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.held = 0; report != nil {
		s.held = 1
	}
	s.cut()
	for s.put(nil); s.putting; {
		s.turn.Wait()
	}
	if report != nil && s.err == nil && s.lost == nil {
		for s.put(report); s.putting; {
			s.turn.Wait()
		}
	}
	if s.err == nil && report != nil {
		return s.lost
	}
	return s.err
}

// put begins to put the oldest part, and the report if there is one, unless a put is under way.
func (s *spool) put(report *channel.Report) {
	if s.putting || s.err != nil || len(s.closed) <= s.held && report == nil {
		return
	}
	var p *part
	if len(s.closed) > 0 {
		p = s.closed[0]
	}
	s.putting = true
	go func() {
		err := s.send(p, report)
		s.mu.Lock()
		defer s.mu.Unlock()
		s.stored(p, err)
		s.turn.Broadcast()
	}()
}

// send gives a part to the sink. It needs no lock, since a closed part does not change.
func (s *spool) send(p *part, report *channel.Report) (err error) {
	buf, _ := raws.Get().(*[]byte)
	defer raws.Put(buf)
	*buf = (*buf)[:0]
	if p != nil {
		if *buf, err = p.read(*buf); err != nil {
			return err
		}
	}
	if report != nil {
		*buf = (&channel.ChunkBody{Report: report}).Append(*buf)
	}
	return s.sink(*buf, report != nil)
}

// stored handles the outcome of a put and begins the next one.
func (s *spool) stored(p *part, err error) {
	s.putting = false
	if errors.Is(err, errDisk) { // this part is lost; the others may be fine
		s.lost = err
		s.onDisk(err)
	} else if err != nil {
		s.fail(err)
		return
	}
	if p != nil {
		s.bytes -= p.bytes
		p.remove()
		s.closed[0] = nil
		s.closed = s.closed[1:]
	}
	s.put(nil)
}

func (s *spool) fail(err error) {
	if s.err == nil {
		s.err = err
		close(s.broken)
	}
}

// failed returns the error of a failed put or a lost part. It does not wait.
func (s *spool) failed() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return s.err
	}
	return s.lost
}

// close waits for the present put. It removes the files unless keep is set: then the same task finds them when it runs again.
func (s *spool) close(keep bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held = len(s.closed) + 1 // nothing more is put
	for s.putting {
		s.turn.Wait()
	}
	if s.open != nil {
		s.open.close() // what cannot be written is fetched again
	}
	if !keep {
		s.parts.remove()
	}
}

// load reads the parts that an earlier run of this task left, gives each record, of a page's links those out of scope, and queues the parts. It removes those that the
// archive has.
func (s *spool) load(done func(url uint64) bool, inScope func(url string) bool, each func(b *channel.ChunkBody)) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.parts.removeOthers()
	old, err := s.parts.list()
	if err != nil {
		return err
	}
	var buf []byte
	for _, p := range old {
		archived := false
		var list []channel.ChunkBody
		if buf, err = p.load(buf); err != nil { // its pages are fetched again
			s.onDisk(err)
			p.remove()
			continue
		}
		p.bytes = records(buf, func(record []byte) {
			b, err := channel.ParseChunkBody(record)
			if err != nil || b.Report != nil {
				return
			}
			for i := range b.Pages {
				archived = archived || done(channel.URLHash(b.Pages[i].URL))
				b.Pages[i].Body, b.Pages[i].Header = nil, nil
				b.Pages[i].Links = slices.Clip(slices.DeleteFunc(b.Pages[i].Links, inScope))
			}
			list = append(list, b)
		})
		if archived || len(list) == 0 { // the archive has all of a part or nothing
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
