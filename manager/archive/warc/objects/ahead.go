package objects

import (
	"bytes"
	"context"
	"io"
	"sync"
)

// Who reads record after record, as exports and the extraction of text do, would pay a request for each. So what is read behind the record before is
// read ahead, a stretch at a time. Objects never change, so what was read stays true.

const (
	aheadBytes   = 1 << 20
	aheadReaders = 4 // that are told apart
)

// ahead remembers where a few readers are. Its zero value is ready. It is safe for concurrent use.
type ahead struct {
	mu      sync.Mutex
	clock   int
	readers [aheadReaders]reader
}

// reader is one that reads on in an object.
type reader struct {
	name string
	end  int64 // of what it read last
	at   int64 // of held
	held []byte
	used int // by the clock
}

// get reads length bytes of an object that is size bytes long.
func (a *ahead) get(ctx context.Context, from Bucket, name string, size, at, length int64) (io.ReadCloser, error) {
	held, follows := a.find(name, at, length)
	if held != nil {
		return io.NopCloser(bytes.NewReader(held)), nil
	}
	n := min(aheadBytes, size-at)
	if !follows || length >= n {
		return from.Get(ctx, name, at, length)
	}
	in, err := from.Get(ctx, name, at, n)
	if err != nil {
		return nil, err
	}
	stretch, err := io.ReadAll(in)
	if cerr := in.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return nil, err
	}
	a.keep(name, at, length, stretch)
	return io.NopCloser(bytes.NewReader(stretch[:min(length, int64(len(stretch)))])), nil
}

// find gives what is held, and otherwise whether this goes on behind what was read before.
func (a *ahead) find(name string, at, length int64) (held []byte, follows bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.clock++
	oldest := &a.readers[0]
	for i := range a.readers {
		r := &a.readers[i]
		if r.name == name && at >= r.at && at+length <= r.at+int64(len(r.held)) {
			r.end, r.used = at+length, a.clock
			return r.held[at-r.at : at-r.at+length], true
		}
		if r.name == name && at >= r.end && at < r.end+aheadBytes {
			r.used = a.clock
			r.end = at + length
			return nil, true
		}
		if r.used < oldest.used {
			oldest = r
		}
	}
	*oldest = reader{name: name, end: at + length, used: a.clock}
	return nil, false
}

// keep holds a stretch for the reader that has come to its beginning.
func (a *ahead) keep(name string, at, length int64, stretch []byte) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for i := range a.readers {
		if r := &a.readers[i]; r.name == name && r.end == at+length {
			r.at, r.held = at, stretch
			return
		}
	}
}
