package allocsim

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"shoal/recrawl/allocate"
)

// drawn are flags that can be run.
func drawn() Allocate {
	return Allocate{N: 50, R: 100, Mix: "60/30/10", Mean: 1.5, Shape: 1.5, Span: 1, Cores: 1, Seed: 1}
}

func slots() Timetable {
	return Timetable{Count: 100, Crawlers: 10, Quasi: .2, Ideal: "phases", Span: 1, Seed: 1}
}

// TestUnusableNumbersAreNamed: numbers that cannot be drawn from are refused with the flag and its range. Some of them ended in a panic.
func TestUnusableNumbersAreNamed(t *testing.T) {
	for want, change := range map[string]func(c *Allocate){
		"--n 99999999999999: want 1 to 268435456": func(c *Allocate) { c.N = 99_999_999_999_999 },
		"--mean 1e+300: want above 0":             func(c *Allocate) { c.Mean = 1e300 },
		"--shape 1: want a number above 1":        func(c *Allocate) { c.Shape = 1 },
		"--theta 2: want 0 to 1":                  func(c *Allocate) { c.Theta = 2 },
		"--r -1: want":                            func(c *Allocate) { c.R = -1 },
	} {
		c := drawn()
		change(&c)
		if err := c.Run(context.Background(), io.Discard, io.Discard); !errors.Is(err, ErrFlags) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	c := drawn()
	c.Mean = maxMean
	if err := c.Run(context.Background(), io.Discard, io.Discard); err != nil {
		t.Errorf("the largest mean: %v", err)
	}
}

// TestNoFlagIsIgnored: a flag that says nothing without another one is refused without it.
func TestNoFlagIsIgnored(t *testing.T) {
	t.Setenv(changesVariable, "")
	for want, change := range map[string]func(c *Allocate){
		"name it with --pages":  func(c *Allocate) { c.Clicks, c.Positions = "c.csv", "p.csv" },
		"go together":           func(c *Allocate) { c.Pages, c.Clicks = "p.csv", "c.csv" },
		"which --pages names":   func(c *Allocate) { c.Span = 0 },
		"the figures with --pl": func(c *Allocate) { c.Changes, c.Figures = "c.tsv", true },
	} {
		c := drawn()
		change(&c)
		if err := c.Run(context.Background(), io.Discard, io.Discard); !errors.Is(err, ErrFlags) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	c := slots()
	c.Span = 0
	if err := c.Run(context.Background(), io.Discard, io.Discard); !errors.Is(err, ErrFlags) || !strings.Contains(err.Error(), "which --tasks names") {
		t.Errorf("timetable: %v", err)
	}
	// What the environment names is for those calls that draw.
	t.Setenv(changesVariable, "/c.tsv")
	a := drawn()
	a.Changes = "/c.tsv"
	if err := a.Run(context.Background(), io.Discard, io.Discard); err != nil {
		t.Error(err)
	}
}

// TestNoPageTwice: an id that stands for two pages is refused with its line.
func TestNoPageTwice(t *testing.T) {
	c := drawn()
	c.Pages = filepath.Join(t.TempDir(), "p.csv")
	if err := os.WriteFile(c.Pages, []byte("id,model,parameters\na,poisson,2\nb,poisson,3\na,poisson,4\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := c.Run(context.Background(), io.Discard, io.Discard); !errors.Is(err, allocate.ErrCSV) || !strings.Contains(err.Error(), "p.csv:4: id \"a\"") {
		t.Error(err)
	}
}

// TestFilesAreRefusedAtOnce: what cannot be written is refused before anything is computed, and what is there stays.
func TestFilesAreRefusedAtOnce(t *testing.T) {
	dir := t.TempDir()
	var said strings.Builder
	a, c := drawn(), slots()
	a.Allocation, c.Schedule = filepath.Join(dir, "none", "x.csv"), dir
	if err := a.Run(context.Background(), io.Discard, &said); err == nil || !strings.Contains(err.Error(), "--allocation: cannot write") || said.Len() > 0 {
		t.Errorf("%v, %q", err, said.String())
	}
	if err := c.Run(context.Background(), io.Discard, &said); err == nil || !strings.Contains(err.Error(), "--schedule: cannot write") || said.Len() > 0 {
		t.Errorf("%v, %q", err, said.String())
	}
	old := filepath.Join(dir, "old")
	if err := os.WriteFile(old, []byte("kept"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(canCreate("x", old), canCreate("x", filepath.Join(dir, "new"))); err != nil {
		t.Error(err)
	}
	if text, _ := os.ReadFile(old); string(text) != "kept" {
		t.Errorf("the check left %q", text)
	}
	if _, err := os.Stat(filepath.Join(dir, "new")); !os.IsNotExist(err) {
		t.Errorf("the check left a file: %v", err)
	}
}

// TestIdealTimesLieInTheInterval: also where crawlers are so many that each has a slot or two.
func TestIdealTimesLieInTheInterval(t *testing.T) {
	for _, ideal := range []string{"phases", "even", "random"} {
		for _, crawlers := range []int{1, 10, 100, 1000, allocate.MaxCrawlers} {
			c := slots()
			c.Ideal, c.Crawlers, c.Idle = ideal, crawlers, .5
			if err := c.Run(context.Background(), io.Discard, io.Discard); err != nil {
				t.Errorf("%s, %d crawlers: %v", ideal, crawlers, err)
			}
		}
	}
}

// TestInfeasibleSaysWhatToDo: where crawls do not fit, the error names the flag that gives them room.
func TestInfeasibleSaysWhatToDo(t *testing.T) {
	file := func(text string) string {
		name := filepath.Join(t.TempDir(), "f.csv")
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	for want, change := range map[string]func(c *Timetable){
		"more slots with --idle, of 0 to 100": func(c *Timetable) { c.Quasi = 1 },
		"more slots with --slots":             func(c *Timetable) { c.Slots = "50,49" },
		"of 0 to 100 times the crawls":        func(c *Timetable) { c.Tasks, c.Crawlers = file("a,.9,quasi\nb,.9,quasi\n"), 1 },
		"or bar less with --bars":             func(c *Timetable) { c.Bars = file("3,any,0,1\n") },
		"f.csv:2: no crawler 10: want 0 to 9": func(c *Timetable) { c.Bars = file("3,9,0,1\n3,10,0,1\n") },
		"f.csv:1: no task \"100\"":            func(c *Timetable) { c.Bars = file("100,0,0,1\n") },
	} {
		c := slots()
		change(&c)
		if err := c.Run(context.Background(), io.Discard, io.Discard); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
