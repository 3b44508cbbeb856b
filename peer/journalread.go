package peer

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
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
