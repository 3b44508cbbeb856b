package bucket

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// TestRegionOfTheHost asks the host that the URL names, with the region that is in its name. With another region the client would ask another host.
func TestRegionOfTheHost(t *testing.T) {
	for url, want := range map[string]string{
		"s3://a:b@s3.eu-central-1.amazonaws.com/pages":                     "https://pages.s3.dualstack.eu-central-1.amazonaws.com/",
		"s3://a:b@s3.eu-central-1.amazonaws.com:443/pages":                 "https://pages.s3.dualstack.eu-central-1.amazonaws.com/",
		"s3://a:b@s3.eu-central-1.amazonaws.com/pages?region=eu-central-1": "https://pages.s3.dualstack.eu-central-1.amazonaws.com/",
		"s3://a:b@s3.amazonaws.com/pages":                                  "https://pages.s3.dualstack.us-east-1.amazonaws.com/",
		"s3://a:b@s3.amazonaws.com/pages?region=eu-west-3":                 "https://pages.s3.dualstack.eu-west-3.amazonaws.com/",
		"s3://a:b@store.example/pages":                                     "https://store.example/pages/",
	} {
		b, err := OpenToRead(Config{URL: url})
		if err != nil {
			t.Fatal(err)
		}
		asked, err := b.core.PresignedGetObject(t.Context(), "pages", "x", time.Minute, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.TrimSuffix(strings.Split(asked.String(), "?")[0], "x"); got != want {
			t.Errorf("%s: asked is %s, want %s", url, got, want)
		}
	}
}

// TestWrongRegion names the parameter that a URL needs when a store says that the bucket is in another region.
func TestWrongRegion(t *testing.T) {
	for code, status := range map[string]int{"PermanentRedirect": 301, "AuthorizationHeaderMalformed": 400, "InvalidRegion": 400, "IllegalLocationConstraintException": 400} {
		for region, say := range map[string]string{"": "region=NAME", "eu-central-1": "region=eu-central-1"} {
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(status)
				fmt.Fprintf(w, `<?xml version="1.0" encoding="UTF-8"?><Error><Code>%s</Code><Message>elsewhere</Message><Region>%s</Region></Error>`, code, region)
			}))
			_, err := Open(t.Context(), Config{URL: "s3://a:hidden@" + strings.TrimPrefix(s.URL, "http://") + "/pages?tls=off"})
			if !errors.Is(err, ErrURL) || !strings.Contains(err.Error(), say) {
				t.Errorf("%s, region %q: %v", code, region, err)
			}
			s.Close()
		}
	}
}
