package allocate

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// ErrCSV says that a file of pages, tasks or clicks cannot be read; the text names file and line.
var ErrCSV = errors.New("allocate: bad line")

// rows calls f with the trimmed fields of every line. It skips blank lines, comments (#) and a header: a first line whose first field is head,
// or whose second field is the name of a column.
func rows(r io.Reader, name, head string, least, most int, f func(field []string) error) error {
	c := csv.NewReader(r)
	c.FieldsPerRecord, c.TrimLeadingSpace, c.Comment, c.ReuseRecord = -1, true, '#', true
	first := true
	for {
		rec, err := c.Read()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			var pe *csv.ParseError
			if errors.As(err, &pe) {
				return fmt.Errorf("%w: %s:%d: %w", ErrCSV, name, pe.Line, pe.Err)
			}
			return fmt.Errorf("read %s: %w", name, err)
		}
		line, _ := c.FieldPos(0)
		for i := range rec {
			if rec[i] = strings.TrimSpace(rec[i]); !utf8.ValidString(rec[i]) || strings.ContainsRune(rec[i], 0) {
				return fmt.Errorf("%w: %s:%d: this is no text in UTF-8: want a CSV file, as it is or packed by gzip", ErrCSV, name, line)
			}
		}
		if first {
			rec[0] = strings.Trim(strings.TrimPrefix(rec[0], "\ufeff"), "\" ") // a spreadsheet's mark
		}
		if first && (strings.EqualFold(rec[0], head) || len(rec) > 1 && slices.Contains(columns, strings.ToLower(rec[1]))) {
			first = false
			continue
		}
		first = false
		if len(rec) < least || len(rec) > most {
			return fmt.Errorf("%w: %s:%d: %d fields, want %d to %d", ErrCSV, name, line, len(rec), least, most)
		}
		if err := f(rec); err != nil {
			return fmt.Errorf("%w: %s:%d: %w", ErrCSV, name, line, err)
		}
	}
}

// columns are names of second columns.
var columns = []string{"model", "ideal", "ideal time", "ideal_time", "time", "position", "crawler", "page"}

// ReadPages reads pages, one a line: id, model, parameters, weight, min, max. The last three may be empty or missing (1, 0, no bound).
// Parameters are separated by spaces or semicolons, and have the same unit of time as the interval of length span. The models:
//
//	poisson    rate
//	pareto     a b                tail (b/(b+t))^a
//	weibull    l a                tail e^(-l t^a)
//	quasi      u:k u:k ... [k0=p] instants with probabilities, in any order; p: probability of a stale copy at the beginning, 0
//	empirical  gap gap ...        times between updates
//
// Parameters may be named, as a=1.5 b=.2, and then come in any order. An id may come again: every line is a page of its own. Errors call
// the file name.
func ReadPages(r io.Reader, name string, span float64) (ids []string, pages []Page, err error) {
	return readPages(r, name, span, func(string) error { return nil })
}

// ReadDistinctPages reads pages as ReadPages does, for who needs to tell them by their ids: an id that comes again is an error.
func ReadDistinctPages(r io.Reader, name string, span float64) (ids []string, pages []Page, err error) {
	known := map[string]bool{}
	return readPages(r, name, span, func(id string) error {
		if known[id] {
			return fmt.Errorf("id %.80q stands in an earlier line too: give each page an id of its own", id)
		}
		known[strings.Clone(id)] = true
		return nil
	})
}

func readPages(r io.Reader, name string, span float64, take func(id string) error) (ids []string, pages []Page, err error) {
	weighs := false // any page
	err = rows(r, name, "id", 3, 6, func(f []string) error {
		if err := take(f[0]); err != nil {
			return err
		}
		m, err := ParseModel(f[1], f[2], span)
		if err != nil {
			return err
		}
		p := Page{Model: m, Weight: 1}
		if len(f) > 3 && f[3] != "" {
			if p.Weight, err = number("weight", f[3]); err != nil {
				return err
			}
			if !(p.Weight >= 0) {
				return fmt.Errorf("weight %g is below 0", p.Weight)
			}
			weighs = weighs || p.Weight > 0
		} else {
			weighs = true
		}
		if len(f) > 4 && f[4] != "" {
			n, err := strconv.ParseInt(f[4], 10, 32)
			if err != nil || n < 0 || n > MaxCrawls {
				return fmt.Errorf("min %.80q is not a whole number from 0 to %d", f[4], MaxCrawls)
			}
			p.Min = int32(n)
		}
		if len(f) > 5 && f[5] != "" {
			n, err := strconv.ParseInt(f[5], 10, 32)
			if err != nil || n < 0 || n > MaxCrawls {
				return fmt.Errorf("max %.80q is not a whole number from 0 to %d", f[5], MaxCrawls)
			}
			if p.Max = int32(n); n == 0 {
				p.Max = Never
			}
		}
		if int(p.Min) > p.limit() {
			return fmt.Errorf("min %s is more than max %s", f[4], f[5])
		}
		ids, pages = append(ids, strings.Clone(f[0])), append(pages, p)
		return nil
	})
	if err == nil && len(pages) == 0 {
		err = fmt.Errorf("%w: %s has no pages: want lines of id, model, parameters", ErrCSV, name)
	}
	if err == nil && !weighs {
		err = fmt.Errorf("%w: %s gives every page the weight 0, so that none is worth a crawl: leave the weights out for 1 each", ErrCSV, name)
	}
	return ids, pages, err
}

func number(what, s string) (float64, error) {
	v, err := strconv.ParseFloat(s, 64)
	if err != nil || math.IsNaN(v) || math.IsInf(v, 0) {
		return 0, fmt.Errorf("%s %.80q is not a finite number", what, s)
	}
	return v, nil
}

// parameters of the models, in order, with the names that they may be given by.
var parameters = map[string][][]string{
	"poisson": {{"rate", "l", "lambda"}},
	"pareto":  {{"a", "alpha", "shape"}, {"b", "beta", "scale"}},
	"weibull": {{"l", "lambda", "rate"}, {"a", "alpha", "shape"}},
}

// ParseModel reads a model as ReadPages does.
func ParseModel(kind, params string, span float64) (Model, error) {
	words := strings.FieldsFunc(params, func(r rune) bool { return strings.ContainsRune(" ;,|\t", r) })
	name := strings.NewReplacer("-", "", "_", "", " ", "").Replace(strings.ToLower(kind))
	switch name {
	case "quasi", "quasideterministic":
		return parseQuasi(words, span)
	case "exponential", "exp":
		name = "poisson"
	case "empirical":
		v := make([]float64, len(words))
		for i, w := range words {
			var err error
			if v[i], err = number("time between updates", w); err != nil {
				return Model{}, err
			}
		}
		return NewEmpirical(v)
	}
	names, known := parameters[name]
	if !known {
		return Model{}, fmt.Errorf("unknown model %.80q: want poisson, pareto, weibull, quasi or empirical", kind)
	}
	v, err := inOrder(kind, words, names)
	if err != nil {
		return Model{}, err
	}
	switch name {
	case "pareto":
		return Pareto(v[0], v[1])
	case "weibull":
		return Weibull(v[0], v[1])
	}
	return Poisson(v[0])
}

// inOrder reads parameters that are all named, or none.
func inOrder(kind string, words []string, names [][]string) ([]float64, error) {
	if len(words) != len(names) {
		return nil, fmt.Errorf("%s takes %d parameters, not %d", kind, len(names), len(words))
	}
	v, given := make([]float64, len(names)), make([]bool, len(names))
	for i, w := range words {
		at, value := i, w
		if name, after, ok := strings.Cut(w, "="); ok {
			value = after
			at = slices.IndexFunc(names, func(known []string) bool { return slices.Contains(known, strings.ToLower(strings.TrimSpace(name))) })
			if at < 0 {
				return nil, fmt.Errorf("%s has no parameter %.80q", kind, name)
			}
		}
		if given[at] {
			return nil, fmt.Errorf("%s: parameter %s comes twice", kind, names[at][0])
		}
		x, err := number("parameter", value)
		if err != nil {
			return nil, err
		}
		v[at], given[at] = x, true
	}
	return v, nil
}

func parseQuasi(words []string, span float64) (Model, error) {
	var u, k []float64
	k0 := 0.
	for _, w := range words {
		if after, ok := strings.CutPrefix(w, "k0="); ok {
			x, err := number("k0", after)
			if err != nil {
				return Model{}, err
			}
			k0 = x
			continue
		}
		at, prob, ok := strings.Cut(w, ":")
		if !ok {
			prob = "1"
		}
		x, err := number("instant", at)
		if err != nil {
			return Model{}, err
		}
		p, err := number("probability", prob)
		if err != nil {
			return Model{}, err
		}
		if !(p >= 0 && p <= 1) {
			return Model{}, fmt.Errorf("probability %g at instant %g lies outside 0..1", p, x)
		}
		i, found := slices.BinarySearch(u, x)
		if found { // two chances at once: either will do
			k[i] = 1 - (1-k[i])*(1-p)
			continue
		}
		if len(u) == MaxInstants {
			return Model{}, fmt.Errorf("more than %d update instants", MaxInstants)
		}
		u, k = slices.Insert(u, i, x), slices.Insert(k, i, p)
	}
	return NewQuasi(span, u, k, k0)
}

// ReadTasks reads crawls to be scheduled in an interval of length span, one a line: id, ideal time, kind. Kinds release, quasi and
// quasi-deterministic must not begin early; ordinary, stochastic and any other known model may. An id may come again: all crawls of a page
// have the page's id.
func ReadTasks(r io.Reader, name string, span float64) (ids []string, ideal []float64, release []bool, err error) {
	err = rows(r, name, "id", 2, 3, func(f []string) error {
		t, err := number("ideal time", f[1])
		if err != nil {
			return err
		}
		if !(t >= 0 && t <= span) {
			return fmt.Errorf("ideal time %g lies outside the interval 0..%g", t, span)
		}
		rel := false
		if len(f) > 2 {
			switch strings.NewReplacer("-", "", "_", "", " ", "").Replace(strings.ToLower(f[2])) {
			case "release", "quasi", "quasideterministic":
				rel = true
			case "", "ordinary", "stochastic", "poisson", "exponential", "exp", "pareto", "weibull", "empirical":
			default:
				return fmt.Errorf("unknown kind %.80q: want stochastic (a crawl that may begin early) or quasi (one that must not)", f[2])
			}
		}
		ids, ideal, release = append(ids, strings.Clone(f[0])), append(ideal, t), append(release, rel)
		return nil
	})
	if err == nil && len(ideal) == 0 {
		err = fmt.Errorf("%w: %s has no tasks: want lines of id, ideal time, kind", ErrCSV, name)
	}
	return ids, ideal, release, err
}

// MaxResultPages and MaxPositions bound click curves.
const (
	MaxResultPages = 1000
	MaxPositions   = 1000
)

// ReadClicks reads a click curve, one place a line: result page and position, both from 1, and how often it is clicked on.
func ReadClicks(r io.Reader, name string) (Clicks, error) {
	var c Clicks
	err := rows(r, name, "page", 3, 3, func(f []string) error {
		k, j, v, err := place(f[0], f[1], f[2])
		if err != nil {
			return err
		}
		for len(c) < k {
			c = append(c, nil)
		}
		for len(c[k-1]) < j {
			c[k-1] = append(c[k-1], 0)
		}
		c[k-1][j-1] = v
		return nil
	})
	return c, err
}

func place(page, position, value string) (k, j int, v float64, err error) {
	k, e1 := strconv.Atoi(page)
	j, e2 := strconv.Atoi(position)
	if e1 != nil || e2 != nil || k < 1 || j < 1 || k > MaxResultPages || j > MaxPositions {
		return 0, 0, 0, fmt.Errorf("result page %.80q, position %.80q: want whole numbers from 1 to %d", page, position, MaxPositions)
	}
	if v, err = number("frequency", value); err == nil && v < 0 {
		err = fmt.Errorf("frequency %g is below 0", v)
	}
	return k, j, v, err
}

// ReadPositions reads how often pages are returned where, one place a line: id, result page, position, probability, and optionally d, the
// probability that a stale copy answers wrongly (1). It returns the embarrassment weight of every id.
func ReadPositions(r io.Reader, name string, c Clicks) (map[string]float64, error) {
	w := map[string]float64{}
	err := rows(r, name, "id", 4, 5, func(f []string) error {
		k, j, b, err := place(f[1], f[2], f[3])
		if err != nil {
			return err
		}
		d := 1.
		if len(f) > 4 && f[4] != "" {
			if d, err = number("d", f[4]); err != nil {
				return err
			}
			if !(d >= 0 && d <= 1) {
				return fmt.Errorf("d %g is no probability", d)
			}
		}
		if k <= len(c) && j <= len(c[k-1]) {
			w[strings.Clone(f[0])] += d * c[k-1][j-1] * b
		}
		return nil
	})
	return w, err
}

// ReadBars reads restrictions, one a line: task id, crawler (from 0; empty or any: all), from, to. tasks returns the tasks of an id; the
// restriction holds for all of them. There are so many crawlers.
func ReadBars(r io.Reader, name string, crawlers int, tasks func(id string) []int) ([]Bar, error) {
	var bars []Bar
	err := rows(r, name, "id", 4, 4, func(f []string) error {
		b := Bar{Crawler: -1}
		of := tasks(f[0])
		if len(of) == 0 {
			return fmt.Errorf("no task %.80q", f[0])
		}
		if f[1] != "" && !strings.EqualFold(f[1], "any") {
			k, err := strconv.Atoi(f[1])
			if err != nil || k < 0 {
				return fmt.Errorf("crawler %.80q is neither a number from 0 nor any", f[1])
			}
			if k >= crawlers {
				return fmt.Errorf("no crawler %d: want 0 to %d, or any", k, crawlers-1)
			}
			b.Crawler = k
		}
		var err error
		if b.From, err = number("from", f[2]); err != nil {
			return err
		}
		if b.To, err = number("to", f[3]); err != nil {
			return err
		}
		if !(b.From < b.To) {
			return fmt.Errorf("the time from %g to %g is empty", b.From, b.To)
		}
		for _, b.Task = range of {
			bars = append(bars, b)
		}
		return nil
	})
	return bars, err
}
