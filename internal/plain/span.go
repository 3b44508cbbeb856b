package plain

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

const (
	day  = 24 * time.Hour
	year = 365 * day
)

// Span words a duration with two units at most: "0.2 s", "3 min 20 s", "2 days 3 h", "3 years".
func Span(d time.Duration) string {
	switch {
	case d <= 0:
		return "0 s"
	case d < 10*time.Second-50*time.Millisecond:
		return strconv.FormatFloat(d.Round(100*time.Millisecond).Seconds(), 'f', -1, 64) + " s"
	case d.Round(time.Second) < time.Minute:
		return fmt.Sprintf("%d s", d.Round(time.Second)/time.Second)
	case d.Round(time.Second) < 10*time.Minute:
		return two(d.Round(time.Second), time.Minute, "min", time.Second, "s")
	case d.Round(time.Minute) < time.Hour:
		return fmt.Sprintf("%d min", d.Round(time.Minute)/time.Minute)
	case d.Round(time.Minute) < day:
		return two(d.Round(time.Minute), time.Hour, "h", time.Minute, "min")
	case d.Round(time.Hour) < 10*day:
		return two(d.Round(time.Hour), day, "days", time.Hour, "h")
	case d < 2*year:
		return fmt.Sprintf("%d days", d.Round(day)/day)
	}
	return fmt.Sprintf("%d years", d.Round(year)/year)
}

// two words a duration as a multiple of more and a rest in less.
func two(d, more time.Duration, name string, less time.Duration, names string) string {
	n := d / more
	if n == 1 && name == "days" {
		name = "day"
	}
	s := fmt.Sprintf("%d %s", n, name)
	if rest := d % more / less; rest > 0 {
		s += fmt.Sprintf(" %d %s", rest, names)
	}
	return s
}

// Ago words a moment as seen from now: "3 min 20 s ago", "in 2 h", "just now", or "never" for the zero time.
func Ago(now, t time.Time) string {
	d := now.Sub(t)
	switch {
	case t.IsZero():
		return "never"
	case d > -time.Second && d < time.Second: // clocks differ by as much, and so do two readings of one
		return "just now"
	case d < 0:
		return "in " + Span((-d).Round(time.Second))
	}
	return Span(d.Round(time.Second)) + " ago"
}

// In words a future moment as seen from now. A past moment is "now".
func In(now, t time.Time) string {
	if t.Sub(now) < time.Second {
		return "now"
	}
	return Ago(now, t)
}

// Number words a figure with about three digits, and never with an exponent.
func Number(v float64) string {
	if v == 0 || math.IsNaN(v) || math.IsInf(v, 0) {
		return fmt.Sprint(v)
	}
	after := min(max(2-int(math.Floor(math.Log10(math.Abs(v)))), 0), 6)
	s := strconv.FormatFloat(v, 'f', after, 64)
	if strings.Contains(s, ".") {
		s = strings.TrimRight(strings.TrimRight(s, "0"), ".")
	}
	return s
}
