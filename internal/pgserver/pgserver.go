// Package pgserver runs a PostgreSQL server of this machine's own programs, in a folder: for a look at a network of several managers, and for tests. Who runs a
// network that must live runs PostgreSQL as its distribution means it.
package pgserver

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Oldest is the oldest version of PostgreSQL that will do.
const Oldest = 15

// ErrNone is returned where no PostgreSQL is found.
var ErrNone = errors.New("no PostgreSQL 15 or later is on this machine: install it (Debian, Ubuntu: apt-get install postgresql; Fedora: dnf install postgresql-server; macOS: brew install postgresql)")

// places are where packages put the programs; the folder that * stands for names the version.
var places = []string{"/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin", "/opt/homebrew/opt/postgresql@*/bin", "/usr/local/opt/postgresql@*/bin", `C:\Program Files\PostgreSQL\*\bin`}

// Find returns the folder with the programs of the newest version.
func Find() (string, error) {
	newest, version := "", Oldest-1
	for _, pattern := range places {
		found, err := filepath.Glob(pattern)
		if err != nil {
			return "", err
		}
		for _, dir := range found {
			name := filepath.Base(filepath.Dir(dir))
			if n, err := strconv.Atoi(strings.TrimLeft(name, "abcdefghijklmnopqrstuvwxyz-@")); err == nil && n > version && has(dir) {
				newest, version = dir, n
			}
		}
	}
	if newest != "" {
		return newest, nil
	}
	path, err := exec.LookPath("postgres")
	if err != nil {
		return "", ErrNone
	}
	out, err := exec.Command(path, "--version").Output() // postgres (PostgreSQL) 16.2
	if words := strings.Fields(string(out)); err == nil && len(words) > 2 {
		major, _, _ := strings.Cut(words[2], ".")
		if n, err := strconv.Atoi(major); err == nil && n >= Oldest && has(filepath.Dir(path)) {
			return filepath.Dir(path), nil
		}
	}
	return "", ErrNone
}

// has reports whether all programs that are needed are in a folder.
func has(dir string) bool {
	return !slices.ContainsFunc([]string{"initdb", "postgres", "pg_ctl", "pg_isready"}, func(name string) bool {
		_, err := exec.LookPath(filepath.Join(dir, name))
		return err != nil
	})
}

// Server is one that runs.
type Server struct {
	bin, data, socket string
	before            []string // places that have the data of folders that were there earlier
	owner             *owner   // nil: this process's user
	cmd               *exec.Cmd
	done              chan string // how it ended
	log               tail        // read when it has ended
}

// Start starts the server whose data lies in a folder, or makes it. Root cannot run one: then another user does, and the data lies in the folder for
// temporary files that outlive a restart of the machine, as that user cannot reach root's own; the folder says where.
func Start(ctx context.Context, dir string) (s *Server, err error) {
	s = &Server{done: make(chan string, 1)}
	if s.bin, err = Find(); err != nil {
		return nil, err
	}
	if s.owner, err = unprivileged(); err != nil {
		return nil, err
	}
	if s.data, s.before, err = s.owner.place(dir); err != nil {
		return nil, err
	}
	if s.socket, err = os.MkdirTemp("", "shoal-pg-"); err != nil { // a socket's path must be short
		return nil, err
	}
	if err = s.create(); err == nil {
		s.endEarlier()
		err = s.run(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, s.Stop())
	}
	return s, nil
}

// create makes the data folder, unless it is there.
func (s *Server) create() error {
	if err := s.owner.give(s.socket); err != nil {
		return err
	}
	if err := os.MkdirAll(s.data, 0o700); err != nil {
		return err
	}
	if err := s.owner.give(s.data); err != nil { // also where there is one: in a public place anyone may have made it
		return err
	}
	if _, err := os.Stat(filepath.Join(s.data, "PG_VERSION")); err == nil {
		return nil
	}
	if out, err := s.command("initdb", "-D", s.data, "-U", "shoal", "--auth=trust", "--no-locale", "--encoding=UTF8").CombinedOutput(); err != nil {
		return fmt.Errorf("PostgreSQL's data folder cannot be made: %w\n%s", err, out)
	}
	return nil
}

func (s *Server) command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(s.bin, name), args...)
	cmd.Dir = s.socket
	s.owner.run(cmd)
	return cmd
}

// endEarlier ends a server that still runs on the folder, because the program that had started it was killed.
func (s *Server) endEarlier() {
	if _, err := os.Stat(filepath.Join(s.data, "postmaster.pid")); err == nil {
		_ = s.command("pg_ctl", "stop", "-D", s.data, "-m", "immediate").Run() // if none runs, it says so
	}
}

// run starts the server, which listens on a socket in a folder of its user alone, and waits until it answers.
func (s *Server) run(ctx context.Context) error {
	s.cmd = s.command("postgres", "-D", s.data, "-c", "listen_addresses=", "-c", "unix_socket_directories="+s.socket, "-c", "max_connections=200")
	s.cmd.Stdout, s.cmd.Stderr = &s.log, &s.log
	if err := s.cmd.Start(); err != nil {
		s.cmd = nil
		return err
	}
	go func(cmd *exec.Cmd) {
		_ = cmd.Wait() // its state says all
		s.done <- cmd.ProcessState.String()
	}(s.cmd)
	for {
		if s.command("pg_isready", "-q", "-h", s.socket, "-U", "shoal").Run() == nil {
			return nil
		}
		select {
		case how := <-s.done:
			s.cmd = nil
			return fmt.Errorf("PostgreSQL ended: %s\n%s", how, lastLines(string(s.log.kept)))
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// Keep starts the server again whenever it ends, some time afterwards, and tells of both. It returns when ctx ends, and must have before Stop.
func (s *Server) Keep(ctx context.Context, away time.Duration, tell func(what string)) {
	for {
		select {
		case <-ctx.Done():
			return
		case how := <-s.done:
			tell(fmt.Sprintf("PostgreSQL has ended (%s). Nothing is handed out or stored without it; it is started again in %v.", how, away))
		}
		for s.cmd = nil; s.cmd == nil; {
			select {
			case <-ctx.Done():
				return
			case <-time.After(away):
			}
			err := s.run(ctx)
			if err != nil && ctx.Err() != nil {
				return
			}
			if err != nil { // processes of the one that was killed may still be there
				tell(fmt.Sprintf("PostgreSQL does not start: %v\nThis is tried again in %v.", err, away))
			}
		}
		tell(fmt.Sprintf("PostgreSQL runs again, as process %d.", s.cmd.Process.Pid))
	}
}

// tail keeps the end of what is written to it.
type tail struct{ kept []byte }

// mostTail is how much of it, in bytes: a server may run for months, and what is wanted is why it ended.
const mostTail = 64 << 10

// Write implements io.Writer.
func (t *tail) Write(b []byte) (int, error) {
	t.kept = append(t.kept, b...)
	if len(t.kept) > 2*mostTail {
		t.kept = append([]byte(nil), t.kept[len(t.kept)-mostTail:]...)
	}
	return len(b), nil
}

func lastLines(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(0, len(lines)-10):], "\n")
}

// URL is where the server answers.
func (s *Server) URL() string { return "postgres://shoal@/postgres?host=" + s.socket }

// Data is the folder where its data lies.
func (s *Server) Data() string { return s.data }

// Before are places with the data of folders that were deleted, or moved away, from where this server's is. They are not needed unless they were moved.
func (s *Server) Before() []string { return s.before }

// stopWait is how long an orderly end may take.
const stopWait = 20 * time.Second

// Stop ends the server in order.
func (s *Server) Stop() error {
	if s.cmd != nil {
		interrupt(s.cmd.Process)
		select {
		case <-s.done:
		case <-time.After(stopWait):
			_ = s.cmd.Process.Kill()
			<-s.done
		}
		s.cmd = nil
	}
	return os.RemoveAll(s.socket)
}
