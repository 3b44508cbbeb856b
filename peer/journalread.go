package peer

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Want says which lines of the journal are wanted.
type Want struct {
	Newest int       // at most so many; 0: maxLogLines
	Match  string    // only lines whose URL, title or error contains it, in any case
	Site   string    // only fetches of this site; empty: all
	For    string    // only fetches for the network whose name begins so
	Since  time.Time // only fetches that began then or later; zero: all
	Until  time.Time // only fetches that began before; zero: all

	folded []byte // Match in lower case
}

// take decodes a line that is wanted. A line that was cut short is not.
func (w *Want) take(line []byte) (e Entry, ok bool) {
	if w.Match != "" {
		if w.folded == nil {
			w.folded = bytes.ToLower([]byte(w.Match))
		}
		// A quick look first: most lines do not have it. Letters beyond ASCII and marks that JSON escapes are compared when the line is decoded.
		if plainASCII(w.folded) && !bytes.Contains(bytes.ToLower(line), w.folded) {
			return e, false
		}
	}
	if json.Unmarshal(line, &e) != nil {
		return e, false
	}
	if w.Match != "" && !strings.Contains(strings.ToLower(e.URL), string(w.folded)) && !strings.Contains(strings.ToLower(e.Title), string(w.folded)) && !strings.Contains(e.Error, string(w.folded)) {
		return e, false
	}
	return e, !e.At.Before(w.Since) && (w.Until.IsZero() || e.At.Before(w.Until)) && (w.Site == "" || SiteOf(e.URL) == w.Site) && strings.HasPrefix(e.For, w.For)
}

// plainASCII reports whether JSON writes a text as it is.
func plainASCII(text []byte) bool {
	return !slices.ContainsFunc(text, func(c byte) bool {
		return c < ' ' || c > '~' || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&'
	})
}

// Log returns the newest entries that are wanted, in the order in which the fetches began. The files are in the order in which they ended.
func (j *Journal) Log(w Want) ([]Entry, error) {
	if w.Newest <= 0 || w.Newest > maxLogLines {
		w.Newest = maxLogLines
	}
	var found []Entry
	err := j.each(&w, func(e *Entry) bool {
		found = append(found, *e)
		return len(found) < w.Newest
	})
	if err != nil {
		return nil, err
	}
	slices.Reverse(found)
	slices.SortStableFunc(found, func(a, b Entry) int { return cmp.Compare(a.At.UnixNano(), b.At.UnixNano()) })
	return found, nil
}

// each calls f for the wanted lines, the newest first, until it returns false.
func (j *Journal) each(w *Want, f func(*Entry) bool) error {
	_ = j.Flush() // what is on disk can be read all the same
	files, err := j.files()
	if err != nil {
		return err
	}
	for _, name := range slices.Backward(files) {
		if day, _, _ := strings.Cut(filepath.Base(name), "."); !w.Since.IsZero() && len(day) >= len(time.DateOnly) && day[:len(time.DateOnly)] < w.Since.UTC().Format(time.DateOnly) {
			return nil // the files before are older yet
		}
		b, err := os.ReadFile(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue // put aside meanwhile, and read under its new name or gone with the oldest
		}
		if err != nil {
			return err
		}
		for b = bytes.TrimSuffix(b, []byte("\n")); len(b) > 0; {
			at := bytes.LastIndexByte(b, '\n')
			line := b[at+1:]
			b = b[:max(at, 0)]
			if e, ok := w.take(line); ok && !f(&e) {
				return nil
			}
		}
	}
	return nil
}

// followEvery is how often a follower looks for new lines.
const followEvery = 300 * time.Millisecond

// Tail is a place in the journal: its end when the tail was made.
type Tail struct {
	j    *Journal
	at   *os.File // nil: there was no file yet
	rest []byte   // of a line that is not whole yet
}

// Tail returns the present end.
func (j *Journal) Tail() (*Tail, error) {
	_ = j.Flush()
	at, err := j.newest(nil)
	if err != nil || at == nil {
		return &Tail{j: j}, err
	}
	if err := afterLastLine(at); err != nil {
		at.Close()
		return nil, err
	}
	return &Tail{j: j, at: at}, nil
}

// afterLastLine seeks to the end of the last whole line.
func afterLastLine(f *os.File) error {
	end, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	b := make([]byte, min(end, 64<<10))
	if _, err := f.ReadAt(b, end-int64(len(b))); err != nil && err != io.EOF {
		return err
	}
	_, err = f.Seek(end-int64(len(b))+int64(bytes.LastIndexByte(b, '\n')+1), io.SeekStart)
	return err
}

// Follow calls show for each wanted entry that is written behind the tail, until ctx ends or show fails. It follows to a new day's file.
// The tail is used up.
func (t *Tail) Follow(ctx context.Context, w Want, show func(Entry) error) error {
	defer func() {
		if t.at != nil {
			t.at.Close()
		}
	}()
	for {
		next, err := t.j.newest(t.at)
		if err != nil {
			return err
		}
		if err := t.drain(&w, show); err != nil { // of the old file, which is not written to once there is another
			if next != nil {
				next.Close()
			}
			return err
		}
		if next != nil {
			if t.at != nil {
				t.at.Close()
			}
			t.at, t.rest = next, nil
			continue
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(followEvery):
		}
	}
}

// drain shows what the file has more.
func (t *Tail) drain(w *Want, show func(Entry) error) error {
	if t.at == nil {
		return nil
	}
	for r := bufio.NewReader(t.at); ; {
		line, err := r.ReadBytes('\n')
		t.rest = append(t.rest, line...)
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		e, ok := w.take(bytes.TrimSuffix(t.rest, []byte("\n")))
		t.rest = t.rest[:0]
		if !ok {
			continue
		}
		if err := show(e); err != nil {
			return err
		}
	}
}

// newest opens the file that is written to now, unless it is the given one.
func (j *Journal) newest(now *os.File) (*os.File, error) {
	files, err := j.files()
	if err != nil || len(files) == 0 {
		return nil, err
	}
	f, err := os.Open(files[len(files)-1])
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil // at the next look
	}
	if err != nil || now == nil {
		return f, err
	}
	a, err1 := f.Stat()
	b, err2 := now.Stat()
	if err := errors.Join(err1, err2); err != nil || os.SameFile(a, b) {
		f.Close()
		return nil, err
	}
	return f, nil
}
