package pond

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"
)

// Frames of HTTP/2 (RFC 9113).
const (
	frameData = iota
	frameHeaders
	framePriority
	frameReset
	frameSettings
	framePush
	framePing
	frameGoAway
	frameWindow
	frameContinuation

	flagEnd        = 1 // END_STREAM; of SETTINGS and PING: ACK
	flagEndHeaders = 4
	flagPadded     = 8

	preface  = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
	maxFrame = 16 << 10 // of what a client sends
)

// Header fields in HPACK (RFC 7541), from the static table and without Huffman coding.
var (
	fieldsOK      = append([]byte{0x88}, literal(31, "text/html")...) // :status 200, content-type
	fieldsMissing = []byte{0x8d}                                      // :status 404
	fieldsInterim = literal(8, "103")
	robotsPath    = [2][]byte{append([]byte{0x80 | 8}, 0x62, 0xc3, 0xc6, 0x74, 0xa1, 0x74, 0xf9, 0x4f), append([]byte{11}, "/robots.txt"...)} // with it, and without
)

// literal returns a field that is not indexed and whose name is in the static table.
func literal(name byte, value string) []byte {
	b := []byte{name}
	if name >= 15 {
		b = []byte{15, name - 15}
	}
	return append(append(b, byte(len(value))), value...)
}

func length(n int) []byte { return literal(28, fmt.Sprint(n)) }

// h2 is an HTTP/2 connection written by hand.
type h2 struct {
	net.Conn
	br *bufio.Reader
	bw *bufio.Writer
}

func (c *h2) frame(kind, flags byte, stream uint32, payload ...[]byte) error {
	n := 0
	for _, p := range payload {
		n += len(p)
	}
	head := [9]byte{byte(n >> 16), byte(n >> 8), byte(n), kind, flags}
	binary.BigEndian.PutUint32(head[5:], stream)
	_, err := c.bw.Write(head[:])
	for _, p := range payload {
		if err == nil {
			_, err = c.bw.Write(p)
		}
	}
	return err
}

func (c *h2) read() (kind, flags byte, stream uint32, payload []byte, err error) {
	var head [9]byte
	if _, err = io.ReadFull(c.br, head[:]); err != nil {
		return
	}
	n := int(head[0])<<16 | int(head[1])<<8 | int(head[2])
	if n > maxFrame {
		return 0, 0, 0, nil, fmt.Errorf("pond: a frame of %d bytes", n)
	}
	payload = make([]byte, n)
	_, err = io.ReadFull(c.br, payload)
	return head[3], head[4], binary.BigEndian.Uint32(head[5:]) &^ (1 << 31), payload, err
}

// hungUp is the other hungUp, of a client that may also end the stream alone.
func (c *h2) hungUp() bool {
	if err := c.SetReadDeadline(time.Now().Add(dripEvery)); err != nil {
		return true
	}
	for {
		if _, err := c.br.Peek(1); err != nil {
			return !errors.Is(err, os.ErrDeadlineExceeded)
		}
		if kind, _, _, _, err := c.read(); err != nil || kind == frameReset || kind == frameGoAway {
			return true
		}
	}
}

// misuse speaks HTTP/2 as the mode demands. It answers that there is no robots.txt.
func (s *Server) misuse(m Mode, conn net.Conn, host int) {
	c := &h2{conn, bufio.NewReader(conn), bufio.NewWriter(conn)}
	_ = conn.SetDeadline(time.Now().Add(MaxDrip)) // a closed connection shows below
	hello := make([]byte, len(preface))
	if _, err := io.ReadFull(c.br, hello); err != nil || string(hello) != preface {
		return
	}
	var settings []byte
	switch m {
	case H2HTTP1:
		fmt.Fprint(c.bw, "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 2\r\n\r\nno")
		c.bw.Flush()
		_, _ = io.Copy(io.Discard, c.br)
		return
	case H2NoStreams:
		settings = []byte{0, 3, 0, 0, 0, 0, 0, 4, 0, 0, 0, 0} // allows no concurrent streams, and no window
	}
	_ = c.frame(frameSettings, 0, 0, settings)
	leave := func() {}
	defer func() { leave() }()
	for c.bw.Flush() == nil {
		kind, flags, stream, fields, err := c.read()
		if err != nil {
			return
		}
		switch kind {
		case frameSettings, framePing:
			if flags&flagEnd == 0 {
				if kind == frameSettings {
					fields = nil
				}
				_ = c.frame(kind, flagEnd, 0, fields)
			}
		case frameReset:
			leave()
		case frameHeaders:
			path := "/"
			if bytes.Contains(fields, robotsPath[0]) || bytes.Contains(fields, robotsPath[1]) {
				path = "/robots.txt"
			}
			s.requests.Add(1)
			leave = s.enter(host, &http.Request{Host: s.w.hosts[host].Name, URL: &url.URL{Path: path}, RequestURI: path}, 0)
			if path == "/robots.txt" {
				_ = c.frame(frameHeaders, flagEnd|flagEndHeaders, stream, fieldsMissing)
				leave()
			} else if s.abuse(m, c, stream) {
				leave()
			}
		}
	}
}

const h2Page = "<!DOCTYPE html><title>h2</title><p>A page with <a href=\"/other\">a link</a>.</p>\n"

// abuse answers the request of a stream. It returns true if the server is done with the request. Failed writes show
// at the next flush.
func (s *Server) abuse(m Mode, c *h2, stream uint32) (over bool) {
	full := bytes.Repeat([]byte(h2Page), maxFrame/len(h2Page))
	s.bytes.Add(int64(len(h2Page)))
	begin := func(more []byte) { _ = c.frame(frameHeaders, flagEndHeaders, stream, fieldsOK, more) }
	forever := func(kind, flags byte, on uint32, payload []byte) {
		for c.frame(kind, flags, on, payload) == nil {
		}
	}
	switch m {
	case H2Reset:
		_ = c.frame(frameReset, 0, stream, []byte{0, 0, 0, 11}) // ENHANCE_YOUR_CALM
	case H2ResetFlood:
		begin(nil)
		for i := stream; c.frame(frameReset, 0, i, []byte{0, 0, 0, 8}) == nil; i += 2 {
		}
	case H2GoAway:
		_ = c.frame(frameGoAway, 0, 0, []byte{0, 0, 0, 0, 0, 0, 0, 0})
	case H2Settings:
		forever(frameSettings, 0, 0, []byte{0, 4, 0, 1, 0, 0})
	case H2Pings:
		forever(framePing, 0, 0, make([]byte, 8))
	case H2Continuation:
		_ = c.frame(frameHeaders, 0, stream, fieldsOK)
		forever(frameContinuation, 0, stream, literal(31, "text/html"))
	case H2Headers:
		c.block(stream, bytes.Repeat(append([]byte{0, 1, 'x', 0x7f, 0xe9, 6}, strings.Repeat("z", 1000)...), 1<<10), flagEnd)
	case H2HeaderBomb: // one field of 4 kB that goes into the table, and 100,000 references to it
		field := append([]byte{0x40, 6, 'x', '-', 'b', 'o', 'm', 'b', 0x7f, 0xa1, 30}, strings.Repeat("z", 4000)...)
		c.block(stream, append(field, bytes.Repeat([]byte{0xbe}, 100_000)...), flagEnd)
	case H2Trailers:
		begin(nil)
		_ = c.frame(frameData, 0, stream, []byte(h2Page))
		_ = c.frame(frameHeaders, flagEnd, stream)
		forever(frameContinuation, 0, stream, append([]byte{0, 1, 'x', 0x7f, 0xe9, 6}, strings.Repeat("z", 1000)...))
	case H2Interim:
		forever(frameHeaders, flagEndHeaders, stream, fieldsInterim)
	case H2LongData:
		begin(length(len(h2Page)))
		_ = c.frame(frameData, 0, stream, []byte(h2Page))
		_ = c.frame(frameData, flagEnd, stream, []byte(h2Page))
	case H2ShortData:
		begin(length(len(h2Page) + 5000))
		_ = c.frame(frameData, flagEnd, stream, []byte(h2Page))
	case H2Overrun: // more than any client's window
		begin(nil)
		forever(frameData, 0, stream, full)
	case H2Empty:
		begin(nil)
		for pad := append([]byte{255}, make([]byte, 255)...); c.frame(frameData, 0, stream) == nil && c.frame(frameData, flagPadded, stream, pad) == nil; {
		}
	case H2Drip:
		begin(nil)
		for c.frame(frameData, 0, stream, []byte{'x'}) == nil && c.bw.Flush() == nil && !c.hungUp() {
		}
	case H2Push:
		_ = c.frame(framePush, flagEndHeaders, stream, []byte{0, 0, 0, 2}, []byte{0x82, 0x84, 0x87})
		begin(nil)
		_ = c.frame(frameData, flagEnd, stream, []byte(h2Page))
	case H2HugeFrame:
		begin(nil)
		_ = c.frame(frameData, 0, stream, make([]byte, 1<<24-1))
	case H2Unknown:
		begin(nil)
		forever(0xfa, 0xff, stream, full)
	case H2Cut:
		begin(length(len(h2Page) + 5000))
		_ = c.frame(frameData, 0, stream, []byte(h2Page))
		c.bw.Flush()
		c.Close()
	case H2Silent:
		return false
	}
	return true
}

// block sends a header block in as many frames as it needs.
func (c *h2) block(stream uint32, fields []byte, flags byte) {
	_ = c.frame(frameHeaders, flags, stream, fieldsOK)
	for len(fields) > 0 {
		n := min(len(fields), maxFrame)
		end := byte(0)
		if n == len(fields) {
			end = flagEndHeaders
		}
		if c.frame(frameContinuation, end, stream, fields[:n]) != nil {
			return
		}
		fields = fields[n:]
	}
}
