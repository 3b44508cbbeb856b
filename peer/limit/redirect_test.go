package limit

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestSecretsOfARedirect: an admin's policy may be behind a redirect to an address with a key of its own. Errors show neither that, nor a password.
func TestSecretsOfARedirect(t *testing.T) {
	for to, refused := range map[string]bool{
		"https://admin:hunter2@127.0.0.1:1/p?key=s3cret":   false, // nobody answers
		"http://admin:hunter2@intranet.test/p?key=s3cret":  true,  // not over TLS
		"https://admin:hunter2@[bad/p?key=s3cret":          false, // cannot be read
		"http://127.0.0.1:1/a?key=s3cret#hunter2":          false,
		"ftp://admin:hunter2@intranet.test/p?key=s3cret#x": true,
	} {
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", to)
			w.WriteHeader(http.StatusFound)
		}))
		defer srv.Close()
		_, err := FetchPolicy(t.Context(), srv.Client(), srv.URL+"/first?token=s3cret")
		if err == nil {
			t.Fatalf("%s: no error", to)
		}
		if text := Hide(err.Error(), srv.URL+"/first?token=s3cret"); strings.Contains(text, "s3cret") || strings.Contains(text, "hunter2") {
			t.Errorf("%s: %s", to, text)
		}
		if errors.Is(err, ErrSettings) != refused {
			t.Errorf("%s: %v, want the kind of a wrong setting: %v", to, err, refused)
		}
	}
}
