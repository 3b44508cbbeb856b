package crawl

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"shoal/channel"
)

// TestReportTellsTheRest ends crawls while their host wants to be left alone: the report says for how long, so that the next crawl of the host waits as well.
func TestReportTellsTheRest(t *testing.T) {
	for name, c := range map[string]struct {
		robots func(http.ResponseWriter)
		want   time.Duration
	}{
		"Retry-After": {func(w http.ResponseWriter) {
			w.Header().Set("Retry-After", "240")
			w.WriteHeader(http.StatusServiceUnavailable)
		}, 4 * time.Minute},
		"Retry-After of a day": {func(w http.ResponseWriter) {
			w.Header().Set("Retry-After", "86400")
			w.WriteHeader(http.StatusServiceUnavailable)
		}, channel.MostRest},
		"too many requests for an hour": {func(w http.ResponseWriter) {
			w.Header().Set("Retry-After", "3600")
			w.WriteHeader(http.StatusTooManyRequests)
		}, time.Hour},
		"a slow answer": {func(w http.ResponseWriter) {
			time.Sleep(20 * time.Second)
			w.WriteHeader(http.StatusInternalServerError)
		}, 20 * time.Second},
		"nothing": {func(w http.ResponseWriter) { w.WriteHeader(http.StatusInternalServerError) }, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				_, r := paced(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { c.robots(w) }), func(*Config) {})
				if d := r.Rest - c.want; d < -time.Millisecond || d > time.Millisecond {
					t.Errorf("the host wants to be left alone for %v, and the report says %v", c.want, r.Rest)
				}
			})
		})
	}
}

// TestReportTellsWhenToComeBack has a site that is being worked on name a time that is longer than any wait within a crawl: the report says so, a day at most.
func TestReportTellsWhenToComeBack(t *testing.T) {
	for says, want := range map[string]time.Duration{"3600": time.Hour, "86400": channel.MostRest, "31536000": channel.MostRest} {
		synctest.Test(t, func(t *testing.T) {
			_, r := paced(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/robots.txt" {
					http.NotFound(w, r)
					return
				}
				w.Header().Set("Retry-After", says)
				w.WriteHeader(http.StatusServiceUnavailable)
			}), func(*Config) {})
			if r.Outcome != channel.HostBlocked || r.Rest != want {
				t.Errorf("Retry-After %s: outcome %d, rest %v, want %v", says, r.Outcome, r.Rest, want)
			}
		})
	}
}
