package s3lab

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
)

// client is one that sends each request once.
func client(t *testing.T, s *Store) *minio.Client {
	t.Helper()
	c, err := minio.New(s.front.Listener.Addr().String(), &minio.Options{Creds: credentials.NewStaticV4(Access, Secret, ""), Region: "us-east-1", MaxRetries: 1})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func put(t *testing.T, c *minio.Client, s *Store, name, body string) error {
	t.Helper()
	_, err := c.PutObject(t.Context(), s.name, name, strings.NewReader(body), int64(len(body)), minio.PutObjectOptions{DisableMultipart: true})
	return err
}

// TestFaults breaks requests in every way, and looks at what is there then.
func TestFaults(t *testing.T) {
	s := Start(t, Options{})
	c := client(t, s)
	if err := put(t, c, s, "whole", "text"); err != nil {
		t.Fatal(err)
	}
	for name, f := range map[string]Fault{"status": {Status: http.StatusInternalServerError}, "cut": {Cut: 1000}, "silent": {Silent: true}} {
		s.Break(s.Puts(name, func() Fault { return f }))
		if err := put(t, c, s, name, strings.Repeat("x", 100_000)); err == nil {
			t.Errorf("%s: the request did not fail", name)
		}
	}
	for hide, want := range map[time.Duration]int{time.Hour: 0, 0: 2} {
		s.Break(func(*http.Request) Fault { return Fault{Hide: hide} })
		n := 0
		for o := range c.ListObjectsIter(t.Context(), s.name, minio.ListObjectsOptions{Recursive: true}) {
			if o.Err != nil {
				t.Fatal(o.Err)
			}
			n++
		}
		if n != want {
			t.Errorf("a listing that leaves out what is younger than %v has %d objects, want %d", hide, n, want)
		}
	}
	s.Break(nil)
	names, err := s.Objects()
	if err != nil || strings.Join(names, " ") != "silent whole" {
		t.Errorf("objects %q, %v; want those whose requests took effect", names, err)
	}
	in, err := c.GetObject(t.Context(), s.name, "whole", minio.GetObjectOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	if text, err := io.ReadAll(in); err != nil || string(text) != "text" {
		t.Errorf("%q, %v", text, err)
	}
}
