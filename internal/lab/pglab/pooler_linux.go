package pglab

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"time"
)

// poolerPort is in the name of a pooler's socket.
const poolerPort = 6432

// StartPooler starts pgBouncer in front of a server, and stops it at the test's end. mode is its pool_mode: session, transaction. It returns the URL of the server's
// database at the pooler. It skips the test if pgBouncer is not installed, unless SHOAL_TEST_STRICT=1 makes that an error.
func StartPooler(t testing.TB, s *Server, mode string) (url string) {
	t.Helper()
	bin, err := exec.LookPath("pgbouncer")
	if err != nil {
		bin, err = exec.LookPath("/usr/sbin/pgbouncer")
	}
	if err != nil {
		if os.Getenv("SHOAL_TEST_STRICT") == "1" {
			t.Fatal("pgBouncer is not installed, and SHOAL_TEST_STRICT=1 wants it: apt-get install pgbouncer")
		}
		t.Skip("pgBouncer is not installed: apt-get install pgbouncer")
	}
	dir, err := os.MkdirTemp("", "shoal-pool-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	ini := filepath.Join(dir, "pgbouncer.ini")
	if err := os.WriteFile(ini, fmt.Appendf(nil, "[databases]\n* = host=%s user=shoal\n[pgbouncer]\nunix_socket_dir = %s\nlisten_port = %d\nauth_type = any\npool_mode = %s\n", s.dir, dir, poolerPort, mode), 0o644); err != nil {
		t.Fatal(err)
	}
	if s.owner != nil {
		if err := os.Chown(dir, int(s.owner.Uid), int(s.owner.Gid)); err != nil {
			t.Fatal(err)
		}
	}
	var log bytes.Buffer
	cmd := exec.Command(bin, ini)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, &log, &log
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: s.owner, Pdeathsig: syscall.SIGKILL}
	began, done := make(chan error), make(chan error, 1)
	go func() {
		runtime.LockOSThread() // the signal comes when the thread ends that started the process
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		if began <- err; err == nil {
			done <- cmd.Wait()
		}
	}()
	if err := <-began; err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-done
		if t.Failed() {
			t.Logf("pgBouncer said:\n%s", lastLines(log.String(), 30))
		}
	})
	for {
		if c, err := net.Dial("unix", filepath.Join(dir, fmt.Sprint(".s.PGSQL.", poolerPort))); err == nil { // its file is there a moment before it listens
			c.Close()
			return fmt.Sprintf("postgres://shoal@/%s?host=%s&port=%d", s.database(), dir, poolerPort)
		}
		select {
		case err := <-done:
			done <- err
			t.Fatalf("pgBouncer ended: %v\n%s", err, log.String())
		case <-t.Context().Done():
			t.Fatal(t.Context().Err())
		case <-time.After(20 * time.Millisecond):
		}
	}
}
