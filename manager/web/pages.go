package web

import (
	"bytes"
	"errors"
	"fmt"
	"html/template"
	"math"
	"net/http"
	"net/url"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"
	"unicode"

	"shoal/channel"
	"shoal/internal/plain"
	"shoal/manager/desk"
)

// page renders one page; `?fragment=1` renders its live part alone, for live.js.
func (s *server) page(name string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		data, status := s.data(name, r)
		if status != http.StatusOK {
			w.WriteHeader(status)
		}
		t := name
		if r.URL.Query().Get("fragment") != "" {
			t += "-fragment"
		}
		s.render(w, t, data)
	}
}

func (s *server) data(name string, r *http.Request) (map[string]any, int) {
	d := s.frame(r, name, "Overview")
	o := d["O"].(desk.Overview)
	switch name {
	case "overview":
		word := r.URL.Query().Get("range")
		history, word := within(o.History, o.Now, word)
		d["Errors"], d["Noted"], d["History"], d["Ranges"], d["Range"] = byCount(o.Errors), byCount(o.Noted), history, ranges, word
	case "channels":
		return d, s.channels(d, r)
	case "channel":
		id, err := pathID(r)
		if err != nil {
			return d, noChannel(d, channel.ErrUnknown)
		}
		row, events, err := s.cfg.Desk.Row(r.Context(), id)
		if err != nil {
			return d, noChannel(d, err)
		}
		d["Title"], d["Row"], d["Events"] = row.Host, row, events
		if r.URL.Query().Get("fragment") == "" {
			if d["LeftOut"], err = s.cfg.Desk.LeftOut(r.Context(), id); err != nil {
				return d, wrong(d, err)
			}
		}
	case "peers":
		status := http.StatusOK
		peers, err := s.cfg.Desk.Peers()
		if err != nil {
			status = wrong(d, err)
		}
		d["Title"], d["Peers"] = "Peers", peers
		suspects, more, err := s.cfg.Desk.Suspects()
		if err != nil {
			status = wrong(d, err)
		}
		d["Suspects"], d["MoreSuspects"], d["Purging"] = suspects, more, s.cfg.Desk.Purging()
		if d["Refused"], err = s.cfg.Desk.Refused(r.Context()); err != nil {
			status = wrong(d, err)
		}
		return d, status
	}
	return d, http.StatusOK
}

// noChannel fills in why a channel is not shown: there is none, or it cannot be read now. It returns the answer's status.
func noChannel(d map[string]any, err error) int {
	if errors.Is(err, channel.ErrUnknown) {
		d["Title"] = "No such channel"
		return http.StatusNotFound
	}
	d["Title"] = "The channel cannot be read"
	return wrong(d, err)
}

func (s *server) render(w http.ResponseWriter, name string, data any) {
	var b bytes.Buffer
	if err := s.pages.ExecuteTemplate(&b, name, data); err != nil {
		s.cfg.Log.Error("page failed", "page", name, "err", err)
		http.Error(w, "This page could not be made; the manager's log says why.", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	if _, err := w.Write(bytes.Map(visible, b.Bytes())); err != nil {
		s.cfg.Log.Debug("page not sent", "err", err)
	}
}

// visible puts a sign in place of characters that steer instead of being shown: names, reasons and URLs come from volunteers and from the Web.
func visible(r rune) rune {
	if r != '\n' && r != '\t' && (unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r)) {
		return unicode.ReplacementChar
	}
	return r
}

// wrong fills in why something is not shown, and returns the answer's status.
func wrong(d map[string]any, err error) int {
	d["Wrong"] = plainly(err)
	if errors.Is(err, desk.ErrAsk) {
		return http.StatusBadRequest
	}
	return http.StatusServiceUnavailable
}

// channels fills the list of channels in, and returns the answer's status.
func (s *server) channels(d map[string]any, r *http.Request) int {
	status := http.StatusOK
	q := r.URL.Query()
	find := desk.Find{Text: q.Get("q"), State: q.Get("state"), Sort: q.Get("sort")}
	find.From, find.N = paging(r)
	tally, err := s.cfg.Desk.Tally(r.Context())
	if err != nil {
		d["Wrong"] = plainly(err)
	}
	rows, total, err := s.cfg.Desk.Rows(r.Context(), find)
	if err != nil {
		status = wrong(d, err)
	}
	var states []stateCount
	for _, word := range desk.States() {
		states = append(states, stateCount{word, tally[word]})
	}
	at := func(from int) string {
		v := url.Values{"from": {strconv.Itoa(from)}}
		for name, text := range map[string]string{"q": find.Text, "state": find.State, "sort": find.Sort, "n": q.Get("n")} {
			if text != "" {
				v.Set(name, text)
			}
		}
		return "/channels?" + v.Encode()
	}
	d["Title"], d["Rows"], d["Total"], d["From"], d["To"], d["Q"] = "Channels", rows, total, find.From, find.From+len(rows), find.Text
	d["States"], d["State"], d["Sorts"], d["Sort"] = states, find.State, desk.Sorts(), find.Sort
	d["Prev"], d["Next"] = at(max(find.From-find.N, 0)), at(find.From+find.N)
	return status
}

type stateCount struct {
	Word string
	N    int
}

// ranges are the times that the plots can show.
var ranges = []timeRange{{"hour", "last hour", time.Hour}, {"day", "last day", 24 * time.Hour}, {"week", "last week", 7 * 24 * time.Hour}, {"all", "all", 0}}

type timeRange struct {
	Word, Text string
	last       time.Duration // 0: all
}

// within cuts the history to a range, the last hour by default. It returns the range's word, too.
func within(history []desk.Point, now time.Time, word string) ([]desk.Point, string) {
	pick := ranges[0]
	for _, r := range ranges {
		if r.Word == word {
			pick = r
		}
	}
	if pick.last > 0 {
		from := now.Add(-pick.last)
		i, _ := slices.BinarySearchFunc(history, from, func(p desk.Point, t time.Time) int { return p.At.Compare(t) })
		history = history[i:]
	}
	return history, pick.Word
}

type errorCount struct {
	Kind string
	N    int64
}

func byCount(m map[string]int64) []errorCount {
	out := make([]errorCount, 0, len(m))
	for k, n := range m {
		out = append(out, errorCount{k, n})
	}
	sort.Slice(out, func(i, j int) bool {
		if out[i].N != out[j].N {
			return out[i].N > out[j].N
		}
		return out[i].Kind < out[j].Kind
	})
	return out
}

var funcs = template.FuncMap{
	"term":       termOf,
	"stamp":      stampOf,
	"day":        func(t time.Time) string { return t.Format(time.DateOnly) },
	"stateclass": func(state string) string { return "s-" + strings.ReplaceAll(state, " ", "-") },
	"ago":        plain.Ago,
	"in":         plain.In,
	"span":       span,
	"rtt":        rtt,
	"list":       func(v ...any) []any { return v },
	"count":      count,
	"counted":    counted,
	"size":       size,
	"pct":        func(f float64) string { return fmt.Sprintf("%.0f%%", 100*f) },
	"f1":         func(f float64) string { return fmt.Sprintf("%.1f", f) },
	"add":        func(a, b int) int { return a + b },
	"at": func(v []int, i int) string {
		if i < len(v) {
			return count(v[i])
		}
		return ""
	},
	"every": func(v []desk.Seconds, i int) string {
		if i < len(v) && v[i] > 0 {
			return span(v[i])
		}
		return ""
	},
	"short": func(s string) string {
		if len(s) > 12 {
			return s[:4] + "…" + s[len(s)-6:]
		}
		return s
	},
	"chart": chart,
	"swarm": swarm,
	"iso":   func(t time.Time) string { return t.UTC().Format(time.RFC3339) },
}

// span words a length of time.
func span(d any) string {
	if s, ok := d.(desk.Seconds); ok {
		return plain.Span(s.Duration())
	}
	v, _ := d.(time.Duration)
	return plain.Span(v)
}

// rtt words a round-trip time.
func rtt(ms float64) string {
	switch {
	case ms <= 0:
		return ""
	case ms < 10:
		return fmt.Sprintf("%.1f ms", ms)
	}
	return fmt.Sprintf("%.0f ms", ms)
}

// counted is a count of things.
func counted(n any, what string) string {
	number := count(n)
	if number != "1" {
		what += "s"
	}
	return number + " " + what
}

func count(n any) string {
	var v int64
	switch n := n.(type) {
	case int:
		v = int64(n)
	case int64:
		v = n
	case *int64:
		v = *n
	}
	s := fmt.Sprint(v)
	var out []string
	for len(s) > 3 {
		out = append([]string{s[len(s)-3:]}, out...)
		s = s[:len(s)-3]
	}
	return strings.Join(append([]string{s}, out...), "\u202f")
}

func size(n int64) string {
	f, unit := float64(n), "B"
	for _, u := range []string{"kB", "MB", "GB", "TB"} {
		if f < 1000 {
			break
		}
		f, unit = f/1000, u
	}
	if unit == "B" {
		return fmt.Sprintf("%.0f B", f)
	}
	return fmt.Sprintf("%.1f %s", f, unit)
}

// niceTop is a round number at or above v, for the top of an axis.
func niceTop(v float64) float64 {
	if v <= 0 {
		return 1
	}
	step := math.Pow(10, math.Floor(math.Log10(v)))
	for _, m := range []float64{1, 2, 2.5, 5, 10} {
		if m*step >= v {
			return m * step
		}
	}
	return 10 * step
}

// niceSteps divides the axis so that every label is a round number.
func niceSteps(top float64) int {
	lead := top / math.Pow(10, math.Floor(math.Log10(top)))
	switch {
	case lead == 2.5 || lead == 5 || lead == 10 || lead == 1:
		return 5
	default:
		return 4
	}
}
