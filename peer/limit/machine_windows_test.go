package limit

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/windows"
)

func TestMeteredCost(t *testing.T) {
	for cost, want := range map[uint32]bool{1: false, 2: true, 4: true, 1 | 0x20000: false, 1 | 0x40000: true, 1 | 0x10000: true} {
		if on, err := meteredCost(cost); on != want || err != nil {
			t.Errorf("%#x: %v, %v", cost, on, err)
		}
	}
	if on, err := meteredCost(0); on || err == nil {
		t.Error(on, err)
	}
}

func TestLowPriority(t *testing.T) {
	if err := LowPriority(); err != nil && !errors.Is(err, windows.STATUS_NOT_IMPLEMENTED) { // as under Wine
		t.Fatal(err)
	}
	if class, err := windows.GetPriorityClass(windows.CurrentProcess()); class != windows.IDLE_PRIORITY_CLASS || err != nil {
		t.Errorf("%#x, %v", class, err)
	}
}

// TestAnybodysPolicy checks that a policy file is refused if an ordinary user wrote it or may write it.
func TestAnybodysPolicy(t *testing.T) {
	path := filepath.Join(t.TempDir(), "policy.toml")
	if err := os.WriteFile(path, []byte("off = true\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	everybody, err := windows.SecurityDescriptorFromString("D:(A;;GA;;;WD)")
	if err != nil {
		t.Fatal(err)
	}
	acl, _, err := everybody.DACL()
	if err != nil {
		t.Fatal(err)
	}
	if err := windows.SetNamedSecurityInfo(path, windows.SE_FILE_OBJECT, windows.DACL_SECURITY_INFORMATION, nil, nil, acl, nil); err != nil {
		t.Fatal(err)
	}
	if p, err := ReadPolicy(path); p != nil || !errors.Is(err, errOwner) {
		t.Error(p, err)
	}
}
