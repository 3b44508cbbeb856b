package redact

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"
)

var (
	four = netip.MustParseAddr("81.2.69.142")
	six  = netip.MustParseAddr("2a01:4f8:c0c:1::beef")
)

// Each spelling is found at every position of a text, whatever stands before and after it.
func TestEverySpellingIsFound(t *testing.T) {
	f := New(four, six, netip.MustParseAddr("192.168.1.1"))
	for _, s := range []string{
		"81.2.69.142", "81-2-69-142", "81_2_69_142", "81%2E2%2E69%2E142", "142.69.2.81", "5102458e", "5102458E", "1359103374",
		base64.StdEncoding.EncodeToString([]byte("81.2.69.142")),
		"2a01:4f8:c0c:1::beef", "2A01:4F8:C0C:1::BEEF", "2a01:04f8:0c0c:0001:0000:0000:0000:beef", "2a01:4f8:c0c:1:0:0:0:beef",
		"2a01%3A4f8%3Ac0c%3A1%3A%3Abeef", "2a01-4f8-c0c-1--beef", "2a0104f80c0c0001000000000000beef",
		"f.e.e.b.0.0.0.0.0.0.0.0.0.0.0.0.1.0.0.0.c.0.c.0.8.f.4.0.1.0.a.2",
	} {
		for before := range 9 {
			text := strings.Repeat("x", before) + "=" + s + "; path=/"
			if !f.Shows([]byte(text)) {
				t.Errorf("%q is not found", text)
			}
			want := strings.Repeat("x", before) + "=" + Replacement
			if got := string(f.Header([]byte(text))); !strings.HasPrefix(got, want) || strings.Contains(got, s) {
				t.Errorf("%q becomes %q", text, got)
			}
		}
	}
}

func TestOthersAreLeft(t *testing.T) {
	f := New(four, six)
	for _, s := range []string{
		"181.2.69.142", "81.2.69.1421", "81.2.69.14", "8.8.8.8", "192.168.1.1", "2a01:4f8:c0c:1::beef1", "aa5102458e", "91359103374", "", "x",
		"HTTP/1.1 200 OK\r\nServer: nginx/1.2.69\r\n\r\n",
	} {
		if f.Shows([]byte(s)) {
			t.Errorf("%q shows no address of ours", s)
		}
		if got := f.Header([]byte(s)); string(got) != s {
			t.Errorf("%q became %q", s, got)
		}
	}
	var none *Finder
	if none.Shows([]byte("81.2.69.142")) || New().Shows([]byte("81.2.69.142")) || New(netip.MustParseAddr("10.0.0.1")).Shows([]byte("10.0.0.1")) {
		t.Error("nothing is to be found, and something was")
	}
}

func TestHeader(t *testing.T) {
	f := New(four, six)
	in := "HTTP/1.1 200 OK\r\nX-Client-IP: 81.2.69.142\r\nSet-Cookie: ip=2a01%3A4f8%3Ac0c%3A1%3A%3Abeef; n=5102458e\r\nVia: 81.2.69.14\r\n\r\n"
	want := "HTTP/1.1 200 OK\r\nX-Client-IP: redacted\r\nSet-Cookie: ip=redacted; n=redacted\r\nVia: 81.2.69.14\r\n\r\n"
	if got := string(f.Header([]byte(in))); got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

// The table finds what a search for every spelling at every position finds.
func TestAgainstSimple(t *testing.T) {
	f := New(four, six)
	rng := rand.New(rand.NewPCG(1, 2))
	for range 20_000 {
		var b bytes.Buffer
		for range rng.IntN(6) {
			switch rng.IntN(3) {
			case 0:
				s := f.spellings[rng.IntN(len(f.spellings))].text
				b.WriteString(s[rng.IntN(len(s)/2)*rng.IntN(2):])
			default:
				fmt.Fprintf(&b, "%c%d", " .:=x"[rng.IntN(5)], rng.IntN(300))
			}
		}
		text := b.Bytes()
		want := false
		for _, s := range f.spellings {
			for i := 0; i+len(s.text) <= len(text); i++ {
				if string(text[i:i+len(s.text)]) == s.text && (i == 0 || !s.word(text[i-1])) && (i+len(s.text) == len(text) || !s.word(text[i+len(s.text)])) {
					want = true
				}
			}
		}
		if got := f.Shows(text); got != want {
			t.Fatalf("%q: found %v, want %v", text, got, want)
		}
		if want && f.Shows(f.Header(text)) && !strings.Contains(string(text), Replacement) {
			t.Fatalf("%q still shows an address as %q", text, f.Header(text))
		}
	}
}

func FuzzHeader(f *testing.F) {
	f.Add([]byte("X-IP: 81.2.69.142"))
	finder := New(four, six)
	f.Fuzz(func(t *testing.T, b []byte) {
		if out := finder.Header(b); !finder.Shows(b) && !bytes.Equal(out, b) {
			t.Errorf("%q shows nothing and became %q", b, out)
		}
	})
}

// BenchmarkShows looks through a page of 20 kB; the baseline is one bytes.Contains for each spelling.
func BenchmarkShows(b *testing.B) {
	page := bytes.Repeat([]byte(`<a href="/articles/2024/05/17/1359.html" class="c-12 d-69">Seventeen years and 142 days</a> `), 220)
	f := New(four, six)
	b.Run("table", func(b *testing.B) {
		b.SetBytes(int64(len(page)))
		for b.Loop() {
			if f.Shows(page) {
				b.Fatal("there is none")
			}
		}
	})
	b.Run("one by one", func(b *testing.B) {
		b.SetBytes(int64(len(page)))
		for b.Loop() {
			for _, s := range f.spellings {
				if bytes.Contains(page, []byte(s.text)) {
					b.Fatal("there is none")
				}
			}
		}
	})
}
