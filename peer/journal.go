package peer

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"shoal/peer/crawl"
)

// Bounds of the journal.
const (
	JournalDays  = 30
	JournalBytes = 64 << 20 // of all days together; the oldest go first
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
	TookMs int64     `json:"took_ms"`
}

// Journal is the record of every URL fetched, one file a day, for the volunteer to read. It is safe for concurrent use.
type Journal struct {
	dir     string
	network string

	mu    sync.Mutex
	day   string
	f     *os.File
	w     *bufio.Writer
	size  int64
	timer *time.Timer
	err   error
}

// OpenJournal makes a journal in a folder.
func OpenJournal(dir, network string) (*Journal, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("peer: journal: %w", err)
	}
	return &Journal{dir: dir, network: network}, nil
}

// Visit is a Config.OnVisit.
func (j *Journal) Visit(_ string, v crawl.Visit) {
	b, err := json.Marshal(Entry{At: v.At.UTC().Truncate(time.Millisecond), URL: v.URL, For: j.network, Status: v.Status, Error: v.Kind, Bytes: v.Bytes,
		TookMs: v.Took.Milliseconds()})
	if err != nil {
		return
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.err = j.write(v.At.UTC().Format(time.DateOnly), append(b, '\n')); j.err != nil {
		return // the disk may be full: crawling goes on, Err tells
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
	_, err := j.w.Write(line)
	return err
}

// turn begins a day's file and drops what is too old or too much.
func (j *Journal) turn(day string) error {
	if j.f != nil {
		j.w.Flush()
		j.f.Close()
		j.f = nil
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
		if total > JournalBytes*3/4 || filepath.Base(name) < oldest {
			os.Remove(name)
		}
	}
	f, err := os.OpenFile(filepath.Join(j.dir, day+".jsonl"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("peer: journal: %w", err)
	}
	j.f, j.w, j.day, j.size = f, bufio.NewWriterSize(f, 16<<10), day, 0
	return nil
}

func (j *Journal) files() ([]string, error) {
	files, err := filepath.Glob(filepath.Join(j.dir, "????-??-??.jsonl"))
	slices.Sort(files)
	return files, err
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
	if j.size > JournalBytes/4 { // one busy day must not fill the disk: only its end is kept
		err = errors.Join(err, j.f.Truncate(0))
		j.size = 0
	}
	return err
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

// Log writes the newest n lines that contain match.
func (j *Journal) Log(w io.Writer, n int, match string) error {
	if err := j.Flush(); err != nil {
		return err
	}
	files, err := j.files()
	if err != nil {
		return err
	}
	n = min(n, maxLogLines)
	var found [][]byte
	for _, name := range slices.Backward(files) {
		b, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		lines := bytes.Split(bytes.TrimSuffix(b, []byte("\n")), []byte("\n"))
		for _, line := range slices.Backward(lines) {
			if len(found) >= n {
				break
			}
			if len(line) > 0 && (match == "" || strings.Contains(string(line), match)) {
				found = append(found, line)
			}
		}
	}
	for _, line := range slices.Backward(found) {
		if _, err := w.Write(append(line, '\n')); err != nil {
			return err
		}
	}
	return nil
}
