package jsonwords

import (
	"strings"
	"testing"
)

func TestComplaints(t *testing.T) {
	for text, want := range map[string]string{
		`{"at":"2026-11-22T10:00:00Z","next_s":3.5,"rtt_chosen_ms":2,"pages_per_min":1,"version":"v0.1.0"}`: "",
		`{"errors":{"http-404":1,"DNS":2}}`: "",
		`{"a":1}{"b_c":[{"d2":[]}]}`:        "",
		`{"purge":null}`:                    "",
		`{"a":1}{"b_c":[{"d2":null}]}`:      "b_c[].d2 is null",
		`{"Channels":1}`:                    "no key",
		`[{"a":{"bC":1}}]`:                  "a.bC is no key",
		`{"a-b":1}`:                         "no key",
		`{"interval_ns":1}`:                 "not in seconds",
		`{"took_ms":1}`:                     "not in seconds",
		`{"wait_s":"5s"}`:                   "no number",
		`{"wait":"1h30m"}`:                  "length of time",
		`{"at":"2026-11-22 10:00"}`:         "RFC 3339",
		`{"at":"0001-01-01T00:00:00Z"}`:     "RFC 3339",
		`{"started":1795341000}`:            "time as a number",
		`{"a":1} none`:                      "no JSON",
		"":                                  "empty",
	} {
		got := strings.Join(Complaints(text, "errors"), "; ")
		if want == "" && got != "" || !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}
