package pglab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A standby is told apart by this name.
const standbyName = "standby"

// StartStandby starts a copy of a server, which follows it. The server answers a commit from then on when both have it.
func StartStandby(t testing.TB, primary *Server, o Options) *Server {
	t.Helper()
	s := folder(t, o)
	s.endWith(t)
	if err := s.Follow(t.Context(), primary); err != nil {
		t.Fatal(err)
	}
	return s
}

// Follow makes this server, which does not run, a copy of another one, and has that one wait for it.
func (s *Server) Follow(ctx context.Context, primary *Server) error {
	if err := os.RemoveAll(s.data()); err != nil {
		return err
	}
	if out, err := s.command("pg_basebackup", "-D", s.data(), "-h", primary.dir, "-U", "shoal", "--checkpoint=fast", "--no-sync").CombinedOutput(); err != nil {
		return fmt.Errorf("pg_basebackup: %w\n%s", err, out)
	}
	err := s.configure([]string{"unix_socket_directories = '" + s.dir + "'",
		fmt.Sprintf("primary_conninfo = 'host=%s user=shoal application_name=%s'", primary.dir, standbyName)})
	if err == nil {
		err = os.WriteFile(filepath.Join(s.data(), "standby.signal"), nil, 0o600)
	}
	if err == nil && s.owner != nil {
		err = os.Chown(filepath.Join(s.data(), "standby.signal"), int(s.owner.Uid), int(s.owner.Gid))
	}
	if err == nil {
		err = s.Start(ctx)
	}
	if err == nil {
		err = primary.waitFor(ctx, "ANY 1 ("+standbyName+")")
	}
	if err != nil {
		return err
	}
	return primary.until(ctx, `SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming' AND sync_state <> 'async'`, "1")
}

// waitFor sets synchronous_standby_names.
func (s *Server) waitFor(ctx context.Context, names string) error {
	if _, err := s.Ask(ctx, "ALTER SYSTEM SET synchronous_standby_names = '"+names+"'"); err != nil {
		return err
	}
	_, err := s.Ask(ctx, "SELECT pg_reload_conf()")
	return err
}

// Promote makes a standby a server of its own, which waits for no other one. The server that it follows must be killed before.
func (s *Server) Promote(ctx context.Context) error {
	if _, err := s.Ask(ctx, "SELECT pg_promote()"); err != nil {
		return err
	}
	if err := s.until(ctx, "SELECT pg_is_in_recovery()", "f"); err != nil {
		return err
	}
	return s.waitFor(ctx, "")
}

// Ask runs a statement, and returns the rows, unaligned.
func (s *Server) Ask(ctx context.Context, statement string) (string, error) {
	cmd := s.command("psql", "-X", "-A", "-t", "-h", s.dir, "-U", "shoal", "-d", s.database(), "-c", statement)
	cmd.Env = append(os.Environ(), "PGOPTIONS=-c synchronous_commit=local")
	var said strings.Builder
	cmd.Stderr = &said
	if err := ctx.Err(); err != nil {
		return "", err
	}
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w: %s", statement, err, said.String())
	}
	return strings.TrimSpace(string(out)), nil
}

// until waits for an answer.
func (s *Server) until(ctx context.Context, statement, want string) error {
	for {
		is, err := s.Ask(ctx, statement)
		if err == nil && is == want {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s is %q, %w: want %q", statement, is, errors.Join(err, ctx.Err()), want)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// Runs reports whether the server runs.
func (s *Server) Runs() bool {
	if s.cmd == nil {
		return false
	}
	select {
	case err := <-s.done:
		s.done <- err
		return false
	default:
		return true
	}
}

// Pause stops all processes of the server, and Resume lets them go on.
func (s *Server) Pause() { s.signal(syscall.SIGSTOP) }

// Resume ends Pause.
func (s *Server) Resume() { s.signal(syscall.SIGCONT) }

// signal sends a signal to the server and to its processes, which have groups of their own.
func (s *Server) signal(sig syscall.Signal) {
	if s.cmd == nil {
		return
	}
	server := strconv.Itoa(s.cmd.Process.Pid)
	_ = syscall.Kill(s.cmd.Process.Pid, sig) // first: it starts no more of them
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, name := range stats {
		text, err := os.ReadFile(name)
		if err != nil {
			continue // it has ended
		}
		f := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(name))); err == nil && len(f) > 1 && f[1] == server {
			_ = syscall.Kill(pid, sig)
		}
	}
}

// Socket is the file at which the server answers.
func (s *Server) Socket() string { return filepath.Join(s.dir, ".s.PGSQL.5432") }

// own gives the folder to the user as whom the server runs, and a file system of its own if it has bounds.
func (s *Server) own() error {
	if s.room > 0 {
		if err := unix.Mount("tmpfs", s.dir, "tmpfs", 0, fmt.Sprintf("size=%d,mode=0755", s.room)); err != nil {
			return fmt.Errorf("a file system of %d bytes: %w", s.room, err)
		}
	}
	if s.owner == nil {
		return nil
	}
	return os.Chown(s.dir, int(s.owner.Uid), int(s.owner.Gid))
}

func (s *Server) unmount() error {
	if s.room == 0 {
		return nil
	}
	return unix.Unmount(s.dir, unix.MNT_DETACH)
}

func (s *Server) ballast() string { return filepath.Join(s.dir, "ballast") }

// Fill takes all room that the server's disk has left, and Empty gives it back. The server may end.
func (s *Server) Fill() error {
	f, err := os.Create(s.ballast())
	if err != nil {
		return err
	}
	block := make([]byte, 1<<16)
	for err == nil {
		_, err = f.Write(block)
	}
	if errors.Is(err, unix.ENOSPC) {
		err = nil
	}
	return errors.Join(err, f.Close())
}

// Empty ends Fill.
func (s *Server) Empty() error { return os.Remove(s.ballast()) }
