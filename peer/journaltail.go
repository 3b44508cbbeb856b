package peer

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"
)

// followEvery is how often a follower looks for new lines.
const followEvery = 300 * time.Millisecond

// Tail is a place in the journal: the ends of its files when the tail was made. Lines may come to any of them: a fetch that began before midnight ends after it, and a
// clock that was ahead has left files of days to come.
type Tail struct {
	j     *Journal
	files []tailed
}

// tailed is how far a file has been read, behind its last whole line. The file may be put aside, under another name.
type tailed struct {
	name string
	info os.FileInfo
	to   int64
	gone bool // it was not there when the folder was last looked at
}

// was reports whether a file is the one that had been read so far. A system may give the number of a file that was dropped to the next that is made, so
// only a name that a file can have come to have counts.
func (x tailed) was(y tailed) bool {
	return os.SameFile(x.info, y.info) && (x.name == y.name || strings.HasPrefix(x.name, strings.TrimSuffix(y.name, ".jsonl")+"-"))
}

// Tail returns the present end.
func (j *Journal) Tail() (*Tail, error) {
	_ = j.Flush() // what is on disk can be read all the same
	t := &Tail{j: j}
	return t, t.read(nil)
}

// Follow calls show for each wanted entry that is written behind the tail, until ctx ends or show fails. The tail is used up.
func (t *Tail) Follow(ctx context.Context, w Want, show func(Entry) error) error {
	for {
		err := t.read(func(line []byte) error {
			if e, ok := w.take(line); ok {
				return show(e)
			}
			return nil
		})
		if err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(followEvery):
		}
	}
}

// read goes on to the end of each file, and calls show for each whole line; nil: the lines are of before.
func (t *Tail) read(show func(line []byte) error) error {
	names, err := t.j.files()
	if err != nil {
		return err
	}
	var now []tailed
	for _, name := range names {
		f, err := t.file(name, show)
		if errors.Is(err, fs.ErrNotExist) { // put aside meanwhile, or gone with the oldest
			continue
		}
		if err != nil {
			return err
		}
		now = append(now, f)
	}
	for _, f := range t.files { // one that was put aside while this looked is found under its new name the next time
		if !f.gone && !slices.ContainsFunc(now, func(x tailed) bool { return x.was(f) }) {
			f.gone = true
			now = append(now, f)
		}
	}
	t.files = now
	return nil
}

// file goes on to the end of a file.
func (t *Tail) file(name string, show func(line []byte) error) (tailed, error) {
	f, err := os.Open(name)
	if err != nil {
		return tailed{}, err
	}
	defer f.Close()
	x := tailed{name: name}
	if x.info, err = f.Stat(); err != nil {
		return x, err
	}
	if i := slices.IndexFunc(t.files, x.was); i >= 0 {
		x.to = t.files[i].to
	}
	if x.info.Size() <= x.to {
		return x, nil
	}
	b := make([]byte, x.info.Size()-x.to)
	n, err := f.ReadAt(b, x.to)
	if err != nil && !errors.Is(err, io.EOF) {
		return x, err
	}
	for b = b[:n]; ; {
		line, rest, whole := bytes.Cut(b, []byte("\n"))
		if !whole {
			return x, nil
		}
		x.to += int64(len(line)) + 1
		b = rest
		if show == nil {
			continue
		}
		if err := show(line); err != nil {
			return x, err
		}
	}
}
