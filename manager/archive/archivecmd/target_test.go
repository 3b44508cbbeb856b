package archivecmd

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestManagerWithoutScheme names a manager by host and port, as the other commands take it. A backup that it makes is on its machine, and the command says so; one
// that does not answer is not said to use this machine's data.
func TestManagerWithoutScheme(t *testing.T) {
	data := stored(t)
	a := opened(t, data)
	defer func() {
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	}()
	m := http.NewServeMux()
	m.Handle(apiPath+"/archive/", http.StripPrefix(apiPath+"/archive", a.Handler()))
	m.HandleFunc("POST "+apiPath+"/backup", func(http.ResponseWriter, *http.Request) {})
	s := httptest.NewServer(m)
	defer s.Close()
	at := strings.TrimPrefix(s.URL, "http://")
	if out, _, err := shoal(t, data, "get", site, "--manager", at); err != nil || !strings.HasSuffix(out, "second") {
		t.Errorf("get from %s: %q, %v", at, out, err)
	}
	if out, _, err := shoal(t, data, "backup", "/somewhere/new", "--manager", at); err != nil || !strings.Contains(out, "/somewhere/new on the manager's machine") {
		t.Errorf("backup by %s: %q, %v", at, out, err)
	}
	s.Close()
	if _, _, err := shoal(t, data, "get", site, "--manager", at); err == nil || !strings.Contains(err.Error(), "does not answer") || strings.Contains(err.Error(), data) {
		t.Errorf("get from a manager that is away: %v", err)
	}
}
