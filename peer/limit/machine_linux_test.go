package limit

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"testing"

	"github.com/godbus/dbus/v5"
)

// TestSystemServices asks a bus of the test's own, on which both services answer one thing after another.
func TestSystemServices(t *testing.T) {
	at := filepath.Join(t.TempDir(), "bus")
	ln, err := net.Listen("unix", at)
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	t.Setenv("DBUS_SYSTEM_BUS_ADDRESS", "unix:path="+at)
	says := make(chan any, 1)
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go bus(c, says)
		}
	}()
	for _, test := range []struct {
		says    any
		ask     func() (bool, error)
		want    bool
		unknown bool
	}{
		{uint32(1), OnMetered, true, false}, {uint32(2), OnMetered, false, false}, {uint32(3), OnMetered, true, false}, {uint32(4), OnMetered, false, false},
		{uint32(0), OnMetered, false, true}, {"yes", OnMetered, false, true}, {nil, OnMetered, false, true},
		{true, InUse, false, false}, {false, InUse, true, false}, {uint32(1), InUse, false, true}, {nil, InUse, false, true},
	} {
		says <- test.says
		got, err := test.ask()
		if got != test.want || errors.Is(err, ErrUnknown) != test.unknown || err != nil && !test.unknown {
			t.Errorf("%v: %v, %v", test.says, got, err)
		}
	}
	ln.Close()
	if on, err := InUse(); on || !errors.Is(err, ErrUnknown) {
		t.Errorf("without a bus: %v, %v", on, err)
	}
}

// bus is a D-Bus daemon that knows one answer.
func bus(c net.Conn, says <-chan any) {
	defer c.Close()
	r := bufio.NewReader(c)
	if _, err := r.ReadByte(); err != nil { // a zero comes first
		return
	}
	for { // authentication, in lines; BEGIN ends it
		line, err := r.ReadString('\n')
		switch {
		case err != nil:
			return
		case strings.HasPrefix(line, "BEGIN"):
			answer(c, r, says)
			return
		case strings.HasPrefix(line, "AUTH EXTERNAL"):
			fmt.Fprint(c, "OK 0123456789abcdef0123456789abcdef\r\n")
		case strings.HasPrefix(line, "AUTH"):
			fmt.Fprint(c, "REJECTED EXTERNAL\r\n")
		default:
			fmt.Fprint(c, "ERROR\r\n")
		}
	}
}

func answer(c net.Conn, r *bufio.Reader, says <-chan any) {
	for {
		m, err := dbus.DecodeMessage(r)
		if err != nil {
			return
		}
		reply := &dbus.Message{Type: dbus.TypeMethodReply, Headers: map[dbus.HeaderField]dbus.Variant{dbus.FieldReplySerial: dbus.MakeVariant(m.Serial())}}
		body := any(":1.1")
		if m.Headers[dbus.FieldMember].Value() != "Hello" {
			switch body = <-says; body {
			case nil:
				reply.Type = dbus.TypeError
				reply.Headers[dbus.FieldErrorName] = dbus.MakeVariant("org.freedesktop.DBus.Error.ServiceUnknown")
				body = "no such service"
			default:
				body = dbus.MakeVariant(body)
			}
		}
		reply.Headers[dbus.FieldSignature] = dbus.MakeVariant(dbus.SignatureOf(body))
		reply.Body = []any{body}
		if err := reply.EncodeTo(c, binary.LittleEndian); err != nil {
			return
		}
	}
}
