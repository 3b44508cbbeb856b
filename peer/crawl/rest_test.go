package crawl

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"
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
		}, MaxRetryAfter},
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
