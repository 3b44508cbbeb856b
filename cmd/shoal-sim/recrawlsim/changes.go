package recrawlsim

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"sort"
	"strconv"
	"strings"

	"shoal/internal/datafile"
)

// History is when a real page changed and to what: times in [0, 1) of the span that was watched, and the number of the content from then on.
type History struct {
	Times   []float64
	Content []int32
}

// ErrChanges says that a file of change histories cannot be used; the text names file and line.
var ErrChanges = errors.New("sim: bad file of changes")

const (
	minChanges   = 8       // of a page that is replayed
	maxHistories = 1 << 20 // lines of the file
)

// LoadHistories reads real change histories: a TSV file, plain or gzip, with a header line of author_epoch, commit_epoch,
// status, path, blob, size, subject, as made from the Open Terms Archive's versions. Technical changes of that project are left out.
func LoadHistories(path string) ([]History, error) {
	f, err := datafile.Open(path)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrChanges, err)
	}
	defer f.Close()
	return ReadHistories(f, path)
}

// ReadHistories reads such a file; name stands for it in errors.
func ReadHistories(r io.Reader, name string) ([]History, error) {
	type change struct {
		at   int64
		blob string
	}
	byPath := map[string][]change{}
	lines := bufio.NewScanner(io.LimitReader(r, 1<<30))
	lines.Buffer(nil, 1<<20)
	n := 1
	for ; lines.Scan() && lines.Err() == nil; n++ { // before the error there may be a piece of a line
		if n == 1 && strings.HasPrefix(lines.Text(), "author_epoch") {
			continue
		}
		if n > maxHistories {
			return nil, fmt.Errorf("%w: %s:%d: more than %d lines", ErrChanges, name, n, maxHistories)
		}
		fields := strings.SplitN(lines.Text(), "\t", 7)
		if len(fields) != 7 {
			return nil, fmt.Errorf("%w: %s:%d: %d fields, want 7", ErrChanges, name, n, len(fields))
		}
		at, err := strconv.ParseInt(fields[0], 10, 64)
		if err != nil {
			return nil, fmt.Errorf("%w: %s:%d: author_epoch %q is no number of seconds", ErrChanges, name, n, fields[0])
		}
		technical := slices.ContainsFunc([]string{"Apply technical", "Refilter", "Start tracking", "First record"}, func(p string) bool {
			return strings.HasPrefix(fields[6], p)
		})
		if technical || !strings.Contains(fields[3], "/") {
			continue
		}
		byPath[fields[3]] = append(byPath[fields[3]], change{at, fields[4]})
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("%w: %s:%d: %w", ErrChanges, name, n, err)
	}
	var out []History
	paths := make([]string, 0, len(byPath))
	for p := range byPath {
		paths = append(paths, p)
	}
	sort.Strings(paths)
	for _, p := range paths {
		all := byPath[p]
		sort.SliceStable(all, func(i, j int) bool { return all[i].at < all[j].at })
		from, to := all[0].at, all[len(all)-1].at
		if len(all) < minChanges || to <= from {
			continue
		}
		span := float64(to-from) * float64(len(all)) / float64(len(all)-1) // one mean gap from the last change to the first again
		h, number := History{}, map[string]int32{}
		for _, c := range all {
			if _, ok := number[c.blob]; !ok {
				number[c.blob] = int32(len(number))
			}
			h.Times = append(h.Times, float64(c.at-from)/span)
			h.Content = append(h.Content, number[c.blob])
		}
		out = append(out, h)
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("%w: %s: no page with at least %d changes", ErrChanges, name, minChanges)
	}
	return out, nil
}

// replay is a history stretched so that it changes once in tau minutes on average, begun somewhere and repeated for ever.
type replay struct {
	h      *History
	span   float64 // minutes of a repetition
	offset float64
}

func newReplay(h *History, tau float64, rng *rand.Rand) replay {
	span := tau * float64(len(h.Times))
	return replay{h: h, span: span, offset: rng.Float64() * span}
}

// at is the index of the change in force at a minute, counted on over repetitions, and the minute of the next change.
func (r replay) at(minute float64) (n int64, next float64) {
	x := minute + r.offset
	round := int64(x / r.span)
	in := x/r.span - float64(round)
	k := sort.SearchFloat64s(r.h.Times, in)
	if k < len(r.h.Times) && r.h.Times[k] == in {
		k++
	}
	length := int64(len(r.h.Times))
	if k == len(r.h.Times) {
		next = float64(round+1)*r.span + r.h.Times[0]*r.span - r.offset
	} else {
		next = (float64(round)+r.h.Times[k])*r.span - r.offset
	}
	return round*length + int64(k) - 1, next
}

// content is the content in force after change n.
func (r replay) content(n int64) int32 {
	l := int64(len(r.h.Content))
	return r.h.Content[((n%l)+l)%l]
}

// fresh is for how many of the minutes from a visit to another the content was that of the first, and whether it is another at the second.
func (r replay) fresh(from, to float64) (minutes float64, changed bool) {
	n, next := r.at(from)
	mine := r.content(n)
	at := from
	for at < to {
		end := min(next, to)
		if r.content(n) == mine {
			minutes += end - at
		}
		if next >= to {
			break
		}
		at = next
		var m int64
		m, next = r.at(at + 1e-9*r.span)
		n = max(m, n+1)
		if next <= at {
			next = at + 1e-9*r.span
		}
	}
	return minutes, r.content(n) != mine
}
