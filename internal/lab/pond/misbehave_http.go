package pond

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/zstd"
)

// rawly answers in ways in which net/http never does.
func (s *Server) rawly(m Mode, rw http.ResponseWriter, r *http.Request, host int) {
	switch m {
	case SlowLoris:
		rw.Header().Set("Content-Type", "text/html")
		s.drip(rw, r)
		return
	case Silent:
		select {
		case <-r.Context().Done():
		case <-time.After(MaxDrip):
		}
		return
	case HugeBody:
		rw.Header().Set("Content-Type", "text/html")
		line := []byte(strings.Repeat("<p>more and more and more</p>\n", 2000))
		for sent := 0; sent < 1<<30; sent += len(line) {
			if _, err := rw.Write(line); err != nil {
				return
			}
		}
		return
	case GzipBomb, BrotliBomb, ZstdBomb, NestedBomb:
		coding, body := s.bombs.get(m)
		rw.Header().Set("Content-Encoding", coding)
		send(rw, "text/html", body)
		return
	case BrokenGzip:
		rw.Header().Set("Content-Encoding", "gzip")
		send(rw, "text/html", []byte("<p>This is not gzip, whatever the header says.</p>"))
		return
	}
	conn, buf, err := http.NewResponseController(rw).Hijack()
	if err != nil {
		http.Error(rw, err.Error(), http.StatusInternalServerError)
		return
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(30 * time.Second))
	const body = "<!DOCTYPE html><title>raw</title><p>A page with <a href=\"/other\">a link</a>.</p>\n"
	ok := "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n"
	switch m {
	case HangUp:
		return
	case CutOff, ShortBody:
		fmt.Fprintf(buf, "%sContent-Length: %d\r\n\r\n%s", ok, len(body)+5000, body)
	case LongBody:
		fmt.Fprintf(buf, "%sContent-Length: %d\r\n\r\n%s%s", ok, len(body), body, strings.Repeat("and more that nobody announced ", 20))
	case BrokenChunks:
		fmt.Fprintf(buf, "%sTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\nnot-a-number\r\nrest\r\n", ok, len(body), body)
	case MalformedHeaders:
		fmt.Fprintf(buf, "HTTP/1.1 200 OK\r\nthis line is no header\r\n: no name\r\nBad\x00Name: \x01\x02\r\nContent-Length: -7\r\n\r\n%s", body)
	case EndlessChunks, HugeTrailers, SlowHeaders, Interim, TwoLengths:
		s.endless(m, conn, buf, ok, body)
	case HugeHeaders:
		fmt.Fprint(buf, ok)
		for i := range 1 << 10 {
			fmt.Fprintf(buf, "X-Filler-%d: %s\r\n", i, strings.Repeat("z", 1000))
		}
		fmt.Fprintf(buf, "Content-Length: %d\r\n\r\n%s", len(body), body)
	}
	s.bytes.Add(int64(len(body)))
	buf.Flush()
	if m == LongBody {
		// Let the client see the surplus before the connection ends.
		if conn.SetReadDeadline(time.Now().Add(time.Second)) == nil {
			_, _ = conn.Read(make([]byte, 1)) // whatever it says, this is the end
		}
	}
}

// drip sends a byte now and then until the client gives up.
func (s *Server) drip(rw http.ResponseWriter, r *http.Request) {
	rc := http.NewResponseController(rw)
	t := time.NewTicker(dripEvery)
	defer t.Stop()
	for end := time.Now().Add(MaxDrip); time.Now().Before(end); {
		if _, err := rw.Write([]byte{'x'}); err != nil {
			return
		}
		rc.Flush()
		select {
		case <-t.C:
		case <-r.Context().Done():
			return
		}
	}
}

// encoded serves the host well in a content coding.
func (s *Server) encoded(m Mode, rw http.ResponseWriter, r *http.Request, host int) bool {
	kept := &kept{ResponseWriter: rw, code: http.StatusOK}
	s.serveHost(kept, r, host)
	body := kept.body.Bytes()
	if kept.code == http.StatusOK {
		body = encode(m, body)
		rw.Header().Set("Content-Encoding", codings[m])
		rw.Header().Set("Content-Length", strconv.Itoa(len(body)))
		rw.Header().Set("Vary", "Accept-Encoding")
	}
	rw.WriteHeader(kept.code)
	_, _ = rw.Write(body) // a client that hung up
	return true
}

// kept holds a response back.
type kept struct {
	http.ResponseWriter
	code int
	body bytes.Buffer
}

func (k *kept) WriteHeader(code int) { k.code = code }

func (k *kept) Write(p []byte) (int, error) { return k.body.Write(p) }

var codings = map[Mode]string{Gzip: "gzip", Brotli: "br", Zstd: "zstd", GzipBomb: "gzip", BrotliBomb: "br", ZstdBomb: "zstd", NestedBomb: "gzip, br"}

func encode(m Mode, body []byte) []byte {
	var out bytes.Buffer
	switch m {
	case Gzip, GzipBomb:
		zw := gzip.NewWriter(&out)
		_, _ = zw.Write(body) // into memory
		zw.Close()
	case Brotli, BrotliBomb:
		zw := brotli.NewWriterLevel(&out, 5)
		_, _ = zw.Write(body) // into memory
		zw.Close()
	case Zstd, ZstdBomb:
		zw, err := zstd.NewWriter(&out, zstd.WithEncoderConcurrency(1))
		if err != nil {
			return nil
		}
		_, _ = zw.Write(body) // into memory
		zw.Close()
	}
	return out.Bytes()
}

// BombBytes is the decompressed size of a bomb, NestedBytes that of the outer layer of a nested one.
const (
	BombBytes   = 256 << 20
	NestedBytes = 128 << 20
)

// bombs are built on first use.
type bombs struct {
	mu   sync.Mutex
	made map[Mode][]byte
}

func (b *bombs) get(m Mode) (coding string, body []byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.made == nil {
		b.made = map[Mode][]byte{}
	}
	if b.made[m] == nil {
		if m == BrotliBomb || m == NestedBomb {
			var out bytes.Buffer
			zw := brotli.NewWriterLevel(&out, 1)
			block, all := make([]byte, 1<<20), BombBytes
			if m == NestedBomb {
				nothing := encode(Gzip, nil)
				block, all = bytes.Repeat(nothing, len(block)/len(nothing)), NestedBytes
			}
			for range all / len(block) {
				_, _ = zw.Write(block)
			}
			zw.Close()
			b.made[m] = out.Bytes()
		} else { // gzip members and zstd frames may follow each other
			const part = 16 << 20
			b.made[m] = bytes.Repeat(encode(m, make([]byte, part)), BombBytes/part)
		}
	}
	return codings[m], b.made[m]
}
