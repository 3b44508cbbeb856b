package limit

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// This file asks an X server whether the window in front fills the screen, as the window manager notes it (Extended Window Manager Hints 1.5). It speaks
// the few requests of the X protocol (version 11) that this needs. Wayland has no such question: there only windows of X programs are seen.

// errWindows says why the window in front is not known.
var errWindows = errors.New("the window in front is not known")

// display is where an X server listens, and how it lets this user in.
type display struct {
	addr      string // of its socket
	name, key []byte // of its authority
	wayland   bool   // windows of programs that do not speak X are not seen
}

// theDisplay finds the X server of this user's desktop.
func theDisplay() (d display, err error) {
	host, rest, ok := strings.Cut(os.Getenv("DISPLAY"), ":")
	number, _, _ := strings.Cut(rest, ".")
	if !ok || host != "" && host != "unix" || number == "" || strings.Trim(number, "0123456789") != "" {
		return d, fmt.Errorf("%w: the peer runs outside a desktop, or at one of another computer", errWindows)
	}
	d = display{addr: "/tmp/.X11-unix/X" + number, wayland: os.Getenv("WAYLAND_DISPLAY") != ""}
	file := os.Getenv("XAUTHORITY")
	if home, err := os.UserHomeDir(); file == "" && err == nil {
		file = filepath.Join(home, ".Xauthority")
	}
	if b, err := os.ReadFile(file); err == nil {
		d.name, d.key = authority(b, number)
	}
	return d, nil
}

// authority finds the cookie of a display in a file of such.
func authority(b []byte, number string) (name, key []byte) {
	next := func() []byte {
		if len(b) < 2 || len(b) < 2+int(binary.BigEndian.Uint16(b)) {
			b = nil
			return nil
		}
		n := 2 + int(binary.BigEndian.Uint16(b))
		out := b[2:n]
		b = b[n:]
		return out
	}
	for len(b) > 2 {
		b = b[2:] // family
		_, at, kind, data := next(), next(), next(), next()
		if string(kind) == "MIT-MAGIC-COOKIE-1" && (string(at) == number || len(at) == 0) {
			return kind, data
		}
	}
	return nil, nil
}

// frontFills reports whether the window in front fills the screen. An error says that this is not known.
func frontFills(d display) (bool, error) {
	c, err := net.DialTimeout("unix", d.addr, askWait)
	if err != nil {
		if c, err = net.DialTimeout("unix", "@"+d.addr, askWait); err != nil {
			return false, fmt.Errorf("%w: %w", errWindows, err)
		}
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(askWait)); err != nil {
		return false, err
	}
	x := &xConn{rw: c}
	root, err := x.enter(d.name, d.key)
	if err != nil {
		return false, err
	}
	var atoms [3]uint32
	for i, name := range []string{"_NET_ACTIVE_WINDOW", "_NET_WM_STATE", "_NET_WM_STATE_FULLSCREEN"} {
		if atoms[i], err = x.atom(name); err != nil {
			return false, err
		}
	}
	front, err := x.property(root, atoms[0])
	switch {
	case err != nil:
		return false, err
	case len(front) == 0:
		return false, fmt.Errorf("%w: the desktop does not tell", errWindows)
	case front[0] == 0: // none is in front
		return false, d.only()
	}
	states, err := x.property(front[0], atoms[1])
	if err != nil { // it was closed meanwhile
		return false, err
	}
	for _, s := range states {
		if s != 0 && s == atoms[2] {
			return true, nil
		}
	}
	return false, d.only()
}

// only says that no window in front is known where others may be there.
func (d *display) only() error {
	if d.wayland {
		return fmt.Errorf("%w: Wayland does not tell", errWindows)
	}
	return nil
}

// xConn is a connection to an X server. It sends numbers with the lowest byte first.
type xConn struct{ rw io.ReadWriter }

var xOrder = binary.LittleEndian

// maxX bounds an answer, in bytes.
const maxX = 256 << 10

func padded(b []byte) []byte { return append(b, make([]byte, -len(b)&3)...) }

// enter opens the connection and returns the root window of the first screen.
func (x *xConn) enter(name, key []byte) (root uint32, err error) {
	req := []byte{'l', 0}
	for _, n := range []int{11, 0, len(name), len(key), 0} {
		req = xOrder.AppendUint16(req, uint16(n))
	}
	req = append(append(req, padded(bytes.Clone(name))...), padded(bytes.Clone(key))...)
	if _, err := x.rw.Write(req); err != nil {
		return 0, err
	}
	var head [8]byte
	if _, err := io.ReadFull(x.rw, head[:]); err != nil {
		return 0, err
	}
	body := make([]byte, 4*int(xOrder.Uint16(head[6:])))
	if _, err := io.ReadFull(x.rw, body); err != nil {
		return 0, err
	}
	if head[0] != 1 {
		return 0, fmt.Errorf("%w: the X server does not let this user in", errWindows)
	}
	if len(body) < 32 {
		return 0, io.ErrUnexpectedEOF
	}
	at := 32 + (int(xOrder.Uint16(body[16:]))+3)&^3 + 8*int(body[21]) // behind the vendor's name and the formats
	if body[20] == 0 || len(body) < at+4 {
		return 0, io.ErrUnexpectedEOF
	}
	return xOrder.Uint32(body[at:]), nil
}

// ask sends a request and returns its answer: 32 bytes, and what follows them.
func (x *xConn) ask(req []byte) (head [32]byte, more []byte, err error) {
	xOrder.PutUint16(req[2:], uint16(len(req)/4))
	if _, err := x.rw.Write(req); err != nil {
		return head, nil, err
	}
	for {
		if _, err := io.ReadFull(x.rw, head[:]); err != nil {
			return head, nil, err
		}
		switch {
		case head[0] == 0:
			return head, nil, fmt.Errorf("%w: the X server answers with error %d", errWindows, head[1])
		case head[0] != 1: // an event that all clients get
			continue
		}
		n := int64(xOrder.Uint32(head[4:])) * 4
		if n > maxX {
			return head, nil, fmt.Errorf("%w: an answer of %d bytes", errWindows, n)
		}
		more = make([]byte, n)
		_, err := io.ReadFull(x.rw, more)
		return head, more, err
	}
}

// atom returns the number of a name; 0: no program uses it.
func (x *xConn) atom(name string) (uint32, error) {
	req := []byte{16, 1, 0, 0}
	req = xOrder.AppendUint16(req, uint16(len(name)))
	req = append(req, 0, 0)
	head, _, err := x.ask(append(req, padded([]byte(name))...))
	return xOrder.Uint32(head[8:]), err
}

// property returns the numbers of a window's property; none: it has no such property.
func (x *xConn) property(window, atom uint32) (out []uint32, err error) {
	if atom == 0 {
		return nil, nil
	}
	const most = 64 // numbers
	req := []byte{20, 0, 0, 0}
	for _, n := range []uint32{window, atom, 0, 0, most} {
		req = xOrder.AppendUint32(req, n)
	}
	head, more, err := x.ask(req)
	if err != nil || head[1] != 32 {
		return nil, err
	}
	for ; len(more) >= 4 && len(out) < int(xOrder.Uint32(head[16:])); more = more[4:] {
		out = append(out, xOrder.Uint32(more))
	}
	return out, nil
}
