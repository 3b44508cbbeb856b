package archive

import (
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	pb "shoal/manager/archive/archivepb"
)

// FuzzValues reads foreign bytes as every kind of stored value.
func FuzzValues(f *testing.F) {
	for _, m := range []proto.Message{&pb.State{Id: []byte("12345678")}, &pb.Page{Url: "http://example.org/"}, &pb.Entry{Kind: 1, Page: &pb.PageEvent{Event: 2}}} {
		b, err := encode(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Add([]byte{})
	f.Add([]byte{2})
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, m := range []proto.Message{new(pb.State), new(pb.Page), new(pb.Entry), new(pb.Capture), new(pb.Content), new(pb.File), new(pb.Channel), new(pb.Deposit)} {
			if err := decode(b, m); err == nil {
				if _, err := encode(m); err != nil {
					t.Errorf("read and cannot be written: %v", err)
				}
			}
		}
	})
}

// FuzzCursor reads foreign cursors.
func FuzzCursor(f *testing.F) {
	a := &Archive{id: [8]byte{1, 2, 3}}
	f.Add(a.cursor(keyFeed, 77))
	f.Add("")
	f.Fuzz(func(t *testing.T, s string) {
		if seq, err := a.position(keyFeed, s); err == nil && s != "" && a.cursor(keyFeed, seq) != s {
			t.Errorf("cursor %q is read as %d, which is %q", s, seq, a.cursor(keyFeed, seq))
		}
	})
}

func TestSURT(t *testing.T) {
	for url, want := range map[string]string{
		"http://www.example.org/a/b?c=d":   "org,example,www)/a/b?c=d",
		"https://example.org:8443/":        "org,example:8443)/",
		"http://127.0.0.1:7780/x":          "127.0.0.1:7780)/x",
		"http://[2001:db8::1]/x":           "[2001:db8::1])/x",
		"http://[2001:db8::1]:81/x":        "[2001:db8::1]:81)/x",
		"http://a/":                        "a)/",
		"http://site-000.pond.test/p/1.ht": "test,pond,site-000)/p/1.ht",
	} {
		if got := SURT(url); got != want {
			t.Errorf("SURT(%q) = %q, want %q", url, got, want)
		}
		if got := urlOfCapture(keyOfCapture(url, time.Unix(1, 0))); got != url {
			t.Errorf("%q came back from its key as %q", url, got)
		}
	}
}
