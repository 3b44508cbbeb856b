// Package service makes shoal-peer run by itself. It writes the definitions that systemd, launchd and Windows read, and asks these service
// managers to start, stop and report.
//
// The definitions are pure text, made from a Spec, and are the same on every system, so that packages and tests can make them anywhere.
// systemd and launchd are reached through their commands alone, which a Tools runs. Only the Windows service needs the system's own calls.
//
// The package does not supervise: the service manager starts the program again after a crash, at once. How long the program then waits is
// decided by Starts, since launchd, Windows and older versions of systemd know no waits that grow.
package service

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Name is the service's name at systemd and Windows.
const Name = "shoal-peer"

// WindowsFlag ends the command line of a Windows service: it has the program answer the service manager.
const WindowsFlag = "--windows-service"

// A Spec says what is to run, and for whom.
type Spec struct {
	Exec   string   // absolute path of the program
	Args   []string // its command line without the program
	Env    []string // NAME=value
	System bool     // from the computer's start on, rather than from its user's login on
	User   string   // account that it runs as; empty: systemd's and launchd's own choice
	Home   string   // the user's folder; the service of a user is defined below it
	Data   string   // folder in which the program writes; empty: its user's
	Log    string   // file of its log, where the system keeps none
}

// Validate refuses what no definition can express.
func (s *Spec) Validate() error {
	if !filepath.IsAbs(s.Exec) && !strings.Contains(s.Exec, `:\`) {
		return fmt.Errorf("service: the program's path %q is not absolute", s.Exec)
	}
	for _, text := range append(append([]string{s.Exec, s.User, s.Home, s.Data, s.Log}, s.Args...), s.Env...) {
		if strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f }) {
			return fmt.Errorf("service: %q contains a control character, which no service definition can hold", text)
		}
	}
	return nil
}

// A State is what a service manager says of the service.
type State struct {
	Installed bool
	Running   bool
	Says      string // the manager's own words
	Logs      string // how to see the log
}

// A Manager is the service manager of this system.
type Manager interface {
	Install(context.Context) error // defines the service, and has it start with the computer or the user's login; starts it too
	Start(context.Context) error
	Stop(context.Context) error
	State(context.Context) (State, error)
	Uninstall(context.Context) error
}

// Tools are what the definitions are installed with. Tests pass their own.
type Tools struct {
	Run func(ctx context.Context, name string, args ...string) (out string, err error)
	UID int // of the user whose service is meant, for launchd

	Booted func() bool // whether systemd runs here; nil: as systemd itself tells
}

// booted reports whether systemd runs here, as sd_booted(3) has it.
func (t *Tools) booted() bool {
	if t.Booted != nil {
		return t.Booted()
	}
	_, err := os.Stat("/run/systemd/system")
	return err == nil
}

var (
	// ErrNoManager is returned where the service manager of the system is missing or does not answer.
	ErrNoManager = errors.New("service: no service manager")
	// ErrNotInstalled is returned by orders to a service that is not defined.
	ErrNotInstalled = errors.New("service: not installed")
)

// on returns the manager of a system that is asked by commands.
func on(system string, s Spec, t Tools) (Manager, error) {
	switch system {
	case "linux":
		return &Systemd{s, t}, nil
	case "darwin":
		return &Launchd{s, t}, nil
	}
	return nil, fmt.Errorf("%w that shoal-peer knows on %s; have your own one run: %s service run", ErrNoManager, system, s.Exec)
}

// absent reports whether a tool is not on this computer.
func absent(err error) bool {
	return errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist)
}
