// Package tidy writes the rows of an experiment as CSV with one figure a line: what it is of, its name, the mean and the standard deviation
// over the seeds, and their number. Files of this form lie in docs/reproduction; `make reproduction` makes them.
//
// It is not for figures that depend on the machine: it leaves out the seconds that a run took.
package tidy

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Header is the first line of such a file.
var Header = []string{"what", "figure", "value", "sd", "n"}

// left are fields of rows that are no figures of an experiment: seeds, seconds and their ratios.
var left = []string{"seed", "seconds", "ratio", "ratio_1000", "twin_seconds_1000"}

// Write writes rows, a slice of structs that are written as their JSON would be. A row is of what its text fields say, and its number fields
// that keys name; rows of the same are runs of other seeds. Numbers in a list get their place from 1 on behind the field's name.
func Write(out io.Writer, rows any, keys ...string) error {
	raw, err := json.Marshal(rows)
	if err != nil {
		return fmt.Errorf("tidy: %w", err)
	}
	var all []json.RawMessage
	if err := json.Unmarshal(raw, &all); err != nil {
		return fmt.Errorf("tidy: %w", err)
	}
	t := table{values: map[line][]float64{}}
	for _, row := range all {
		if err := t.add(row, keys); err != nil {
			return err
		}
	}
	w := csv.NewWriter(out)
	_ = w.Write(Header) // Flush's error tells of it too
	for _, l := range t.lines {
		v := t.values[l]
		mean, sd := Spread(v)
		_ = w.Write([]string{l.what, l.figure, number(mean), number(sd), strconv.Itoa(len(v))})
	}
	w.Flush()
	return w.Error()
}

type line struct{ what, figure string }

// table is the figures in order of their first coming.
type table struct {
	lines  []line
	values map[line][]float64
}

func (t *table) add(row json.RawMessage, keys []string) error {
	fields, err := flat("", row)
	if err != nil {
		return fmt.Errorf("tidy: %w", err)
	}
	var what []string
	for _, f := range fields {
		switch {
		case f.text != "":
			what = append(what, f.text)
		case slices.Contains(keys, f.name):
			what = append(what, f.name+"="+number(f.value))
		}
	}
	for _, f := range fields {
		if f.text != "" || slices.Contains(keys, f.name) || slices.Contains(left, f.name) {
			continue
		}
		l := line{strings.Join(what, " "), f.name}
		if _, ok := t.values[l]; !ok {
			t.lines = append(t.lines, l)
		}
		t.values[l] = append(t.values[l], f.value)
	}
	return nil
}

// field is a text or a number of a row.
type field struct {
	name  string
	text  string
	value float64
}

// flat lists what a JSON value holds, in order. Empty texts and nulls are left out.
func flat(name string, raw json.RawMessage) (out []field, err error) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	tok, err := dec.Token()
	if err != nil {
		return nil, err
	}
	switch v := tok.(type) {
	case float64:
		return []field{{name: name, value: v}}, nil
	case string:
		if v == "" {
			return nil, nil
		}
		return []field{{name: name, text: v}}, nil
	case bool:
		if !v {
			return nil, nil
		}
		return []field{{name: name, text: name}}, nil
	case json.Delim:
		for i := 1; dec.More(); i++ {
			part := strconv.Itoa(i)
			if v == '{' {
				key, err := dec.Token()
				if err != nil {
					return nil, err
				}
				part = fmt.Sprint(key)
			}
			var inner json.RawMessage
			if err := dec.Decode(&inner); err != nil {
				return nil, err
			}
			if name != "" {
				part = name + "_" + part
			}
			more, err := flat(part, inner)
			if err != nil {
				return nil, err
			}
			out = append(out, more...)
		}
	}
	return out, nil
}

// Spread is the mean and the standard deviation of a sample; the latter 0 of a single value.
func Spread(v []float64) (mean, sd float64) {
	for _, x := range v {
		mean += x / float64(len(v))
	}
	for _, x := range v {
		sd += (x - mean) * (x - mean)
	}
	if len(v) > 1 {
		sd = math.Sqrt(sd / float64(len(v)-1))
	}
	return mean, sd
}

func number(v float64) string { return strconv.FormatFloat(v, 'g', 6, 64) }
