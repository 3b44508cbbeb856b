package member

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

func TestKeyFolder(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "keys")
	k, err := LoadOrCreate(dir, t0)
	if err != nil {
		t.Fatal(err)
	}
	if runtime.GOOS != "windows" {
		for _, name := range []string{fileRoot, fileWork, fileNode} {
			if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Mode().Perm() != 0o600 {
				t.Errorf("%s: %v, %v", name, info, err)
			}
		}
	}
	again, err := LoadOrCreate(dir, t0.Add(time.Hour))
	if err != nil || again.Network != k.Network || again.Node != k.Node || again.Authority.Delegation() != k.Authority.Delegation() {
		t.Fatalf("%+v, %v", again, err)
	}
	if _, err := openDelegation(k.Network, k.Authority.Sealed()); err != nil {
		t.Fatal(err)
	}
	// Near its end the delegation is renewed, to the same key.
	later, err := LoadOrCreate(dir, t0.Add(DelegationLife-30*24*time.Hour))
	if err != nil || later.Authority.Delegation().Serial <= k.Authority.Delegation().Serial || later.Authority.Delegation().Key != k.Authority.Delegation().Key || later.Previous == nil {
		t.Fatalf("%+v, %v", later, err)
	}
}

// TestRefresh checks that a manager that runs longer than its delegation lasts renews it on the way, and leaves a
// rotated key alone.
func TestRefresh(t *testing.T) {
	dir := t.TempDir()
	k, err := LoadOrCreate(dir, t0)
	if err != nil {
		t.Fatal(err)
	}
	holder, first := k.Authority, k.Authority.Delegation()
	if err := k.Refresh(t0.Add(DelegationLife / 2)); err != nil || holder.Delegation() != first {
		t.Errorf("in the middle of its life: %+v, %v", holder.Delegation(), err)
	}
	late := t0.Add(DelegationLife - time.Hour)
	if err := k.Refresh(late); err != nil {
		t.Fatal(err)
	}
	second := holder.Delegation()
	if second.Key != first.Key || second.Serial <= first.Serial || !second.NotAfter.After(late.Add(DelegationLife/2)) {
		t.Errorf("from %+v to %+v", first, second)
	}
	if list, minSerial := k.Delegations(late); len(list) != 2 || minSerial != first.Serial {
		t.Errorf("%d delegations, lowest %d: what the first covers has still to end", len(list), minSerial)
	}
	sealed, err := holder.Certify(Certificate{Peer: "p", Account: "ada", Role: Peer, NotBefore: late, NotAfter: late.Add(CertificateLife)})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := NewVerifier(k.Network).VerifyCertificate(late.Add(2*time.Hour), sealed); err != nil { // an hour after the end of the first
		t.Errorf("signed under the second: %v", err)
	}
	later := late.Add(DelegationLife - time.Hour)
	rotated, err := Rotate(dir, later, false)
	if err != nil {
		t.Fatal(err)
	}
	if err := k.Refresh(later); err != nil || holder.Delegation() != second {
		t.Errorf("rotated meanwhile: %+v, %v", holder.Delegation(), err)
	}
	if again, err := LoadOrCreate(dir, later); err != nil || again.Authority.Delegation() != rotated.Authority.Delegation() {
		t.Errorf("a rotated key was lost: %v", err)
	}
}

func TestRotate(t *testing.T) {
	dir := t.TempDir()
	k, err := LoadOrCreate(dir, t0)
	if err != nil {
		t.Fatal(err)
	}
	for _, stolen := range []bool{false, true} {
		next, err := Rotate(dir, t0, stolen) // within the same second
		if err != nil {
			t.Fatal(err)
		}
		was, is := k.Authority.Delegation(), next.Authority.Delegation()
		if next.Network != k.Network || is.Key == was.Key || is.Serial <= was.Serial || next.Node != k.Node {
			t.Fatalf("from %+v to %+v", was, is)
		}
		list, minSerial := next.Delegations(t0.Add(time.Hour))
		if stolen && (len(list) != 1 || minSerial != is.Serial) || !stolen && (len(list) != 2 || minSerial != was.Serial) {
			t.Fatalf("stolen %v: %d delegations, lowest %d", stolen, len(list), minSerial)
		}
		if list, minSerial := next.Delegations(t0.Add(3 * CertificateLife)); len(list) != 1 || minSerial != is.Serial {
			t.Fatalf("three days later: %d delegations, lowest %d", len(list), minSerial)
		}
		k = next
	}
	if err := os.Remove(filepath.Join(dir, fileRoot)); err != nil {
		t.Fatal(err)
	}
	if off, err := LoadOrCreate(dir, t0); err != nil || off.HasRoot() {
		t.Fatalf("root offline: %v", err)
	}
	if _, err := Rotate(dir, t0, false); err == nil || !strings.Contains(err.Error(), "restore it from the backup") {
		t.Fatalf("rotate without the root: %v", err)
	}
	if _, err := LoadOrCreate(dir, t0.Add(DelegationLife+time.Hour)); !errors.Is(err, ErrExpired) {
		t.Fatalf("ended delegation without the root: %v", err)
	}
}

func TestBackup(t *testing.T) {
	k, err := LoadOrCreate(t.TempDir(), t0)
	if err != nil {
		t.Fatal(err)
	}
	text, err := k.Backup()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	got, _, err := Restore(dir, strings.ReplaceAll(text, "\n", "\r\n"), t0.Add(time.Hour))
	if err != nil || got.Network != k.Network || got.Node != k.Node || got.Authority.Delegation().Serial <= k.Authority.Delegation().Serial {
		t.Fatalf("%+v, %v", got, err)
	}
	if loaded, err := LoadOrCreate(dir, t0.Add(time.Hour)); err != nil || loaded.Network != k.Network {
		t.Fatal(err)
	}
	serial := got.Authority.Delegation().Serial
	if err := os.Remove(filepath.Join(dir, fileRoot)); err != nil {
		t.Fatal(err)
	}
	if got, kept, err := Restore(dir, text, t0.Add(2*time.Hour)); err != nil || !kept || !got.HasRoot() || got.Authority.Delegation().Serial != serial {
		t.Fatalf("putting the root key back: kept %v, %+v, %v", kept, got, err)
	}
	if loaded, err := LoadOrCreate(dir, t0.Add(2*time.Hour)); err != nil || !loaded.HasRoot() || loaded.Authority.Delegation().Serial != serial {
		t.Fatalf("the working key is another one: %+v, %v", loaded, err)
	}
	end := t0.Add(DelegationLife + 3*time.Hour)
	if got, kept, err := Restore(dir, text, end); err != nil || kept || got.Authority.Delegation().Serial <= serial {
		t.Fatalf("the working key had ended: kept %v, %+v, %v", kept, got, err)
	}
	further := t.TempDir()
	joined, err := Join(further, text, t0)
	if err != nil {
		t.Fatal(err)
	}
	for _, at := range []time.Time{t0, end} {
		if got, _, err := Restore(further, text, at); err != nil || got.Node != joined.Node {
			t.Fatalf("a further manager has the first one's identity: %v", err)
		}
	}
	other := t.TempDir()
	if _, err := LoadOrCreate(other, t0); err != nil {
		t.Fatal(err)
	}
	if _, _, err := Restore(other, text, t0); err == nil || !strings.Contains(err.Error(), "keys of network") {
		t.Fatalf("over another network: %v", err)
	}
	lines := strings.Split(text, "\n")
	for name, bad := range map[string]string{"empty": "", "cut": text[:len(text)-9], "one line": lines[2], "not it": "hello", "huge": strings.Repeat("#\n", maxKeyFile)} {
		if _, _, err := Restore(t.TempDir(), bad, t0); !errors.Is(err, ErrMalformed) && !errors.Is(err, ErrTooLarge) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestDamagedKeyFolder(t *testing.T) {
	for name, tt := range map[string]struct {
		damage func(dir string) error
		says   string
	}{
		"node key gone": {func(d string) error { return os.Remove(filepath.Join(d, fileNode)) }, "restore it from the backup"},
		"node key cut":  {func(d string) error { return os.Truncate(filepath.Join(d, fileNode), 30) }, "mistyped"},
		"swapped":       {func(d string) error { return os.Rename(filepath.Join(d, fileRoot), filepath.Join(d, fileNode)) }, "this is a root key, not a node key"},
		"readable": {func(d string) error {
			if runtime.GOOS == "windows" {
				return os.Remove(filepath.Join(d, fileNode))
			}
			return os.Chmod(filepath.Join(d, fileRoot), 0o644)
		}, ""},
		"two networks": {func(d string) error {
			other, err := LoadOrCreate(filepath.Join(d, "other"), t0)
			if err != nil {
				return err
			}
			return os.Rename(filepath.Join(other.Dir, fileRoot), filepath.Join(d, fileRoot))
		}, "different networks"},
	} {
		dir := t.TempDir()
		if _, err := LoadOrCreate(dir, t0); err != nil {
			t.Fatal(err)
		}
		if err := tt.damage(dir); err != nil {
			t.Fatal(err)
		}
		if _, err := LoadOrCreate(dir, t0); err == nil || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: %v, want it to say %q", name, err, tt.says)
		}
	}
	// Creating cut short after any file goes on where it stopped; a lost working key is made anew.
	for _, gone := range [][]string{{fileWork}, {fileWork, fileRoot}} {
		dir := t.TempDir()
		if _, err := LoadOrCreate(dir, t0); err != nil {
			t.Fatal(err)
		}
		for _, f := range gone {
			os.Remove(filepath.Join(dir, f))
		}
		if k, err := LoadOrCreate(dir, t0); err != nil || k.Authority == nil {
			t.Errorf("without %v: %v", gone, err)
		}
	}
}

func TestNodeIdentity(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "peer")
	a, err := LoadOrCreateNode(dir)
	if err != nil || a == [32]byte{} {
		t.Fatal(a, err)
	}
	if b, err := LoadOrCreateNode(dir); err != nil || a != b {
		t.Fatal("identity changed", err)
	}
	if err := os.WriteFile(filepath.Join(dir, fileNode), []byte("rubbish"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := LoadOrCreateNode(dir); !errors.Is(err, ErrMalformed) {
		t.Fatal(err)
	}
}
