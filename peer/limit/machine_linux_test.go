package limit

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/godbus/dbus/v5"
	"golang.org/x/sys/unix"
)

// TestSystemServices uses a bus of its own, on which both services give a series of answers.
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
	} {
		says <- test.says
		got, err := test.ask()
		if got != test.want || errors.Is(err, ErrUnknown) != test.unknown || err != nil && !test.unknown {
			t.Errorf("%v: %v, %v", test.says, got, err)
		}
	}
	ln.Close()
	if on, err := OnMetered(); on || !errors.Is(err, ErrUnknown) {
		t.Errorf("without a bus: %v, %v", on, err)
	}
}

// bus is a D-Bus daemon that gives the answers in says.
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

func TestBatterySupplies(t *testing.T) {
	laptop := map[string]string{"AC/type": "Mains", "AC/online": "0", "BAT0/type": "Battery", "BAT0/status": "Discharging"}
	for name, c := range map[string]struct {
		files map[string]string
		want  bool
	}{
		"no battery":         {nil, false},
		"laptop unplugged":   {laptop, true},
		"plugged in":         {with(laptop, "AC/online", "1"), false},
		"by USB":             {with(laptop, "UCSI/type", "USB", "UCSI/online", "1"), false},
		"nothing on USB":     {with(laptop, "UCSI/type", "USB", "UCSI/online", "0"), true},
		"held at 80 percent": {with(laptop, "AC/online", "1", "BAT0/status", "Not charging"), false},
		"no mains listed":    {map[string]string{"BAT0/type": "Battery", "BAT0/status": "Discharging"}, true},
		"a mouse":            {map[string]string{"hid/type": "Battery", "hid/scope": "Device", "hid/status": "Discharging"}, false},
		"unreadable":         {map[string]string{"BAT0/type": "Battery"}, false},
	} {
		dir := t.TempDir()
		for f, text := range c.files {
			if err := os.MkdirAll(filepath.Join(dir, filepath.Dir(f)), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, f), []byte(text+"\n"), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if on, err := onBattery(dir); on != c.want || err != nil {
			t.Errorf("%s: %v, %v", name, on, err)
		}
	}
	if on, err := onBattery(filepath.Join(t.TempDir(), "none")); on || !errors.Is(err, ErrUnknown) {
		t.Error(on, err)
	}
}

// with adds pairs of a name and a value.
func with(m map[string]string, pairs ...string) map[string]string {
	m = maps.Clone(m)
	for i := 0; i < len(pairs); i += 2 {
		m[pairs[i]] = pairs[i+1]
	}
	return m
}

// TestLowPriority checks the kernel's view of a process that called LowPriority.
func TestLowPriority(t *testing.T) {
	child := exec.Command(os.Args[0], "-test.run=TestLowPriority$")
	if os.Getenv("SHOAL_TEST_LOW") == "" {
		child.Env = append(os.Environ(), "SHOAL_TEST_LOW=1")
		if out, err := child.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return
	}
	if err := LowPriority(); err != nil {
		t.Fatal(err)
	}
	threads, err := os.ReadDir("/proc/self/task")
	if err != nil {
		t.Fatal(err)
	}
	for _, th := range threads {
		tid, _ := strconv.Atoi(th.Name())
		nice, err := unix.Getpriority(unix.PRIO_PROCESS, tid) // 20 - nice
		io, _, e := unix.Syscall(unix.SYS_IOPRIO_GET, 1, uintptr(tid), 0)
		if err == unix.ESRCH || e == unix.ESRCH {
			continue
		}
		if err != nil || nice != 1 || e != 0 || io>>13 != 3 {
			t.Errorf("thread %d: nice %d, %v; disk class %d, %v", tid, 20-nice, err, io>>13, e)
		}
	}
}
