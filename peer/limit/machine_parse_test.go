package limit

import (
	"errors"
	"strings"
	"testing"
	"time"
)

func TestMacOSTexts(t *testing.T) {
	for out, want := range map[string]bool{
		"Now drawing from 'AC Power'\n": false,
		"Now drawing from 'Battery Power'\n -InternalBattery-0 (id=4653155)\t57%; discharging; 4:34 remaining present: true\n": true,
		"Now drawing from 'UPS Power'\n": true,
	} {
		if on, err := drawsFromBattery(out); on != want || err != nil {
			t.Errorf("%q: %v, %v", out, on, err)
		}
	}
	for _, out := range []string{"", "No batteries", "Now drawing from 'AC"} {
		if on, err := drawsFromBattery(out); on || !errors.Is(err, ErrUnknown) {
			t.Errorf("%q: %v, %v", out, on, err)
		}
	}
	hid := "+-o IOHIDSystem  <class IOHIDSystem, id 0x1, registered>\n    {\n      \"HIDClipboard\" = <>\n      \"HIDIdleTime\" = 1234567890\n    }\n"
	if d, err := idleTime(hid); d != 1234567890*time.Nanosecond || err != nil {
		t.Error(d, err)
	}
	if !touched(inUseFor-1) || touched(inUseFor) {
		t.Error("touched")
	}
	for _, out := range []string{"", "\"HIDIdleTime\" = soon\n", "\"HIDIdleTime\" = -5\n"} {
		if _, err := idleTime(out); !errors.Is(err, ErrUnknown) {
			t.Errorf("%q: %v", out, err)
		}
	}
	if !screenKeptOn("Assertion status system-wide:\n   BackgroundTask                 0\n   PreventUserIdleDisplaySleep    1\n") || screenKeptOn("   PreventUserIdleDisplaySleep    0\n") || screenKeptOn("") {
		t.Error("screenKeptOn")
	}
	route := "   route to: default\ndestination: default\n       mask: default\n    gateway: %s\n  interface: en0\n"
	for gateway, want := range map[string]bool{"172.20.10.1": true, "192.168.1.1": false, "172.20.10.10": false, "fe80::1%en0": false, "link#4": false} {
		if got := throughPhone(strings.Replace(route, "%s", gateway, 1)); got != want {
			t.Errorf("%s: %v", gateway, got)
		}
	}
	if throughPhone("route: writing to routing socket: not in table\n") {
		t.Error("no way out is no phone's")
	}
	ps := "    1   0.0\n  300  50.5\n  301   9.5\n  777 150.0\n"
	if n, err := othersUse(ps, 777, 2); n != 30 || err != nil {
		t.Error(n, err)
	}
	if n, err := othersUse("1 100,0\n2 350,0\n", 9, 4); n != 100 || err != nil {
		t.Error(n, err)
	}
	if _, err := othersUse("PID %CPU\n", 9, 4); !errors.Is(err, ErrUnknown) {
		t.Error(err)
	}
}
