package limit

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"testing"
)

func noFront() (bool, error) { return false, errWindows }

// xServer is an X server that knows names and properties of windows, and nothing else.
type xServer struct {
	key   string
	atoms map[string]uint32
	props map[[2]uint32][]uint32 // by window and name
}

const (
	xRoot  = 0x123
	xFront = 0x1400003
)

func (s *xServer) serve(c net.Conn) {
	defer c.Close()
	var head [12]byte
	if _, err := io.ReadFull(c, head[:]); err != nil {
		return
	}
	pad := func(n int) int { return (n + 3) &^ 3 }
	auth := make([]byte, pad(int(xOrder.Uint16(head[6:])))+pad(int(xOrder.Uint16(head[8:]))))
	if _, err := io.ReadFull(c, auth); err != nil {
		return
	}
	if !bytes.Contains(auth, []byte(s.key)) {
		c.Write([]byte{0, 4, 11, 0, 0, 0, 1, 0, 'n', 'o', '!', '!'})
		return
	}
	body := make([]byte, 32)
	xOrder.PutUint16(body[16:], 5) // of the vendor's name
	body[20], body[21] = 1, 2
	body = append(body, "maker\x00\x00\x00"...)
	body = append(body, make([]byte, 16)...) // formats
	body = xOrder.AppendUint32(body, xRoot)
	body = append(body, make([]byte, 36)...)
	c.Write(append([]byte{1, 0, 11, 0, 0, 0, byte(len(body) / 4), byte(len(body) / 4 >> 8)}, body...))
	for {
		var req [4]byte
		if _, err := io.ReadFull(c, req[:]); err != nil {
			return
		}
		rest := make([]byte, 4*int(xOrder.Uint16(req[2:]))-4)
		if _, err := io.ReadFull(c, rest); err != nil {
			return
		}
		answer, more := make([]byte, 32), []byte(nil)
		answer[0] = 1
		switch req[0] {
		case 16:
			xOrder.PutUint32(answer[8:], s.atoms[string(rest[4:4+xOrder.Uint16(rest)])])
		case 20:
			window := xOrder.Uint32(rest)
			values, ok := s.props[[2]uint32{window, xOrder.Uint32(rest[4:])}]
			if window != xRoot && window != xFront {
				answer[0], answer[1] = 0, 3 // no such window
			}
			if ok {
				answer[1] = 32
				xOrder.PutUint32(answer[16:], uint32(len(values)))
				for _, v := range values {
					more = xOrder.AppendUint32(more, v)
				}
				xOrder.PutUint32(answer[4:], uint32(len(values)))
			}
		}
		event := make([]byte, 32)
		event[0] = 34 // one that all clients get
		c.Write(append(append(event, answer...), more...))
	}
}

func TestFrontFills(t *testing.T) {
	atoms := map[string]uint32{"_NET_ACTIVE_WINDOW": 300, "_NET_WM_STATE": 301, "_NET_WM_STATE_FULLSCREEN": 302}
	at := func(front, states []uint32) map[[2]uint32][]uint32 {
		out := map[[2]uint32][]uint32{}
		if front != nil {
			out[[2]uint32{xRoot, 300}] = front
		}
		if states != nil {
			out[[2]uint32{xFront, 301}] = states
		}
		return out
	}
	for name, c := range map[string]struct {
		server  xServer
		key     string
		wayland bool
		full    bool
		known   bool
	}{
		"a film":                              {xServer{"cookie", atoms, at([]uint32{xFront}, []uint32{299, 302})}, "cookie", false, true, true},
		"a film, under Wayland":               {xServer{"cookie", atoms, at([]uint32{xFront}, []uint32{302})}, "cookie", true, true, true},
		"a text":                              {xServer{"cookie", atoms, at([]uint32{xFront}, []uint32{299})}, "cookie", false, false, true},
		"a text, under Wayland":               {xServer{"cookie", atoms, at([]uint32{xFront}, nil)}, "cookie", true, false, false},
		"a window without a state":            {xServer{"cookie", atoms, at([]uint32{xFront}, nil)}, "cookie", false, false, true},
		"nothing in front":                    {xServer{"cookie", atoms, at([]uint32{0}, nil)}, "cookie", false, false, true},
		"a window that is gone":               {xServer{"cookie", atoms, at([]uint32{77}, nil)}, "cookie", false, false, false},
		"a desktop that does not tell":        {xServer{"cookie", atoms, at(nil, nil)}, "cookie", false, false, false},
		"a desktop that knows no such thing":  {xServer{"cookie", nil, nil}, "cookie", false, false, false},
		"a window manager without fullscreen": {xServer{"cookie", map[string]uint32{"_NET_ACTIVE_WINDOW": 300, "_NET_WM_STATE": 301}, at([]uint32{xFront}, []uint32{0})}, "cookie", false, false, true},
		"another user's":                      {xServer{"cookie", atoms, nil}, "guess", false, false, false},
	} {
		addr := filepath.Join(t.TempDir(), "X0")
		l, err := net.Listen("unix", addr)
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			if conn, err := l.Accept(); err == nil {
				c.server.serve(conn)
			}
		}()
		full, err := frontFills(display{addr, []byte("MIT-MAGIC-COOKIE-1"), []byte(c.key), c.wayland})
		if full != c.full || (err == nil) != c.known || err != nil && !errors.Is(err, errWindows) {
			t.Errorf("%s: %v %v", name, full, err)
		}
		l.Close()
	}
	if _, err := frontFills(display{addr: filepath.Join(t.TempDir(), "none")}); !errors.Is(err, errWindows) {
		t.Error(err)
	}
}

func TestTheDisplay(t *testing.T) {
	file := filepath.Join(t.TempDir(), "authority")
	entry := func(number, kind, key string) (b []byte) {
		b = []byte{1, 0}
		for _, s := range []string{"host", number, kind, key} {
			b = append(binary.BigEndian.AppendUint16(b, uint16(len(s))), s...)
		}
		return b
	}
	b := append(entry("1", "MIT-MAGIC-COOKIE-1", "of 1"), entry("0", "XDM", "other")...)
	b = append(b, entry("0", "MIT-MAGIC-COOKIE-1", "of 0")...)
	for cut := range b { // whatever there is of it, it is read
		authority(b[:cut], "0")
	}
	if err := os.WriteFile(file, b, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("XAUTHORITY", file)
	t.Setenv("WAYLAND_DISPLAY", "wayland-0")
	for at, want := range map[string]string{":0": "of 0", ":1.0": "of 1", "unix:0": "of 0", ":7": "", "there:0": "error", "": "error", ":": "error", ":../x": "error"} {
		t.Setenv("DISPLAY", at)
		d, err := theDisplay()
		if (err != nil) != (want == "error") || err == nil && (string(d.key) != want || !d.wayland || filepath.Dir(d.addr) != "/tmp/.X11-unix") {
			t.Errorf("%q: %+v %v", at, d, err)
		}
	}
}
