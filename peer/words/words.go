// Package words holds the sentences that a volunteer reads, each under a key, in each language. The control API, the command line and the
// page take them from here, so that all three say the same. It is not for logs, and not for what other programs read.
//
// Invariant: each language has the same keys, and each sentence the same places for values; a test holds it.
package words

import (
	"embed"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

//go:embed en.json de.json
var files embed.FS

// English is the language of the command line, and of a page whose reader speaks none of ours.
const English = "en"

// languages are those that have a file, the default first.
var languages = []string{English, "de"}

var catalogues = func() map[string]map[string]string {
	all := map[string]map[string]string{}
	for _, l := range languages {
		m := map[string]string{}
		if err := json.Unmarshal(File(l), &m); err != nil {
			panic("words: " + l + ": " + err.Error()) // the files are part of the program
		}
		all[l] = m
	}
	return all
}()

// File returns a language's catalogue as JSON.
func File(lang string) []byte {
	b, err := files.ReadFile(lang + ".json")
	if err != nil {
		return File(English)
	}
	return b
}

// Pick returns the first of a reader's languages that there is, as in "de-AT,de;q=0.9,en;q=0.5". Readers list the languages in the order of
// their wishes.
func Pick(accept string) string {
	for part := range strings.SplitSeq(accept, ",") {
		name, _, _ := strings.Cut(strings.TrimSpace(part), ";")
		name, _, _ = strings.Cut(strings.ToLower(name), "-")
		if slices.Contains(languages, name) {
			return name
		}
	}
	return English
}

// Text is a sentence by its key, with its values. A value may be a Text too.
type Text struct {
	Key  string
	Args []any
}

// T returns a Text.
func T(key string, args ...any) Text { return Text{key, args} }

// Raw returns a Text that is the same in each language.
func Raw(s string) Text { return T("raw", s) }

// Count returns the text of a number of things: the key with ".one" for one, else the key.
func Count(n int, key string) Text {
	if n == 1 {
		key += ".one"
	}
	return T(key, n)
}

// Num is a number that is written as people of each language group its digits.
type Num int64

func (n Num) in(lang string) string {
	s, sign := strconv.FormatInt(int64(n), 10), ""
	if n < 0 {
		s, sign = s[1:], "-"
	}
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + separators[lang] + s[i:]
	}
	return sign + s
}

// separators stand between each three digits.
var separators = map[string]string{English: ",", "de": "."}

// In returns the text in a language. A key that is missing shows itself.
func (t Text) In(lang string) string {
	s, ok := catalogues[lang][t.Key]
	if !ok {
		s, ok = catalogues[English][t.Key]
	}
	if !ok {
		return t.Key
	}
	for i, a := range t.Args {
		switch inner := a.(type) {
		case Text:
			a = inner.In(lang)
		case Num:
			a = inner.in(lang)
		}
		s = strings.ReplaceAll(s, "{"+strconv.Itoa(i)+"}", fmt.Sprint(a))
	}
	return s
}

// Has reports whether there is a sentence under a key.
func Has(key string) bool { _, ok := catalogues[English][key]; return ok }

// Span words a duration as plain.Span does, with two units at most.
func Span(d time.Duration) Text {
	d = d.Round(time.Second)
	two := func(n time.Duration, key string, rest time.Duration, less string) Text {
		first := Count(int(n), key)
		if rest == 0 {
			return first
		}
		return T("span.two", first, Count(int(rest), less))
	}
	const day = 24 * time.Hour
	switch {
	case d < time.Minute:
		return Count(int(max(d, 0)/time.Second), "span.s")
	case d < 10*time.Minute:
		return two(d/time.Minute, "span.min", d%time.Minute/time.Second, "span.s")
	case d.Round(time.Minute) < time.Hour:
		return Count(int(d.Round(time.Minute)/time.Minute), "span.min")
	case d.Round(time.Minute) < day:
		d = d.Round(time.Minute)
		return two(d/time.Hour, "span.h", d%time.Hour/time.Minute, "span.min")
	}
	d = d.Round(time.Hour)
	return two(d/day, "span.day", d%day/time.Hour, "span.h")
}

// Until words a future moment as seen from now; a past one is "now".
func Until(now, t time.Time) Text {
	if t.Sub(now) < time.Second {
		return T("span.now")
	}
	return T("span.in", Span(t.Sub(now)))
}

// Ago words a past moment as seen from now.
func Ago(now, t time.Time) Text {
	if now.Sub(t) < time.Second {
		return T("span.justnow")
	}
	return T("span.ago", Span(now.Sub(t)))
}

// Moment words a time: the hour, and the day if it is not today.
func Moment(t, now time.Time) Text {
	t, now = t.Local(), now.Local()
	at := t.Format("15:04")
	if t.Format(time.DateOnly) == now.Format(time.DateOnly) {
		return Raw(at)
	}
	month := T("month." + strconv.Itoa(int(t.Month())))
	if t.Year() == now.Year() {
		return T("moment.day", t.Day(), month, at)
	}
	return T("moment.year", t.Day(), month, t.Year(), at)
}
