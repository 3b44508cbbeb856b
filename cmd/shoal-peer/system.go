package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"shoal/internal/service"
)

// place says where the peer of the whole computer keeps its things, and as whom it runs.
type place struct {
	data, config string
	user         string // empty: an account that the system makes
	log          string // empty: the system keeps the log
	vars         string // file of variables that the service reads; empty: none
}

// systemPlace returns the place for a system. macOS makes no accounts for services by itself, so there the peer runs as the user who has installed it.
func systemPlace(system string, env func(string) string) (place, error) {
	switch system {
	case "windows":
		root := env("ProgramData")
		if root == "" {
			root = `C:\ProgramData`
		}
		data := root + `\Shoal\peer`
		return place{data: data, config: data + `\peer.toml`}, nil
	case "darwin":
		user := env("SUDO_USER")
		if user == "" || user == "root" {
			return place{}, errors.New("on a Mac the peer of the whole computer runs as the user who installs it: put sudo before the command, and do not be root otherwise")
		}
		home := "/Users/" + user
		data := home + "/Library/Application Support/shoal/peer"
		return place{data: data, config: data + ".toml", user: user, log: home + "/Library/Logs/Shoal/shoal-peer.log"}, nil
	}
	data := "/var/lib/" + service.Name
	return place{data: data, config: data + "/peer.toml", user: service.Name, vars: "/etc/shoal/peer.env"}, nil
}

// variables reads the settings of a file of variables, as systemd reads it for the service: one NAME=VALUE a line, quotes around the value or none. No file is
// none of them.
func variables(file string) (vars []string, err error) {
	if file == "" {
		return nil, nil
	}
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) { // root has read what only root may, and passed it on
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the service's variables: %w", err)
	}
	for line := range strings.Lines(string(text)) {
		name, value, ok := strings.Cut(strings.TrimSpace(line), "=")
		if name = strings.TrimSpace(name); !ok || !strings.HasPrefix(name, "SHOAL_PEER_") {
			continue
		}
		value = strings.TrimSpace(value)
		for _, quote := range []string{`"`, "'"} {
			if inner, opened := strings.CutPrefix(value, quote); opened && strings.HasSuffix(inner, quote) {
				value = strings.TrimSuffix(inner, quote)
				break
			}
		}
		vars = append(vars, name+"="+value)
	}
	return vars, nil
}

// env are the variables by which the program finds its place.
func (p *place) env() []string {
	return []string{"SHOAL_PEER_CONFIG=" + p.config, "SHOAL_PEER_DATA=" + p.data}
}

// elsewhere carries out --system: it has the command work in the place of the whole computer's peer. If that belongs to another account, a process of that
// account does the work, so that no file of the service ends up as root's; the status is that process's then.
func (c *cli) elsewhere(ctx context.Context, command string, args []string, s *streams) (code int, done bool) {
	if !c.System || strings.HasPrefix(command, "service ") || strings.HasPrefix(command, "completion") || command == "version" {
		return 0, false
	}
	fail := func(err error) (int, bool) {
		fmt.Fprintf(s.err, "shoal-peer: %v\n", err)
		return 1, true
	}
	p, err := systemPlace(runtime.GOOS, ofComputer)
	if err != nil {
		return fail(err)
	}
	if c.Config != "" {
		return fail(errors.New("--system has its own configuration file, " + p.config + "; leave --config and SHOAL_PEER_CONFIG out"))
	}
	st, err := os.Stat(p.data)
	if err != nil {
		return fail(fmt.Errorf("no peer is set up for the whole computer (%w); set it up with: sudo shoal-peer --system service install", err))
	}
	as, err := accountOf(st)
	if err != nil {
		return fail(err)
	}
	more, err := variables(p.vars)
	if err != nil {
		return fail(err)
	}
	s.env = slices.Concat(more, s.env) // what is set for this command counts first
	if as != nil {
		return delegated(ctx, as, args, &p, s)
	}
	if err := prepare(p.config); err != nil {
		return fail(err)
	}
	c.Config = p.config
	s.env = append(s.env[:len(s.env):len(s.env)], p.env()...)
	return 0, false
}

// delegated runs the same command line in a process of the place's account.
func delegated(ctx context.Context, as func(*exec.Cmd), args []string, p *place, s *streams) (int, bool) {
	exe, err := os.Executable()
	if err != nil {
		fmt.Fprintf(s.err, "shoal-peer: %v\n", err)
		return 1, true
	}
	cmd := exec.CommandContext(ctx, exe, args...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.Stdin, cmd.Stdout, cmd.Stderr = s.in, s.out, s.err
	cmd.Dir = filepath.Dir(p.data)
	cmd.Env = slices.Concat(s.env, []string{"HOME=" + p.data})
	as(cmd)
	err = cmd.Run()
	var exit *exec.ExitError
	switch {
	case err == nil:
		return 0, true
	case errors.As(err, &exit):
		return max(exit.ExitCode(), 1), true
	}
	fmt.Fprintf(s.err, "shoal-peer: %v\n", err)
	return 1, true
}
