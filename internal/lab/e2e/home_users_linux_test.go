package e2e

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// nobody is a user who has no part in the peer.
const nobody = 65534

// TestOtherUsersGetNothing has another local user ask the running peer, read its folder, and listen at its port first.
func TestOtherUsersGetNothing(t *testing.T) {
	drivesPrograms(t)
	if os.Getuid() != 0 {
		t.Skip("only root can become another user")
	}
	t.Parallel()
	dir, err := os.MkdirTemp("", "shoal-users-*") // a folder that others may walk through
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	data, program := filepath.Join(dir, "data"), filepath.Join(dir, "shoal-peer")
	b, err := os.ReadFile(filepath.Join(bin, "shoal-peer"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(program, b, 0o755); err != nil {
		t.Fatal(err)
	}
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	p := start(t, "shoal-peer", "run", "--data", data, "--control", taken.Addr().String())
	<-p.done
	if said := p.said(); p.cmd.ProcessState.ExitCode() != 1 || !strings.Contains(said, "another user's peer, uses "+taken.Addr().String()) || !strings.Contains(said, "set control to another port") {
		t.Errorf("at a port that is taken: %s", said)
	}
	p = start(t, "shoal-peer", "run", "--data", data, "--control", "127.0.0.1:0")
	p.until("serves its page", func() bool { _, err := os.Stat(filepath.Join(data, "control.json")); return err == nil })
	for _, args := range [][]string{{"status"}, {"open", "--print"}, {"settings", "threads=9"}, {"log"}, {"leave"}, {"run"}} {
		cmd := exec.Command(program, append(args, "--data", data)...)
		cmd.Env, cmd.Dir = []string{"HOME=/nonexistent", "XDG_CONFIG_HOME=/nonexistent", "XDG_STATE_HOME=/nonexistent"}, "/"
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
		out, err := cmd.CombinedOutput()
		if err == nil || strings.Count(string(out), "\n") != 1 || !strings.Contains(string(out), "permission denied") && !strings.Contains(string(out), "another user") {
			t.Errorf("another user's %v: %v %s", args, err, out)
		}
	}
	st, err := os.Stat(data)
	if err != nil || st.Mode().Perm() != 0o700 {
		t.Errorf("the folder: %v %v", st.Mode(), err)
	}
	if p.cmd.ProcessState != nil {
		t.Error(fmt.Sprint("the peer has ended: ", p.said()))
	}
}
