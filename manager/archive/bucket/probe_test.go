package bucket

import (
	"context"
	"errors"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"shoal/internal/lab/s3lab"
)

// TestNoProbeStays breaks the look at a bucket off in its middle: what it has written is removed all the same. What a program has left that was killed then, the next
// one removes, and nothing else.
func TestNoProbeStays(t *testing.T) {
	lab := s3lab.Start(t, s3lab.Options{})
	b, err := OpenToRead(Config{URL: lab.URL()})
	if err != nil {
		t.Fatal(err)
	}
	broken, cancel := context.WithCancel(t.Context())
	defer cancel()
	lab.Break(func(r *http.Request) s3lab.Fault {
		if r.Method == http.MethodGet && strings.Contains(r.URL.Path, probes) {
			cancel()
		}
		return s3lab.Fault{}
	})
	if err := b.check(broken); !errors.Is(err, context.Canceled) {
		t.Errorf("a look that is broken off: %v", err)
	}
	lab.Break(nil)
	if left, err := lab.Objects(); err != nil || len(left) > 0 {
		t.Errorf("a look that was broken off left %q, %v", left, err)
	}
	old := map[string]string{probes + random(): probe, probes + random() + ".txt": probe, probes + "0123456789abcdef": "somebody's own, as long as it is"}
	for name, text := range old {
		if err := b.Put(t.Context(), name, []byte(text)); err != nil {
			t.Fatal(err)
		}
		at := time.Now().Add(-2 * probeOld)
		if err := os.Chtimes(lab.File(name), at, at); err != nil {
			t.Fatal(err)
		}
	}
	young := probes + random()
	if err := b.Put(t.Context(), young, []byte(probe)); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), Config{URL: lab.URL()}); err != nil {
		t.Fatal(err)
	}
	left, err := lab.Objects()
	if err != nil || len(left) != 3 {
		t.Errorf("left are %q, %v; want all but the old one", left, err)
	}
	for _, name := range left {
		if name != young && len(name) == len(young) && old[name] == probe {
			t.Errorf("%s stayed", name)
		}
	}
}
