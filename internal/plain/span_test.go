package plain

import (
	"testing"
	"time"
)

func TestSpan(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-time.Second: "0 s", 0: "0 s", 20 * time.Millisecond: "0 s", 200 * time.Millisecond: "0.2 s", 960 * time.Millisecond: "1 s",
		3400 * time.Millisecond: "3.4 s", 2 * time.Second: "2 s", 9_960 * time.Millisecond: "10 s", 59_400 * time.Millisecond: "59 s",
		59_600 * time.Millisecond: "1 min", 200 * time.Second: "3 min 20 s", 599_700 * time.Millisecond: "10 min", 25*time.Minute + 20*time.Second: "25 min",
		time.Hour - time.Second: "1 h", 3*time.Hour + 20*time.Minute: "3 h 20 min", day - time.Second: "1 day", day + 40*time.Minute: "1 day 1 h",
		2*day + 3*time.Hour: "2 days 3 h", 9 * day: "9 days", 45 * day: "45 days", 10*day - time.Minute: "10 days", 3 * year: "3 years",
		1<<63 - 1: "292 years",
	} {
		if got := Span(d); got != want {
			t.Errorf("%v: %q, want %q", d, got, want)
		}
	}
}

func TestAgo(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for d, want := range map[time.Duration][2]string{
		0: {"just now", "now"}, 89 * time.Millisecond: {"just now", "now"}, -89 * time.Millisecond: {"just now", "now"},
		1400 * time.Millisecond: {"in 1 s", "in 1 s"}, -200 * time.Second: {"3 min 20 s ago", "now"}, 2 * time.Hour: {"in 2 h", "in 2 h"},
	} {
		if ago, in := Ago(now, now.Add(d)), In(now, now.Add(d)); ago != want[0] || in != want[1] {
			t.Errorf("%v: %q and %q, want %q", d, ago, in, want)
		}
	}
	if got := Ago(now, time.Time{}); got != "never" {
		t.Errorf("no time is %q", got)
	}
}

// TestNumber: three digits tell enough, and an exponent is none of people's words.
func TestNumber(t *testing.T) {
	for v, want := range map[float64]string{0: "0", 1: "1", 100: "100", 999.6: "1000", 1010: "1010", 1e6: "1000000", 53.64: "53.6", 2.5: "2.5", 0.5: "0.5", 0.0371: "0.0371", 0.0000001: "0", -42.35: "-42.4"} {
		if got := Number(v); got != want {
			t.Errorf("%v: %q, want %q", v, got, want)
		}
	}
}
