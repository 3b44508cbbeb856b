package chaos

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// ErrText is returned for text that is no script.
var ErrText = errors.New("chaos: not a script")

// MaxText bounds the text that Parse takes.
const MaxText = 16 << 20

// String returns the text form: the seed, then a fault a line.
//
//	seed 7
//	1.2s kill-peer 3 for 4s
//	2s strategy price
//	2.5s compact
func (s Script) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "seed %d\n", s.Seed)
	for _, f := range s.Faults {
		b.WriteString(f.String())
		b.WriteByte('\n')
	}
	return b.String()
}

// String returns the fault's line.
func (f Fault) String() string {
	line := fmt.Sprintf("%v %s", f.At, f.Kind)
	w, _ := find(f.Kind)
	if w.peer || w.host {
		line += fmt.Sprintf(" %d", f.Target)
	}
	if w.named != nil {
		line += " " + f.Name
	}
	if w.lasting {
		line += fmt.Sprintf(" for %v", f.For)
	}
	return line
}

// Parse reads the text form. Empty lines, and what follows a #, are left out.
func Parse(text string) (Script, error) {
	if len(text) > MaxText {
		return Script{}, fmt.Errorf("%w: it is longer than %d bytes", ErrText, MaxText)
	}
	var s Script
	seeded := false
	for n, line := range strings.Split(text, "\n") {
		line, _, _ = strings.Cut(line, "#")
		words := strings.Fields(line)
		var err error
		switch {
		case len(words) == 0:
			continue
		case !seeded:
			s.Seed, err = parseSeed(words)
			seeded = true
		case len(s.Faults) == MaxFaults:
			err = fmt.Errorf("more than %d faults", MaxFaults)
		default:
			var f Fault
			f, err = parseFault(words)
			s.Faults = append(s.Faults, f)
		}
		if err != nil {
			return Script{}, fmt.Errorf("%w: line %d: %w", ErrText, n+1, err)
		}
	}
	if !seeded {
		return Script{}, fmt.Errorf("%w: it is empty", ErrText)
	}
	slices.SortStableFunc(s.Faults, func(a, b Fault) int { return int(a.At/time.Millisecond - b.At/time.Millisecond) })
	return s, nil
}

func parseSeed(words []string) (uint64, error) {
	if len(words) != 2 || words[0] != "seed" {
		return 0, fmt.Errorf("%.40q: want the seed first, as: seed 7", strings.Join(words, " "))
	}
	seed, err := strconv.ParseUint(words[1], 10, 64)
	if err != nil {
		return 0, fmt.Errorf("seed %.40q is no number", words[1])
	}
	return seed, nil
}

func parseFault(words []string) (f Fault, err error) {
	if len(words) < 2 {
		return f, fmt.Errorf("%.40q: want a time and a kind, as: 2s compact", words[0])
	}
	if f.At, err = parseTime(words[0]); err != nil {
		return f, err
	}
	w, ok := find(Kind(words[1]))
	if !ok {
		return f, fmt.Errorf("%.40q is no kind; there are %v", words[1], Kinds())
	}
	f.Kind = w.kind
	rest := words[2:]
	if w.peer || w.host {
		if len(rest) == 0 {
			return f, fmt.Errorf("%s: want the number of its target", w.kind)
		}
		if f.Target, err = strconv.Atoi(rest[0]); err != nil || f.Target < 0 {
			return f, fmt.Errorf("%s: %.40q is no number of a target", w.kind, rest[0])
		}
		rest = rest[1:]
	}
	if w.named != nil {
		if len(rest) == 0 {
			return f, fmt.Errorf("%s: want a name", w.kind)
		}
		f.Name, rest = rest[0], rest[1:]
	}
	if w.lasting {
		if len(rest) < 2 || rest[0] != "for" {
			return f, fmt.Errorf("%s: want how long it lasts, as: for 4s", w.kind)
		}
		if f.For, err = parseTime(rest[1]); err != nil {
			return f, err
		}
		rest = rest[2:]
	}
	if len(rest) > 0 {
		return f, fmt.Errorf("%s: %.40q is too much", w.kind, strings.Join(rest, " "))
	}
	return f, nil
}

const maxTime = 365 * 24 * time.Hour

func parseTime(text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 || d > maxTime || d%time.Millisecond != 0 {
		return 0, fmt.Errorf("%.40q is no length of time in whole milliseconds, as 1.5s", text)
	}
	return d, nil
}

func find(k Kind) (what, bool) {
	i := slices.IndexFunc(kinds, func(w what) bool { return w.kind == k })
	if i < 0 {
		return what{}, false
	}
	return kinds[i], true
}

// word reports whether a name can stand in a line.
func word(s string) bool {
	return s != "" && !strings.Contains(s, "#") && len(strings.Fields(s)) == 1 && strings.TrimSpace(s) == s
}
