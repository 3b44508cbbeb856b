package bucket

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"shoal/internal/lab/s3lab"
)

// TestRefused opens buckets that cannot be used. Each error names what is wrong, and nothing is written.
func TestRefused(t *testing.T) {
	lab, safe := s3lab.Start(t, s3lab.Options{}), s3lab.Start(t, s3lab.Options{TLS: true})
	owned := s3lab.Start(t, s3lab.Options{})
	if _, err := Open(t.Context(), Config{URL: owned.URL(), Network: [32]byte{1}}); err != nil {
		t.Fatal(err)
	}
	var wrote atomic.Int32
	owned.Break(func(r *http.Request) s3lab.Fault {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			wrote.Add(1)
		}
		return s3lab.Fault{}
	})
	notPEM := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(notPEM, []byte("no certificate"), 0o600); err != nil {
		t.Fatal(err)
	}
	name := strings.TrimSuffix(lab.URL()[strings.LastIndex(lab.URL(), "/")+1:], "?tls=off")
	for what, c := range map[string]struct {
		url  string
		want error
		say  string
	}{
		"no URL":            {"", ErrURL, form},
		"another scheme":    {"https://host/bucket", ErrURL, form},
		"no bucket":         {"s3://a:hidden@host", ErrURL, "names no bucket"},
		"unknown parameter": {lab.URL() + "&colour=blue", ErrURL, "colour=blue"},
		"no such authority": {lab.URL() + "&ca=/nowhere", ErrURL, "/nowhere"},
		"no authority":      {lab.URL() + "&ca=" + notPEM, ErrURL, "PEM"},
		"nobody there":      {"s3://a:hidden@127.0.0.1:1/bucket?tls=off", ErrUnreachable, "--bucket"},
		"wrong bucket":      {lab.URLOf(s3lab.Access, s3lab.Secret, "missing"), ErrNone, "create it"},
		"wrong key":         {lab.URLOf("other", "hidden", name), ErrRefused, "correct the key"},
		"wrong secret":      {lab.URLOf(s3lab.Access, "hidden", name), ErrRefused, "correct the key"},
		"not trusted":       {safe.URL(), ErrUnreachable, "ca=FILE"},
		"no TLS there":      {strings.TrimSuffix(lab.URL(), "?tls=off"), ErrUnreachable, "tls=off"},
		"another network":   {owned.URL(), ErrOtherNetwork, "choose another bucket"},
	} {
		t.Run(what, func(t *testing.T) {
			cfg := Config{URL: c.url, Network: [32]byte{2}, Patience: 10 * time.Second}
			_, opened := Open(t.Context(), cfg)
			for _, err := range []error{opened, Look(t.Context(), cfg)} {
				if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.say) {
					t.Errorf("error %v; want %v, saying %q", err, c.want, c.say)
				}
				if err != nil && strings.Contains(err.Error(), "hidden") {
					t.Errorf("%q shows the secret", err)
				}
			}
		})
	}
	if names, err := lab.Objects(); err != nil || len(names) > 0 {
		t.Errorf("objects %q, %v", names, err)
	}
	if n := wrote.Load(); n > 0 {
		t.Errorf("%d requests would change the bucket of another network", n)
	}
}

// TestRights takes one right after the other away.
func TestRights(t *testing.T) {
	lab := s3lab.Start(t, s3lab.Options{})
	for what, method := range map[string]string{"list": http.MethodGet, "write": http.MethodPut, "remove": http.MethodDelete} {
		lab.Break(func(r *http.Request) s3lab.Fault {
			if r.Method == method {
				return s3lab.Fault{Status: http.StatusForbidden}
			}
			return s3lab.Fault{}
		})
		if _, err := Open(t.Context(), Config{URL: lab.URL()}); !errors.Is(err, ErrRights) || !strings.Contains(err.Error(), what) || !strings.Contains(err.Error(), "s3:PutObject") {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// TestTLS trusts the authority that the URL names.
func TestTLS(t *testing.T) {
	lab := s3lab.Start(t, s3lab.Options{TLS: true})
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, lab.Certificate(), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), Config{URL: lab.URL() + "?ca=" + ca}); err != nil {
		t.Error(err)
	}
}

// TestObjects writes, lists, reads and removes objects of several sizes, below a prefix.
func TestObjects(t *testing.T) {
	ctx := t.Context()
	lab := s3lab.Start(t, s3lab.Options{})
	at := strings.Replace(lab.URL(), "?", "/below/here?", 1)
	t.Setenv("AWS_ACCESS_KEY_ID", s3lab.Access)
	t.Setenv("AWS_SECRET_ACCESS_KEY", s3lab.Secret)
	b, err := Open(ctx, Config{URL: strings.Replace(at, s3lab.Access+":"+s3lab.Secret+"@", "", 1), Network: [32]byte{3}})
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(b.where, s3lab.Secret) || !strings.Contains(b.where, "below/here") {
		t.Errorf("where: %s", b.where)
	}
	large := bytes.Repeat([]byte("0123456789abcdef"), 5*partSize/16)
	for name, put := range map[string]func() error{
		"x/empty":   func() error { return b.Put(ctx, "x/empty", nil) },
		"x/small":   func() error { return b.Put(ctx, "x/small", []byte("0123456789")) },
		"x/large":   func() error { return b.PutFrom(ctx, "x/large", bytes.NewReader(large), int64(len(large))) },
		"x/unknown": func() error { return b.PutFrom(ctx, "x/unknown", bytes.NewReader(large[:3*partSize/2]), -1) },
	} {
		if err := put(); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	sizes := map[string]int64{}
	if err := b.List(ctx, "x/", func(o Object) error { sizes[o.Name] = o.Size; return nil }); err != nil {
		t.Fatal(err)
	}
	if len(sizes) != 4 || sizes["x/empty"] != 0 || sizes["x/small"] != 10 || sizes["x/large"] != int64(len(large)) || sizes["x/unknown"] != 3*partSize/2 {
		t.Errorf("sizes %v", sizes)
	}
	read := func(name string, from, length int64) string {
		t.Helper()
		in, err := b.Get(ctx, name, from, length)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(in)
		if err = errors.Join(err, in.Close()); err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	if a, c := read("x/small", 2, 3), read("x/small", 7, -1); a != "234" || c != "789" {
		t.Errorf("read %q and %q", a, c)
	}
	if got := read("x/large", 4*partSize+16, 16); got != "0123456789abcdef" {
		t.Errorf("read %q", got)
	}
	if n, err := b.Size(ctx, "x/small"); err != nil || n != 10 {
		t.Errorf("size %d, %v", n, err)
	}
	for range 2 { // it is no error that it is gone
		if err := b.Remove(ctx, "x/small"); err != nil {
			t.Error(err)
		}
	}
	if _, err := b.Get(ctx, "x/small", 0, -1); !errors.Is(err, ErrNoObject) {
		t.Errorf("read of what was removed: %v", err)
	}
	if _, err := b.Size(ctx, "x/small"); !errors.Is(err, ErrNoObject) {
		t.Errorf("size of what was removed: %v", err)
	}
}

// TestPutIsBounded writes to a store that fails in every way, for good: each write ends, with few requests, and nothing of an object is there that was not
// acknowledged. A store whose listings lag behind is asked for the object itself.
func TestPutIsBounded(t *testing.T) {
	ctx := t.Context()
	lab := s3lab.Start(t, s3lab.Options{})
	b, err := Open(ctx, Config{URL: lab.URL()})
	if err != nil {
		t.Fatal(err)
	}
	hasty := *b
	hasty.cfg.Patience = time.Second
	body := bytes.Repeat([]byte("page"), 1000)
	for name, fault := range map[string]s3lab.Fault{"status-500": {Status: http.StatusInternalServerError}, "status-503": {Status: http.StatusServiceUnavailable}, "cut": {Cut: 100}, "late": {Delay: 10 * time.Second}} {
		sent := 0
		var mu sync.Mutex
		lab.Break(lab.Puts(name, func() s3lab.Fault {
			mu.Lock()
			defer mu.Unlock()
			sent++
			return fault
		}))
		to := b
		if fault.Delay > 0 {
			to = &hasty
		}
		err := to.Put(ctx, name, body)
		mu.Lock()
		if !errors.Is(err, ErrUnreachable) || sent == 0 && fault.Delay == 0 || sent > tries { // in a second a busy machine may come to none
			t.Errorf("%s: %v, after %d requests", name, err, sent)
		}
		if says := strings.Contains(err.Error(), "does not answer in time: look at the store"); says != (name == "late") {
			t.Errorf("%s: %v", name, err)
		}
		mu.Unlock()
		lab.Break(nil)
		if _, err := b.Size(ctx, name); !errors.Is(err, ErrNoObject) {
			t.Errorf("%s: something is there of an object that was not acknowledged: %v", name, err)
		}
	}

	large := bytes.Repeat([]byte("0123456789abcdef"), 5*partSize/16)
	lab.Break(func(r *http.Request) s3lab.Fault { // the third part of an upload never comes
		if r.URL.Query().Get("partNumber") == "3" {
			return s3lab.Fault{Status: http.StatusInternalServerError}
		}
		return s3lab.Fault{}
	})
	if err := b.PutFrom(ctx, "large", bytes.NewReader(large), int64(len(large))); !errors.Is(err, ErrUnreachable) {
		t.Errorf("an upload without its third part: %v", err)
	}
	lab.Break(nil)
	if _, err := b.Size(ctx, "large"); !errors.Is(err, ErrNoObject) {
		t.Errorf("a part of an upload is there: %v", err)
	}

	lab.Break(func(*http.Request) s3lab.Fault { return s3lab.Fault{Hide: time.Hour} })
	if err := b.Put(ctx, "hidden", body); err != nil {
		t.Fatal(err)
	}
	if err := b.List(ctx, "hidden", func(o Object) error { t.Errorf("%s is listed", o.Name); return nil }); err != nil {
		t.Error(err)
	}
	if n, err := b.Size(ctx, "hidden"); err != nil || n != int64(len(body)) {
		t.Errorf("an object that no listing has yet: %d bytes, %v", n, err)
	}
	lab.Break(nil)
}
