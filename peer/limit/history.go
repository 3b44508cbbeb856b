package limit

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"sync"
	"time"
)

// Span is one of the times that a History covers.
type Span struct {
	Name   string
	Bucket time.Duration // what one number is the sum of
	N      int           // buckets
}

// Spans are the times that a History covers. Their sizes bound its memory and its file.
var Spans = []Span{{"hour", 20 * time.Second, 180}, {"day", 5 * time.Minute, 288}, {"month", 2 * time.Hour, 372}}

// Flow is what was received, sent and fetched in a time.
type Flow struct{ Down, Up, Pages int64 }

// Past is the history of one span, the oldest first.
type Past struct {
	Span    string    `json:"span"`
	BucketS float64   `json:"bucket_s"` // seconds that each number is the sum of
	From    time.Time `json:"from"`     // begin of the first
	Since   time.Time `json:"since"`    // nothing was recorded before
	Down    []int64   `json:"down_bytes"`
	Up      []int64   `json:"up_bytes"`
	Pages   []int64   `json:"pages"`
}

// History keeps what was received, sent and fetched over an hour, a day and a month, in sums of fixed times. It is bounded, and its file
// outlives the process: a process that is killed loses what came after the last Save. It is safe for concurrent use.
type History struct {
	path string

	mu      sync.Mutex
	since   int64    // Unix seconds
	rings   [][]cell // by Spans
	changed bool

	saving sync.Mutex
}

// cell is one bucket; at is its number since 1970, so that an old one is known as such.
type cell struct {
	at int64
	Flow
}

// OpenHistory reads the file, or begins anew if there is none or it cannot be read.
func OpenHistory(path string, now time.Time) (*History, error) {
	h := &History{path: path, since: now.Unix()}
	for _, s := range Spans {
		h.rings = append(h.rings, make([]cell, s.N))
	}
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return h, nil
	}
	if err != nil {
		return nil, fmt.Errorf("limit: history: %w", err)
	}
	h.decode(b)
	return h, nil
}

// Add counts what came at a moment.
func (h *History) Add(now time.Time, f Flow) {
	if f == (Flow{}) {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for i, s := range Spans {
		at := now.Unix() / int64(s.Bucket/time.Second)
		c := &h.rings[i][at%int64(s.N)]
		if c.at != at {
			*c = cell{at: at}
		}
		c.Down += f.Down
		c.Up += f.Up
		c.Pages += f.Pages
	}
	h.changed = true
}

// Past returns the history of a span; ok tells whether there is such a span. Times of which nothing is known have zeros.
func (h *History) Past(span string, now time.Time) (p Past, ok bool) {
	for i, s := range Spans {
		if s.Name != span {
			continue
		}
		h.mu.Lock()
		defer h.mu.Unlock()
		width := int64(s.Bucket / time.Second)
		first := now.Unix()/width - int64(s.N) + 1
		p = Past{Span: s.Name, BucketS: s.Bucket.Seconds(), From: time.Unix(first*width, 0).UTC(), Since: time.Unix(h.since, 0).UTC(),
			Down: make([]int64, s.N), Up: make([]int64, s.N), Pages: make([]int64, s.N)}
		for _, c := range h.rings[i] {
			if at := c.at - first; at >= 0 && at < int64(s.N) {
				p.Down[at], p.Up[at], p.Pages[at] = c.Down, c.Up, c.Pages
			}
		}
		return p, true
	}
	return p, false
}

const historyVersion = 1

// Save writes the file, if there is anything new.
func (h *History) Save() error {
	h.saving.Lock()
	defer h.saving.Unlock()
	h.mu.Lock()
	if !h.changed {
		h.mu.Unlock()
		return nil
	}
	b := h.encode()
	h.changed = false
	h.mu.Unlock()
	tmp := h.path + ".new"
	err := os.WriteFile(tmp, b, 0o600)
	if err == nil {
		err = os.Rename(tmp, h.path)
	}
	if err != nil {
		os.Remove(tmp)
		h.mu.Lock()
		h.changed = true
		h.mu.Unlock()
		return fmt.Errorf("limit: history: %w", err)
	}
	return nil
}

// encode writes version, since and the cells that hold something, as numbers of variable length; a checksum comes last.
func (h *History) encode() []byte {
	b := []byte{historyVersion}
	b = binary.AppendVarint(b, h.since)
	for _, ring := range h.rings {
		n := 0
		for _, c := range ring {
			if c.Flow != (Flow{}) {
				n++
			}
		}
		b = binary.AppendVarint(b, int64(n))
		for _, c := range ring {
			if c.Flow != (Flow{}) {
				for _, v := range []int64{c.at, c.Down, c.Up, c.Pages} {
					b = binary.AppendVarint(b, v)
				}
			}
		}
	}
	return binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b))
}

// decode reads what encode wrote. What is damaged is dropped: a history is no reason not to start.
func (h *History) decode(b []byte) {
	if len(b) < 5 || b[0] != historyVersion || crc32.ChecksumIEEE(b[:len(b)-4]) != binary.BigEndian.Uint32(b[len(b)-4:]) {
		return
	}
	b = b[1 : len(b)-4]
	next := func() int64 {
		v, n := binary.Varint(b)
		if n <= 0 {
			b = nil
			return 0
		}
		b = b[n:]
		return v
	}
	h.since = next()
	for i := range h.rings {
		for n := next(); n > 0 && len(b) > 0; n-- {
			c := cell{at: next(), Flow: Flow{next(), next(), next()}}
			if c.at >= 0 {
				h.rings[i][c.at%int64(len(h.rings[i]))] = c
			}
		}
	}
}
