package pglab

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"shoal/internal/pgserver"
)

// Server is one PostgreSQL server.
type Server struct {
	dir   string
	bin   string
	owner *syscall.Credential // nil: who runs the test
	cmd   *exec.Cmd
	done  chan error
	log   bytes.Buffer
	room  int64
	base  string // the database of the test that has a shared server now
}

// Options of a server.
type Options struct {
	// Durable makes the server sync what it commits. Tests that cut no power need not wait for that.
	Durable bool
	// Settings are lines of postgresql.conf.
	Settings []string
	// Room, if not 0, is how many bytes the server's disk has, a file system of its own in memory. The test must be root, best in a mount namespace.
	Room int64
}

// Start starts a server and stops it at the test's end. It skips the test if PostgreSQL is not installed, unless
// SHOAL_TEST_STRICT=1 makes that an error.
func Start(t testing.TB, o Options) *Server {
	t.Helper()
	s := folder(t, o)
	s.endWith(t)
	if err := s.create(o); err != nil {
		t.Fatal(err)
	}
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s
}

// folder makes a server's folder.
func folder(t testing.TB, o Options) *Server {
	t.Helper()
	bin, err := pgserver.Find()
	if err != nil {
		if os.Getenv("SHOAL_TEST_STRICT") == "1" {
			t.Fatalf("%v, and SHOAL_TEST_STRICT=1 wants it", err)
		}
		t.Skip(err)
	}
	s := &Server{bin: bin, room: o.Room}
	if s.owner, err = unprivileged(); err != nil {
		t.Fatal(err)
	}
	if s.dir, err = os.MkdirTemp("", "shoal-pg-"); err != nil {
		t.Fatal(err)
	}
	if err := s.own(); err != nil {
		t.Fatal(errors.Join(err, os.RemoveAll(s.dir)))
	}
	return s
}

// endWith ends a server when a test ends, and removes its folder.
func (s *Server) endWith(t testing.TB) {
	t.Cleanup(func() {
		s.Kill()
		if t.Failed() {
			t.Logf("PostgreSQL said:\n%s", lastLines(s.log.String(), 30))
		}
		if err := s.remove(); err != nil {
			t.Error(err)
		}
	})
}

// unprivileged returns the user that the server runs as, since PostgreSQL refuses root.
func unprivileged() (*syscall.Credential, error) {
	if os.Getuid() != 0 {
		return nil, nil
	}
	u, err := user.Lookup("postgres")
	if err != nil {
		if u, err = user.Lookup("nobody"); err != nil {
			return nil, err
		}
	}
	uid, err1 := strconv.ParseUint(u.Uid, 10, 32)
	gid, err2 := strconv.ParseUint(u.Gid, 10, 32)
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, errors.Join(err1, err2)
}

func (s *Server) create(o Options) error {
	cmd := s.command("initdb", "-D", s.data(), "-U", "shoal", "--auth=trust", "--no-locale", "--encoding=UTF8", "--no-sync")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w\n%s", err, out)
	}
	settings := append([]string{"listen_addresses = ''", "unix_socket_directories = '" + s.dir + "'", "max_connections = 200", "shared_buffers = 64MB"}, o.Settings...)
	if !o.Durable {
		settings = append(settings, "fsync = off", "full_page_writes = off")
	}
	return s.configure(settings)
}

// configure adds lines to postgresql.conf; of two of one name the last one counts.
func (s *Server) configure(settings []string) error {
	f, err := os.OpenFile(filepath.Join(s.data(), "postgresql.conf"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(strings.Join(settings, "\n") + "\n")
	return errors.Join(err, f.Close())
}

func (s *Server) data() string { return filepath.Join(s.dir, "data") }

func (s *Server) command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(s.bin, name), args...)
	cmd.Dir = s.dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: s.owner, Setpgid: true}
	return cmd
}

// lingers is how long processes of a server that was killed may keep the next one from starting.
const lingers = 30 * time.Second

// Start starts the server again after Kill, and waits until it answers. While processes of the one before linger, it tries again.
func (s *Server) Start(ctx context.Context) error {
	for end := time.Now().Add(lingers); ; {
		from := s.log.Len()
		err := s.launch(ctx)
		if err == nil || !strings.Contains(s.log.String()[from:], "is still in use") || time.Now().After(end) {
			return err
		}
	}
}

func (s *Server) launch(ctx context.Context) error {
	s.cmd = s.command("postgres", "-D", s.data())
	s.cmd.Stdout, s.cmd.Stderr = &s.log, &s.log
	s.cmd.SysProcAttr.Pdeathsig = syscall.SIGQUIT
	s.done = make(chan error, 1)
	began := make(chan error)
	go func(cmd *exec.Cmd, done chan error) {
		runtime.LockOSThread() // the signal comes when the thread ends that started the process
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		if began <- err; err == nil {
			done <- cmd.Wait()
		}
	}(s.cmd, s.done)
	if err := <-began; err != nil {
		return err
	}
	for {
		if s.command("pg_isready", "-q", "-h", s.dir, "-U", "shoal").Run() == nil {
			return nil
		}
		select {
		case err := <-s.done:
			s.cmd = nil
			return fmt.Errorf("PostgreSQL ended: %w\n%s", err, lastLines(s.log.String(), 30))
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// Kill ends the server and its processes at once, as a crash does.
func (s *Server) Kill() {
	if s.cmd == nil {
		return
	}
	_ = syscall.Kill(-s.cmd.Process.Pid, syscall.SIGKILL)
	<-s.done
	s.cmd = nil
}

// URL is where the server answers.
func (s *Server) URL() string { return "postgres://shoal@/" + s.database() + "?host=" + s.dir }

func (s *Server) database() string {
	if s.base != "" {
		return s.base
	}
	return "postgres"
}

func lastLines(text string, n int) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

// CPU is the processor time that the server and its processes have used.
func (s *Server) CPU() (used time.Duration, err error) {
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return 0, err
	}
	for _, name := range stats {
		text, err := os.ReadFile(name)
		if err != nil { // it has ended, and its parent has its time
			continue
		}
		f := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:])) // a program's name may hold anything
		if len(f) < 15 {
			continue
		}
		server := strconv.Itoa(s.cmd.Process.Pid)
		ticks := f[11:13] // the time of the process; behind it, that of its children that have ended
		switch {
		case filepath.Base(filepath.Dir(name)) == server:
			ticks = f[11:15]
		case f[1] != server: // its parent
			continue
		}
		for _, ticks := range ticks {
			n, err := strconv.ParseInt(ticks, 10, 64)
			if err != nil {
				return 0, err
			}
			used += time.Duration(n) * (time.Second / userHZ)
		}
	}
	return used, nil
}

// userHZ is in what the kernel counts processor time, for every program.
const userHZ = 100
