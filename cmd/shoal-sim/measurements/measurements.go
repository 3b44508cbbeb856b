// Package measurements reads docs/measurements.csv, the history of everything that was measured on Shoal, prints the newest figures as a
// table and draws each one over the versions. It measures nothing itself: each line of the file names the command that did.
package measurements

import (
	"cmp"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// ErrFile is returned for a file of measurements that breaks a rule. The wrapping error names the line.
var ErrFile = errors.New("measurements: bad file")

// columns are the header line of the file.
var columns = []string{"date", "machine", "version", "what", "value", "unit", "to_meet", "load", "command"}

// maxRows bounds the lines of a file.
const maxRows = 100_000

// Row is one measured figure.
type Row struct {
	Date    string // 2026-11-21
	Machine string
	Version string // a release or a commit
	What    string // the same words each time, so that figures can be compared
	Value   float64
	Unit    string
	ToMeet  string // "<= 45" or ">= 2000"; empty: no target
	Load    string // what else the machine did: a load average, or "busy"; empty: nothing
	Command string // that measured it
}

// Quiet reports whether the machine did nothing else.
func (r *Row) Quiet() bool { return r.Load == "" }

// Target returns the figure to meet and whether it is a lower bound. ok is false if there is none.
func (r *Row) Target() (bound float64, atLeast, ok bool) {
	op, text, found := strings.Cut(r.ToMeet, " ")
	if !found || op != "<=" && op != ">=" {
		return 0, false, false
	}
	bound, err := strconv.ParseFloat(text, 64)
	return bound, op == ">=", err == nil
}

// Read reads and checks a file of measurements. The rows keep the order of the file, which is that of time.
func Read(r io.Reader) ([]Row, error) {
	in := csv.NewReader(r)
	head, err := in.Read()
	if errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%w: it is empty; want a header line, %s", ErrFile, strings.Join(columns, ","))
	}
	if err != nil {
		return nil, fmt.Errorf("%w: header line: %w", ErrFile, err)
	}
	if !slices.Equal(head, columns) {
		return nil, fmt.Errorf("%w: the header line must be %s", ErrFile, strings.Join(columns, ","))
	}
	var rows []Row
	for {
		cells, err := in.Read()
		if errors.Is(err, io.EOF) {
			return rows, nil
		}
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrFile, err)
		}
		line, _ := in.FieldPos(0)
		if len(rows) == maxRows {
			return nil, fmt.Errorf("%w: more than %d lines", ErrFile, maxRows)
		}
		row, err := parse(cells)
		if err == nil && len(rows) > 0 {
			err = follows(&row, rows)
		}
		if err != nil {
			return nil, fmt.Errorf("%w: line %d: %w", ErrFile, line, err)
		}
		rows = append(rows, row)
	}
}

func parse(cells []string) (Row, error) {
	r := Row{Date: cells[0], Machine: cells[1], Version: cells[2], What: cells[3], Unit: cells[5], ToMeet: cells[6], Load: cells[7], Command: cells[8]}
	if _, err := time.Parse(time.DateOnly, r.Date); err != nil {
		return r, fmt.Errorf("date %q; want one such as 2026-11-21", r.Date)
	}
	for i, c := range cells {
		if c == "" && (i < 5 || i == 8) {
			return r, fmt.Errorf("column %s is empty", columns[i])
		}
	}
	var err error
	if r.Value, err = strconv.ParseFloat(cells[4], 64); err != nil {
		return r, fmt.Errorf("value %q is not a number", cells[4])
	}
	if _, _, ok := r.Target(); !ok && r.ToMeet != "" {
		return r, fmt.Errorf("to_meet %q; want <= 45 or >= 2000", r.ToMeet)
	}
	return r, nil
}

// follows checks a row against those before it: dates never go back, and a figure never changes its unit.
func follows(r *Row, before []Row) error {
	if last := before[len(before)-1].Date; r.Date < last {
		return fmt.Errorf("date %s after %s; add new figures at the end", r.Date, last)
	}
	for i := range before {
		if b := &before[i]; b.What == r.What && b.Unit != r.Unit {
			return fmt.Errorf("%q is in %q here and in %q before", r.What, r.Unit, b.Unit)
		}
	}
	return nil
}

// Figure is the newest state of one figure: its values of the newest version that was measured on a quiet machine, else of the newest.
type Figure struct {
	Newest Row
	Values []float64 // of that date, version and load, sorted
}

// Median returns the median of the values.
func (f *Figure) Median() float64 {
	n := len(f.Values)
	return (f.Values[(n-1)/2] + f.Values[n/2]) / 2
}

// Newest returns the newest state of every figure, in the order in which the figures first appear.
func Newest(rows []Row) []Figure {
	var out []Figure
	for _, of := range byWhat(rows) {
		best := len(of) - 1
		for i := range slices.Backward(of) {
			if of[i].Quiet() {
				best = i
				break
			}
		}
		f := Figure{Newest: of[best]}
		for _, r := range of {
			if r.Date == f.Newest.Date && r.Version == f.Newest.Version && r.Load == f.Newest.Load {
				f.Values = append(f.Values, r.Value)
			}
		}
		slices.Sort(f.Values)
		out = append(out, f)
	}
	return out
}

// byWhat groups rows by what they measure.
func byWhat(rows []Row) (groups [][]Row) {
	at := map[string]int{}
	for _, r := range rows {
		i, ok := at[r.What]
		if !ok {
			i = len(groups)
			at[r.What] = i
			groups = append(groups, nil)
		}
		groups[i] = append(groups[i], r)
	}
	return groups
}

// Cmd is `shoal-sim measurements`.
type Cmd struct {
	File string `help:"File of measurements." default:"docs/measurements.csv" type:"path" placeholder:"FILE"`
	Plot string `help:"Draw each figure that was measured in more than one version into this folder, as SVG." type:"path" placeholder:"DIR"`
}

// Run prints the newest figures and draws the plots.
func (c *Cmd) Run(_ context.Context, out io.Writer) error {
	f, err := os.Open(c.File)
	if err != nil {
		return fmt.Errorf("measurements: %w; run this in the project's folder, or name the file with --file", err)
	}
	defer f.Close() //nolint:errcheck // only read
	rows, err := Read(f)
	if err != nil {
		return fmt.Errorf("%s: %w", c.File, err)
	}
	if c.Plot != "" {
		files, err := draw(rows, c.Plot)
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "%d drawings in %s\n", len(files), c.Plot)
		return nil
	}
	fmt.Fprintln(out, "| what | measured | to meet | date | version | command |\n|---|---|---|---|---|---|")
	for _, f := range Newest(rows) {
		n := &f.Newest
		load := ""
		if !n.Quiet() {
			load = ", load " + n.Load
		}
		fmt.Fprintf(out, "| %s | %s | %s | %s%s | %s | `%s` |\n", n.What, Text(f.Median(), n.Unit), cmp.Or(n.ToMeet, "-"), n.Date, load, n.Version, n.Command)
	}
	return nil
}

// Text words a value with its unit, as tables write it: "44.7 MB", "12,570 a second", "2.17 times".
func Text(v float64, unit string) string {
	text := strconv.FormatFloat(v, 'f', -1, 64)
	whole, frac, _ := strings.Cut(text, ".")
	if len(frac) > 2 {
		_, frac, _ = strings.Cut(strconv.FormatFloat(v, 'f', 2, 64), ".")
	}
	for i := len(whole) - 3; i > 0; i -= 3 {
		whole = whole[:i] + "," + whole[i:]
	}
	if frac != "" {
		whole += "." + frac
	}
	switch unit {
	case "":
		return whole
	case "%":
		return whole + "%"
	case "% of a core":
		return whole + unit
	case "1/s":
		return whole + " a second"
	case "1/min":
		return whole + " a minute"
	case "ratio":
		return whole + " times"
	}
	return whole + " " + unit
}
