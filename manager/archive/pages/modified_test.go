package pages

import (
	"net/http"
	"strings"
	"testing"
	"time"
)

// TestDateOfTheFetchSaysNothing reads answers of servers that say of each page that it has changed just then, as many do that make pages at each request.
func TestDateOfTheFetchSaysNothing(t *testing.T) {
	fetched := time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)
	at := func(ago time.Duration) string { return fetched.Add(-ago).Format(http.TimeFormat) }
	for name, c := range map[string]struct {
		fields []string
		want   time.Duration // before the fetch; 0: nothing
	}{
		"no date":                                 {nil, 0},
		"long ago":                                {[]string{"Date: " + at(0), "Last-Modified: " + at(time.Hour)}, time.Hour},
		"long ago, without a clock":               {[]string{"Last-Modified: " + at(time.Hour)}, time.Hour},
		"at this moment":                          {[]string{"Date: " + at(0), "Last-Modified: " + at(0)}, 0},
		"while the page was made":                 {[]string{"Date: " + at(0), "Last-Modified: " + at(3*time.Second)}, 0},
		"a moment ago":                            {[]string{"Date: " + at(0), "Last-Modified: " + at(10*time.Second)}, 10 * time.Second},
		"at this moment, without a clock":         {[]string{"Last-Modified: " + at(0)}, 0},
		"a moment ago, without a clock":           {[]string{"Last-Modified: " + at(time.Minute)}, 0},
		"at this moment, by a clock that is late": {[]string{"Date: " + at(time.Hour), "Last-Modified: " + at(time.Hour)}, 0},
		"in time to come":                         {[]string{"Date: " + at(0), "Last-Modified: " + at(-time.Hour)}, 0},
		"no time":                                 {[]string{"Date: " + at(0), "Last-Modified: soon"}, 0},
	} {
		want := int64(0)
		if c.want > 0 {
			want = fetched.Add(-c.want).Unix()
		}
		header := "HTTP/1.1 200 OK\r\n" + strings.Join(append(c.fields, "\r\n"), "\r\n")
		if got := Modified([]byte(header), fetched); got != want {
			t.Errorf("%s: %d, want %d", name, got, want)
		}
	}
}
