package pond

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rsa"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// secured is a host of one mode.
func secured(t *testing.T, m Mode) *Server {
	t.Helper()
	s, _ := serve(t, Config{Seed: 1, Hosts: 2, Pages: 20, Plain: true, Static: true, Bad: map[string]Mode{"site-0000" + Suffix: m}})
	return s
}

// shake attempts a handshake.
func shake(t *testing.T, s *Server, protocols ...string) (*tls.Conn, error) {
	t.Helper()
	c, err := net.Dial("tcp", s.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(time.Minute))
	roots, err := s.World().Roots()
	if err != nil {
		t.Fatal(err)
	}
	tc := tls.Client(c, &tls.Config{ServerName: "site-0000" + Suffix, RootCAs: roots, NextProtos: protocols})
	return tc, tc.Handshake()
}

// TestHandshakes checks that the client of crypto/tls refuses each bad handshake for the right reason.
func TestHandshakes(t *testing.T) {
	says := map[Mode]string{
		TLSExpired: "has expired", TLSNotYet: "is before 2099", TLSWrongName: "elsewhere" + Suffix, TLSUnknownCA: "unknown authority",
		TLSSelfSigned: "unknown authority", TLSMalformed: "failed to parse certificate", TLSChain: "exceeds maximum", TLSWeakKey: "512-bit",
		TLSHugeKey: "larger than", TLSOld: "version 301", TLSWeakCipher: "unconfigured cipher suite", TLSProtocol: "ALPN",
		TLSGarbage: "does not look like", TLSAlert: "handshake failure", TLSWarnings: "too many ignored", TLSCut: "EOF",
	}
	for _, m := range Modes() {
		if !strings.HasPrefix(string(m), "tls-") {
			continue
		}
		t.Run(string(m), func(t *testing.T) {
			s := secured(t, m)
			if says[m] != "" {
				if _, err := shake(t, s); err == nil || !strings.Contains(err.Error(), says[m]) {
					t.Errorf("%v, want %q", err, says[m])
				}
				return
			}
			switch m {
			case TLSStall, TLSDrip:
				c, err := net.Dial("tcp", s.Addr().String())
				if err != nil {
					t.Fatal(err)
				}
				defer c.Close()
				hello := &keeps{}
				_ = tls.Client(hello, &tls.Config{ServerName: "site-0000" + Suffix}).Handshake() // only to get its first bytes
				c.Write(hello.b)
				if m == TLSDrip {
					c.SetReadDeadline(time.Now().Add(time.Minute))
					b := make([]byte, 9+6)
					if _, err := io.ReadFull(c, b); err != nil || b[9] != recordHandshake {
						t.Errorf("%x, %v", b, err)
					}
					return
				}
				c.SetReadDeadline(time.Now().Add(300 * time.Millisecond))
				b, err := io.ReadAll(c)
				var late net.Error
				if !errors.As(err, &late) || !late.Timeout() || len(b) > 0 {
					t.Errorf("%d bytes, %v", len(b), err)
				}
			case TLSClientCert:
				c, err := shake(t, s, "http/1.1")
				if err == nil {
					_, err = c.Read(make([]byte, 1))
				}
				if err == nil || !strings.Contains(err.Error(), "certificate required") {
					t.Error(err)
				}
			case TLSStaple:
				c, err := shake(t, s, "h2")
				if err != nil || !strings.HasPrefix(string(c.ConnectionState().OCSPResponse), "revoked? ") || c.ConnectionState().NegotiatedProtocol != "h2" {
					t.Errorf("%v", err)
				}
			case Renegotiate:
				c, err := shake(t, s, "http/1.1")
				if err != nil {
					t.Fatal(err)
				}
				br := bufio.NewReader(c)
				for _, path := range []string{"/robots.txt", "/robots.txt", "/"} {
					io.WriteString(c, "GET "+path+" HTTP/1.1\r\nHost: site-0000"+Suffix+"\r\n\r\n")
					res, err := http.ReadResponse(br, nil)
					if path != "/" && (err != nil || res.StatusCode != 404) || path == "/" && (err == nil || !strings.Contains(err.Error(), "no renegotiation")) {
						t.Errorf("%s: %v", path, err)
					}
				}
			default:
				t.Error("no test shows what it does")
			}
		})
	}
}

// keeps is a connection without an answer.
type keeps struct {
	net.Conn
	b []byte
}

func (k *keeps) Write(b []byte) (int, error) { k.b = append(k.b, b...); return len(b), nil }
func (k *keeps) Read([]byte) (int, error)    { return 0, io.EOF }
func (k *keeps) Close() error                { return nil }

// frames are the frames received on a stream, by kind.
type frames struct {
	n     [256]int
	bytes int // of DATA
	last  []byte
	err   error
}

// TestFrames checks what each misuse of HTTP/2 puts on the wire.
func TestFrames(t *testing.T) {
	const page = len(h2Page)
	wants := map[Mode]func(f *frames) bool{
		H2Reset:        func(f *frames) bool { return f.n[frameReset] == 1 && f.n[frameHeaders] == 0 },
		H2ResetFlood:   func(f *frames) bool { return f.n[frameReset] >= 1000 },
		H2GoAway:       func(f *frames) bool { return f.n[frameGoAway] == 1 },
		H2NoStreams:    func(f *frames) bool { return len(f.last) == 12 },
		H2Settings:     func(f *frames) bool { return f.n[frameSettings] >= 1000 },
		H2Pings:        func(f *frames) bool { return f.n[framePing] >= 1000 },
		H2Continuation: func(f *frames) bool { return f.n[frameHeaders] == 1 && f.n[frameContinuation] >= 1000 },
		H2Headers:      func(f *frames) bool { return f.n[frameContinuation] >= 60 },
		H2HeaderBomb:   func(f *frames) bool { return f.n[frameContinuation] == 7 },
		H2Trailers:     func(f *frames) bool { return f.n[frameHeaders] == 2 && f.bytes > 0 && f.n[frameContinuation] >= 100 },
		H2Interim:      func(f *frames) bool { return f.n[frameHeaders] >= 1000 },
		H2LongData:     func(f *frames) bool { return f.n[frameData] == 2 && f.bytes == 2*page },
		H2ShortData:    func(f *frames) bool { return f.n[frameData] == 1 && f.bytes == page },
		H2Overrun:      func(f *frames) bool { return f.bytes > 5<<20 },
		H2Empty:        func(f *frames) bool { return f.n[frameData] >= 1000 && f.bytes == f.n[frameData]/2*256 },
		H2Drip:         func(f *frames) bool { return f.n[frameData] == 2 && f.bytes == 2 },
		H2Push:         func(f *frames) bool { return f.n[framePush] == 1 && f.bytes == page },
		H2HugeFrame:    func(f *frames) bool { return f.err != nil && strings.Contains(f.err.Error(), "16777215") },
		H2Unknown:      func(f *frames) bool { return f.n[0xfa] >= 1000 },
		H2Cut:          func(f *frames) bool { return f.bytes == page && errors.Is(f.err, io.EOF) },
		H2Silent:       func(f *frames) bool { return f.n[framePing] == 1 && f.n[frameHeaders] == 0 },
		H2HTTP1:        func(f *frames) bool { return f.err != nil },
	}
	for _, m := range Modes() {
		if !m.http2() {
			continue
		}
		t.Run(string(m), func(t *testing.T) {
			want := wants[m]
			if want == nil {
				t.Fatal("no test shows what it does")
			}
			s := secured(t, m)
			tc, err := shake(t, s, "h2")
			if err != nil || tc.ConnectionState().NegotiatedProtocol != "h2" {
				t.Fatal(err)
			}
			c := &h2{tc, bufio.NewReader(tc), bufio.NewWriter(tc)}
			io.WriteString(c.bw, preface)
			c.frame(frameSettings, 0, 0)
			ask := func(stream uint32, path []byte) {
				c.frame(frameHeaders, flagEnd|flagEndHeaders, stream, []byte{0x82, 0x87}, path, []byte{0x41, 19}, []byte("site-0000"+Suffix))
				c.bw.Flush()
			}
			ask(1, append([]byte{0x44}, robotsPath[0]...))
			if m == H2HTTP1 {
				if b, _ := c.br.Peek(8); string(b) != "HTTP/1.1" {
					t.Errorf("%q", b)
				}
				return
			}
			var f frames
			for answered := false; !answered; {
				kind, flags, stream, b, err := c.read()
				if err != nil {
					t.Fatalf("robots.txt: %v", err)
				}
				if kind == frameSettings && flags == 0 {
					f.last = b
				}
				answered = kind == frameHeaders && stream == 1 && bytes.Equal(b, fieldsMissing)
			}
			if m == H2NoStreams {
				if !want(&f) {
					t.Errorf("settings %x", f.last)
				}
				return
			}
			ask(3, []byte{0x84})
			if m == H2Silent {
				c.frame(framePing, 0, 0, make([]byte, 8))
				c.bw.Flush()
			}
			for !want(&f) && f.err == nil {
				var kind byte
				kind, _, _, f.last, f.err = c.read()
				if f.err == nil {
					f.n[kind]++
				}
				if kind == frameData {
					f.bytes += len(f.last)
				}
			}
			if !want(&f) {
				t.Errorf("%v after %v, %d bytes of DATA", f.err, f.n[:10], f.bytes)
			}
		})
	}
}

// TestSecureHosts checks that hosts are good over https, HTTP/1.1 and HTTP/2, and that http leads there for modes of
// TLS.
func TestSecureHosts(t *testing.T) {
	s := secured(t, HTTP2)
	w := s.World()
	roots, err := w.Roots()
	if err != nil {
		t.Fatal(err)
	}
	for _, http2 := range []bool{false, true} {
		tr := &http.Transport{DialContext: w.HTTPDialer(1), TLSClientConfig: &tls.Config{RootCAs: roots}, ForceAttemptHTTP2: http2}
		c := &http.Client{Transport: tr}
		for host := range 2 {
			res, b := get(t, c, "http://"+w.Hosts()[host].Name+w.Path(host, 0))
			if want := string(w.AppendPage(nil, host, 0, Version{Since: w.Config().Start})); b != want || host == 0 != (res.TLS != nil) || host == 0 && http2 != (res.ProtoMajor == 2) {
				t.Errorf("host %d, HTTP/2 %v: %s, %d bytes of %d", host, http2, res.Proto, len(b), len(want))
			}
			if _, b := get(t, c, "https://"+w.Hosts()[host].Name+w.Path(host, 0)); !strings.Contains(b, "</html>") {
				t.Errorf("host %d by https: %q", host, b)
			}
		}
		tr.CloseIdleConnections()
	}
	if u := w.URL(0, 0) + " " + w.URL(1, 0); u != "https://site-0000.pond.test/ http://site-0001.pond.test/" {
		t.Error(u)
	}
	if _, b := get(t, http.DefaultClient, "http://"+s.Addr().String()+"/_pond/ca"); !strings.HasPrefix(b, "-----BEGIN CERTIFICATE-----") {
		t.Errorf("%q", b)
	}
	http.DefaultClient.CloseIdleConnections()
	again, err := NewWorld(w.Config())
	if err != nil {
		t.Fatal(err)
	}
	a, err := w.Authority()
	if b, err2 := again.Authority(); err != nil || err2 != nil || !bytes.Equal(a, b) {
		t.Errorf("the same World has another authority: %v %v", err, err2)
	}
	conf, err := w.identity(0, TLSHugeKey)
	if err != nil || conf.Certificates[0].PrivateKey.(sham).Public().(*rsa.PublicKey).N.BitLen() != 16384 {
		t.Error(err)
	}
}

// TestFrontEnds checks that a Server ends while connections of every kind are open.
func TestFrontEnds(t *testing.T) {
	w, err := NewWorld(Config{Seed: 1, Hosts: 1, Pages: 1, Bad: map[string]Mode{"site-0000" + Suffix: H2Silent}})
	if err != nil {
		t.Fatal(err)
	}
	s, err := NewServer(w, "", nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	silent, err := net.Dial("tcp", s.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	if _, err := shake(t, s, "h2"); err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// A host of HTTP/2 that misbehaves says that it has no robots.txt, so it has not asked for a delay.
func TestNoRobotsNoDelay(t *testing.T) {
	s := secured(t, H2Reset)
	s.w.hosts[0].CrawlDelay = time.Hour
	tc, err := shake(t, s, "h2")
	if err != nil {
		t.Fatal(err)
	}
	c := &h2{tc, bufio.NewReader(tc), bufio.NewWriter(tc)}
	io.WriteString(c.bw, preface)
	c.frame(frameSettings, 0, 0)
	for _, stream := range []uint32{1, 3, 5} {
		c.frame(frameHeaders, flagEnd|flagEndHeaders, stream, []byte{0x82, 0x87, 0x84}, []byte{0x41, 19}, []byte("site-0000"+Suffix))
		c.bw.Flush()
		for kind := byte(0); kind != frameReset; {
			if kind, _, _, _, err = c.read(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if st := s.Stats(); st.Requests != 3 || st.Violated != 0 {
		t.Errorf("%d requests, %v", st.Requests, st.Violations)
	}
}

// TestHungUpOfHTTP2 has a client end a stream that drips, or its connection, and ask again on another connection: no request is beside another.
func TestHungUpOfHTTP2(t *testing.T) {
	s := secured(t, H2Drip)
	for _, reset := range []bool{false, true, false, true} {
		tc, err := shake(t, s, "h2")
		if err != nil {
			t.Fatal(err)
		}
		c := &h2{tc, bufio.NewReader(tc), bufio.NewWriter(tc)}
		io.WriteString(c.bw, preface)
		c.frame(frameSettings, 0, 0)
		c.frame(frameHeaders, flagEnd|flagEndHeaders, 1, []byte{0x82, 0x87, 0x84}, []byte{0x41, 19}, []byte("site-0000"+Suffix))
		c.bw.Flush()
		for kind := byte(0xff); kind != frameData; {
			if kind, _, _, _, err = c.read(); err != nil {
				t.Fatal(err)
			}
		}
		if reset {
			c.frame(frameReset, 0, 1, []byte{0, 0, 0, 8}) // CANCEL
			c.bw.Flush()
			defer tc.Close()
		} else {
			tc.Close()
		}
	}
	if st := s.Stats(); st.Violated != 0 || st.Requests != 4 {
		t.Errorf("%d of %d requests were beside others", st.Violated, st.Requests)
	}
}
