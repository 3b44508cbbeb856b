package archivecmd

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"shoal/manager/archive"
)

// TestGetIsTheSameOfAManager: of a page shoal get prints the same whether the manager runs or not, also of a manager of an older version but for the time.
func TestGetIsTheSameOfAManager(t *testing.T) {
	data := stored(t)
	var stopped [2]string
	var err error
	args := []string{"get", site}
	if _, stopped[0], err = shoal(t, data, args...); err != nil {
		t.Fatal(err)
	}
	if stopped[1], _, err = shoal(t, data, append(args, "--json")...); err != nil {
		t.Fatal(err)
	}
	a := opened(t, data)
	defer func() {
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	}()
	old := false
	s := httptest.NewServer(http.StripPrefix(apiPath+"/archive", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if w = http.ResponseWriter(&older{w, old}); r.URL.Path != "/page" {
			t.Errorf("%s is asked for", r.URL)
		}
		a.Handler().ServeHTTP(w, r)
	})))
	defer s.Close()
	for _, old = range []bool{false, true} {
		if _, said, err := shoal(t, data, append(args, "--manager", s.URL)...); err != nil || said != stopped[0] {
			t.Errorf("it says %q, of a stopped one %q, %v", said, stopped[0], err)
		}
		if out, _, err := shoal(t, data, append(args, "--json", "--manager", s.URL)...); err != nil || out != stopped[1] {
			t.Errorf("it prints %s, of a stopped one %s, %v", out, stopped[1], err)
		}
	}
}

// older answers as an older version did.
type older struct {
	http.ResponseWriter
	is bool
}

func (o *older) Write(b []byte) (int, error) {
	if o.is {
		o.Header().Del(archive.MimeHeader)
	}
	return o.ResponseWriter.Write(b)
}

// TestBrokenOff: where a manager breaks an answer off, the commands say where the reason is told.
func TestBrokenOff(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte("{}\n")) // the client sees it
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}))
	defer s.Close()
	for _, args := range []string{"export", "archive cdx", "get " + site} {
		if _, _, err := shoal(t, t.TempDir(), append(strings.Fields(args), "--manager", s.URL)...); err == nil || !strings.Contains(err.Error(), "its log says why") {
			t.Errorf("%s: %v", args, err)
		}
	}
}
