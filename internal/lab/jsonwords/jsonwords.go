// Package jsonwords checks for tests how JSON is spelt that programs print for scripts: keys in lower case with underscores, times as RFC 3339,
// lengths of time in seconds under keys that end in _s, no null. Round-trip times and coordinates are in milliseconds, and their keys say so.
package jsonwords

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"time"
)

var (
	key      = regexp.MustCompile(`^[a-z][a-z0-9]*(_[a-z0-9]+)*$`)
	unit     = regexp.MustCompile(`_(ns|us|ms|min|minutes|hours|days|seconds)$`)
	millis   = regexp.MustCompile(`^(rtt(_[a-z]+)?|coordinates|height|adjust)_ms$`)
	date     = regexp.MustCompile(`^\d{4}-\d\d-\d\d([T ]|$)`)
	duration = regexp.MustCompile(`^-?(\d+(\.\d+)?(h|m|s|ms|µs|us|ns))+$`)
	moment   = regexp.MustCompile(`(^|_)(at|since|until|started|ended|updated|added|seen|now|time)$`)
)

// unixTime is a number that is the Unix time of a moment in this century and no count that tests have.
const unixTime = 1e9

// nullable are keys of which null means that there is nothing: no purge is under way.
var nullable = []string{"purge"}

// Complaints says what is wrong in a text of JSON values, one after the other. Names are keys whose objects have names of things for keys, as
// kinds of errors.
func Complaints(text string, names ...string) (all []string) {
	c := checker{names: names}
	n := 0
	for d := json.NewDecoder(strings.NewReader(text)); ; n++ {
		var v any
		err := d.Decode(&v)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return append(c.found, fmt.Sprintf("it is no JSON: %v", err))
		}
		c.value("", "", v)
	}
	if n == 0 {
		return []string{"it is empty"}
	}
	return c.found
}

type checker struct {
	names []string
	found []string
}

func (c *checker) complain(at, format string, args ...any) {
	if said := strings.TrimPrefix(at, ".") + fmt.Sprintf(format, args...); !slices.Contains(c.found, said) {
		c.found = append(c.found, said)
	}
}

func (c *checker) value(at, name string, v any) {
	switch v := v.(type) {
	case nil:
		if !slices.Contains(nullable, name) {
			c.complain(at, " is null: an empty list is [], and what is not known is left out")
		}
	case map[string]any:
		for k, inner := range v {
			if !slices.Contains(c.names, name) {
				c.key(at+"."+k, k)
			}
			c.value(at+"."+k, k, inner)
		}
	case []any:
		for _, inner := range v {
			c.value(at+"[]", name, inner)
		}
	case string:
		c.text(at, name, v)
	case float64:
		if moment.MatchString(name) && v >= unixTime {
			c.complain(at, " is a time as a number: %.0f", v)
		}
	}
}

func (c *checker) key(at, k string) {
	if !key.MatchString(k) {
		c.complain(at, " is no key of lower-case words and underscores")
	}
	if unit.MatchString(k) && !strings.Contains(k, "_per_") && !millis.MatchString(k) {
		c.complain(at, " is not in seconds")
	}
}

func (c *checker) text(at, name, s string) {
	switch {
	case strings.HasSuffix(name, "_s"):
		c.complain(at, " is no number of seconds: %q", s)
	case duration.MatchString(s):
		c.complain(at, " is a length of time as a text: %q", s)
	case date.MatchString(s):
		if t, err := time.Parse(time.RFC3339Nano, s); err != nil || t.Year() < 1970 {
			c.complain(at, " is no time as RFC 3339 has it: %q", s)
		}
	}
}
