package clocklab

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"
	"unsafe"
)

// File is the environment variable that names a program's file of offsets.
const File = "SHOAL_LAB_CLOCK"

const (
	size       = 40 // of a file: the offsets, and what the program tells
	goroutines = 32 // where it tells how many goroutines it has
)

// Clock is a file of offsets, as a test holds it.
type Clock struct {
	path   string
	page   []byte
	asleep time.Duration
}

// New makes a file of offsets, of clocks that are right.
func New(path string) (*Clock, error) {
	if err := os.WriteFile(path, make([]byte, size), 0o600); err != nil {
		return nil, fmt.Errorf("clocklab: %w", err)
	}
	page, err := mapped(path)
	if err != nil {
		return nil, fmt.Errorf("clocklab: %w", err)
	}
	return &Clock{path: path, page: page}, nil
}

// Env is what a program's environment needs to have this clock.
func (c *Clock) Env() string { return File + "=" + c.path }

// Began says that the program starts now: what it slept in an earlier life is over.
func (c *Clock) Began() {
	c.asleep = 0
	c.set(16, 0)
	clear(c.page[goroutines:])
}

// Step sets how far the wall clock is ahead, in whole seconds; less than zero: behind.
func (c *Clock) Step(by time.Duration) { c.set(0, by.Truncate(time.Second)) }

// Slept has the monotonic clock fall behind by d. Call it while the process is stopped, and has been for as long: the clock must not run backward.
func (c *Clock) Slept(d time.Duration) {
	c.asleep += d
	c.set(16, -c.asleep)
}

// Goroutines is how many the program said to have within the last second; 0: it has said nothing.
func (c *Clock) Goroutines() int {
	return int(atomic.LoadUint64((*uint64)(unsafe.Pointer(&c.page[goroutines]))))
}

func (c *Clock) set(at int, d time.Duration) {
	sec, nsec := d/time.Second, d%time.Second
	if nsec < 0 {
		sec, nsec = sec-1, nsec+time.Second
	}
	binary.LittleEndian.PutUint64(c.page[at+8:], uint64(nsec))
	binary.LittleEndian.PutUint64(c.page[at:], uint64(sec))
}

// imported is the file that a program has besides its own.
const imported = `package main

import "shoal/internal/lab/clocklab"

func init() {
	if err := clocklab.Install(); err != nil {
		panic(err)
	}
}
`

// Change is what else is other in the programs of a test: a text in a file below the module's root, which must be there once.
type Change struct{ File, Old, New string }

// Overlay writes what `go build -overlay` takes to build programs with such clocks, and returns the path of it. The programs are folders of main packages,
// below the module's root.
func Overlay(dir, root string, programs []string, changes ...Change) (string, error) {
	file := filepath.Join(dir, "clock.go.txt")
	if err := os.WriteFile(file, []byte(imported), 0o600); err != nil {
		return "", fmt.Errorf("clocklab: %w", err)
	}
	root, err := filepath.Abs(root)
	if err != nil {
		return "", fmt.Errorf("clocklab: %w", err)
	}
	var overlay struct{ Replace map[string]string }
	overlay.Replace = map[string]string{}
	for _, p := range programs {
		overlay.Replace[filepath.Join(root, p, "zz_clocklab.go")] = file
	}
	for i, c := range changes {
		path := filepath.Join(root, c.File)
		text, err := os.ReadFile(path)
		if err != nil {
			return "", fmt.Errorf("clocklab: %w", err)
		}
		if n := strings.Count(string(text), c.Old); n != 1 {
			return "", fmt.Errorf("clocklab: %s has %q %d times, want once", c.File, c.Old, n)
		}
		to := filepath.Join(dir, fmt.Sprintf("change-%d.go.txt", i))
		if err := os.WriteFile(to, []byte(strings.Replace(string(text), c.Old, c.New, 1)), 0o600); err != nil {
			return "", fmt.Errorf("clocklab: %w", err)
		}
		overlay.Replace[path] = to
	}
	b, err := json.Marshal(overlay)
	if err != nil {
		return "", fmt.Errorf("clocklab: %w", err)
	}
	path := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(path, b, 0o600); err != nil {
		return "", fmt.Errorf("clocklab: %w", err)
	}
	return path, nil
}
