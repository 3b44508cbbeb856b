package peer

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"shoal/peer/crawl"
)

// Bounds of the journal.
const (
	JournalDays  = 30
	JournalBytes = 64 << 20 // of all files together; the oldest go first
	journalFile  = 8 << 20  // of one file; a busy day has several
	flushEvery   = 2 * time.Second
	maxLogLines  = 10_000
)

// Entry is one line of the journal: an URL that was fetched, when, for whom, and how many bytes it had.
type Entry struct {
	At     time.Time `json:"at"`
	URL    string    `json:"url"`
	For    string    `json:"for"` // network
	Status int       `json:"status,omitempty"`
	Error  string    `json:"error,omitempty"`
	Bytes  int       `json:"bytes"`
	TookS  float64   `json:"took_s"`
	Title  string    `json:"title,omitempty"`
}

// UnmarshalJSON reads lines of the version before too, which had milliseconds.
func (e *Entry) UnmarshalJSON(b []byte) error {
	type plain Entry
	old := struct {
		*plain
		TookMs float64 `json:"took_ms"`
	}{plain: (*plain)(e)}
	if err := json.Unmarshal(b, &old); err != nil {
		return err
	}
	if old.TookMs > 0 {
		e.TookS = old.TookMs / 1000
	}
	return nil
}

// Journal is the record of every URL fetched, a file or several for each day, for the volunteer to read. It is safe for concurrent use.
type Journal struct {
	dir string

	mu    sync.Mutex
	day   string
	f     *os.File
	w     *bufio.Writer
	size  int64
	timer *time.Timer
	err   error
}

// OpenJournal makes a journal in a folder.
func OpenJournal(dir string) (*Journal, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("peer: journal: %w", err)
	}
	return &Journal{dir: dir}, nil
}

// For returns a Config.OnVisit of a network's agent.
func (j *Journal) For(network string) func(host string, v crawl.Visit) {
	return func(_ string, v crawl.Visit) { j.visit(network, v) }
}

func (j *Journal) visit(network string, v crawl.Visit) {
	b, err := json.Marshal(Entry{At: v.At.UTC().Truncate(time.Millisecond), URL: v.URL, For: network, Status: v.Status, Error: v.Kind, Bytes: v.Bytes,
		TookS: v.Took.Round(time.Millisecond).Seconds(), Title: v.Title})
	if err != nil {
		return
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.err = j.write(v.At.UTC().Format(time.DateOnly), append(b, '\n')); j.err != nil {
		j.drop() // the disk may be full: crawling goes on, Flush tells
		return
	}
	if j.timer == nil {
		j.timer = time.AfterFunc(flushEvery, func() { j.Flush() })
	}
}

func (j *Journal) write(day string, line []byte) error {
	if j.f == nil || day != j.day {
		if err := j.turn(day); err != nil {
			return err
		}
	}
	j.size += int64(len(line))
	if _, err := j.w.Write(line); err != nil || j.size < journalFile {
		return err
	}
	return j.next()
}

// next puts a full file aside, under a name that comes before its day's last one.
func (j *Journal) next() error {
	err := j.w.Flush()
	j.drop()
	for n := 1; err == nil && n < 1000; n++ {
		aside := filepath.Join(j.dir, fmt.Sprintf("%s-%03d.jsonl", j.day, n))
		if _, missing := os.Stat(aside); errors.Is(missing, fs.ErrNotExist) {
			return os.Rename(filepath.Join(j.dir, j.day+".jsonl"), aside)
		}
	}
	return err
}

// drop gives a file up that cannot be written to, with what is in memory for it: the next line opens it anew.
func (j *Journal) drop() {
	if j.f != nil {
		j.f.Close()
		j.f = nil
	}
}

// turn begins a day's file and drops what is too old or too much.
func (j *Journal) turn(day string) error {
	if j.f != nil {
		j.w.Flush()
		j.drop()
	}
	files, err := j.files()
	if err != nil {
		return err
	}
	oldest := time.Now().UTC().AddDate(0, 0, -JournalDays).Format(time.DateOnly)
	total := int64(0)
	for _, name := range slices.Backward(files) {
		st, err := os.Stat(name)
		if err != nil {
			continue
		}
		total += st.Size()
		if total > JournalBytes-journalFile || filepath.Base(name) < oldest {
			os.Remove(name)
		}
	}
	f, err := os.OpenFile(filepath.Join(j.dir, day+".jsonl"), os.O_CREATE|os.O_APPEND|os.O_RDWR, 0o600)
	if err != nil {
		return fmt.Errorf("peer: journal: %w", err)
	}
	j.f, j.w, j.day, j.size = f, bufio.NewWriterSize(f, 16<<10), day, 0
	if st, err := f.Stat(); err == nil && st.Size() > 0 {
		j.size = st.Size()
		last := []byte{0}
		if _, err := f.ReadAt(last, st.Size()-1); err == nil && last[0] != '\n' { // a killed process or a full disk cut the last line short
			return j.w.WriteByte('\n')
		}
	}
	return nil
}

func (j *Journal) files() ([]string, error) {
	files, err := crawl.FilesOf(j.dir, "????-??-??*.jsonl")
	if err != nil {
		return nil, fmt.Errorf("peer: journal: %w", err)
	}
	return files, nil
}

// Flush writes what is still in memory.
func (j *Journal) Flush() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.timer = nil
	if j.f == nil {
		return j.err
	}
	err := j.w.Flush()
	if err != nil {
		j.err = fmt.Errorf("peer: journal: %w", err)
		j.drop()
		return j.err
	}
	j.err = nil
	return nil
}

// Err is why lines cannot be written now; nil: they can.
func (j *Journal) Err() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.err
}

// Close ends it.
func (j *Journal) Close() error {
	err := j.Flush()
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.f != nil {
		err = errors.Join(err, j.f.Close())
		j.f = nil
	}
	return err
}
