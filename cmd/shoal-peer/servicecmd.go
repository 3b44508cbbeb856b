package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"shoal/internal/release/programs"
	"shoal/internal/service"
	"shoal/peer"
	"shoal/peer/control"
)

type serviceCmd struct {
	Install   serviceInstallCmd   `cmd:"" help:"Have the peer run by itself: from your login on, or with --system from this computer's start on."`
	Start     serviceStartCmd     `cmd:"" help:"Start the service."`
	Stop      serviceStopCmd      `cmd:"" help:"Stop the service until the next login, or with --system until this computer starts again."`
	Status    serviceStatusCmd    `cmd:"" help:"Show whether the service is installed and runs, and where its log is."`
	Uninstall serviceUninstallCmd `cmd:"" help:"Stop the service and remove it. What the peer has stored stays."`
	Run       serviceRunCmd       `cmd:"" hidden:"" help:"What the service runs."`
}

type (
	serviceInstallCmd   struct{}
	serviceStartCmd     struct{}
	serviceStopCmd      struct{}
	serviceStatusCmd    struct{}
	serviceUninstallCmd struct{}
)

// serviceManager returns the service manager that the command line means. Tests replace it.
var serviceManager = func(s streams, top *cli) (service.Manager, error) {
	spec, err := serviceSpec(s, top)
	if err != nil {
		return nil, err
	}
	return service.For(spec, service.Tools{Run: tool, UID: os.Getuid()})
}

// tool runs a command of the system and returns all that it printed.
func tool(ctx context.Context, name string, args ...string) (string, error) {
	out, err := exec.CommandContext(ctx, name, args...).CombinedOutput()
	return string(out), err
}

// serviceSpec describes the service: this program, with the configuration file and the SHOAL_PEER_ variables that hold now.
func serviceSpec(s streams, top *cli) (service.Spec, error) {
	exe, err := os.Executable()
	if err != nil {
		return service.Spec{}, err
	}
	spec := service.Spec{Exec: exe, Args: []string{"service", "run"}, System: top.System}
	if top.System {
		p, err := systemPlace(runtime.GOOS, ofComputer)
		if err != nil {
			return spec, err
		}
		spec.User, spec.Data, spec.Home, spec.Log, spec.Env = p.user, p.data, p.data, p.log, p.env()
	} else {
		if spec.Home, err = os.UserHomeDir(); err != nil {
			return spec, err
		}
		spec.User = os.Getenv("USERDOMAIN") + `\` + os.Getenv("USERNAME") // for Windows, whose tasks name their user
		if spec.Log, err = userLog(runtime.GOOS, spec.Home); err != nil {
			return spec, err
		}
		for _, e := range s.env {
			if strings.HasPrefix(e, "SHOAL_PEER_") && !strings.HasPrefix(e, "SHOAL_PEER_CONFIG=") {
				spec.Env = append(spec.Env, e)
			}
		}
		if top.Config != "" {
			spec.Args = append(spec.Args, "--config", top.Config)
		}
	}
	if spec.Log != "" {
		spec.Args = append(spec.Args, "--log", spec.Log)
	}
	return spec, nil
}

// userLog is the file of a user's service where the system keeps no log of what services print.
func userLog(system, home string) (string, error) {
	switch system {
	case "darwin":
		return filepath.Join(home, "Library", "Logs", "Shoal", "shoal-peer.log"), nil
	case "windows":
		dir, err := os.UserCacheDir()
		return filepath.Join(dir, "shoal", "shoal-peer.log"), err
	}
	return "", nil
}

// whose words for whom the service runs.
func (c *cli) whose() string {
	if c.System {
		return "for the whole computer"
	}
	return "for you"
}

// thenRun says how a new member begins.
func (c *cli) thenRun() string {
	if c.System {
		return "The service crawls from now on; to see what it does: shoal-peer --system status"
	}
	return "Start crawling with: shoal-peer run\nTo have it run by itself: shoal-peer service install"
}

// withSystem is the program's name and the flag that the command line had.
func (c *cli) withSystem() string {
	if c.System {
		return "shoal-peer --system"
	}
	return "shoal-peer"
}

func (*serviceInstallCmd) Run(ctx context.Context, s streams, top *cli) error {
	m, err := serviceManager(s, top)
	if err != nil {
		return err
	}
	if !top.System {
		set, err := load(top.Config, s.env, nil)
		if err != nil {
			return err // a service could only fail, where no volunteer looks
		}
		forget(set.Data)
	}
	if err := m.Install(ctx); err != nil {
		return err
	}
	st, err := m.State(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintf(s.out, "The service is installed %s: %s.\nIts log: %s\n", top.whose(), st.Says, st.Logs)
	if !joined(s, top) {
		fmt.Fprintf(s.out, "It waits until this computer is a member: %s join JOIN-STRING\n", top.withSystem())
	}
	if !top.System && runtime.GOOS == "linux" {
		fmt.Fprintln(s.out, "It runs while you are logged in; to have it run from the computer's start on: loginctl enable-linger")
	}
	return nil
}

// joined tells whether the peer of the command line is a member, as far as this user can see.
func joined(s streams, top *cli) bool {
	data := ""
	if top.System {
		p, err := systemPlace(runtime.GOOS, ofComputer)
		if err != nil {
			return false
		}
		data = p.data
	} else if set, err := load(top.Config, s.env, nil); err == nil {
		data = set.Data
	}
	is, err := peer.IsMember(data)
	return is || err != nil
}

// order runs one order to the service manager and says what was done.
func order(ctx context.Context, s streams, top *cli, what func(service.Manager, context.Context) error, said string) error {
	m, err := serviceManager(s, top)
	if err == nil {
		err = what(m, ctx)
	}
	if errors.Is(err, service.ErrNotInstalled) {
		return fmt.Errorf("no service is installed %s; install it with: %s service install", top.whose(), top.withSystem())
	}
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(s.out, said)
	return err
}

func (*serviceStartCmd) Run(ctx context.Context, s streams, top *cli) error {
	if set, err := load(top.Config, s.env, nil); err == nil && !top.System {
		forget(set.Data) // what crashed before is no reason to wait now
	}
	return order(ctx, s, top, service.Manager.Start, "The service is started.")
}

func (*serviceStopCmd) Run(ctx context.Context, s streams, top *cli) error {
	return order(ctx, s, top, ending(s, top, service.Manager.Stop), "The service is stopped.")
}

// ending is an order that ends the service. Windows ends a task's programs at once, without a word to them: that is no crash of a version on probation.
func ending(s streams, top *cli, what func(service.Manager, context.Context) error) func(service.Manager, context.Context) error {
	return func(m service.Manager, ctx context.Context) error {
		if err := what(m, ctx); err != nil {
			return err
		}
		if set, err := load(top.Config, s.env, nil); err == nil && !top.System {
			return toldToEnd(ctx, set.Data)
		}
		return nil
	}
}

// settleWait bounds the wait for programs that are told to end.
const settleWait = 5 * time.Second

// toldToEnd notes that the version on probation was told to end, unless a program still runs here, which then says so itself.
func toldToEnd(ctx context.Context, data string) error {
	folder := programs.At(data)
	if st, err := folder.Load(); err != nil || st.Trial == nil || !st.Trial.Running {
		return nil //nolint:nilerr // the next start says what is wrong with the record
	}
	for end := time.Now().Add(settleWait); ; {
		unlock, err := peer.LockRun(data)
		if err == nil {
			defer unlock()
			return folder.Change(func(st *programs.State) error { st.Ended(); return nil })
		}
		if !errors.Is(err, peer.ErrLocked) {
			return err
		}
		if time.Now().After(end) {
			return nil
		}
		if err := pause(ctx, 100*time.Millisecond); err != nil {
			return err
		}
	}
}

func (*serviceUninstallCmd) Run(ctx context.Context, s streams, top *cli) error {
	return order(ctx, s, top, ending(s, top, service.Manager.Uninstall), "The service is removed. What the peer has stored is still there; to leave the network too: "+top.withSystem()+" leave")
}

func (*serviceStatusCmd) Run(ctx context.Context, s streams, top *cli) error {
	m, err := serviceManager(s, top)
	if err != nil {
		return err
	}
	st, err := m.State(ctx)
	if err != nil {
		return err
	}
	if !st.Installed {
		fmt.Fprintf(s.out, "service   not installed %s\n", top.whose())
	} else {
		fmt.Fprintf(s.out, "service   installed %s; %s\nlog       %s\n", top.whose(), st.Says, st.Logs)
	}
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	from := ""
	if by := service.PackagedBy(exe); by != "" {
		from = ", which a package (" + by + ") keeps up to date"
	}
	fmt.Fprintf(s.out, "program   %s%s\n", exe, from)
	fmt.Fprintf(s.out, "peer      %s\n", says(ctx, s, top))
	return nil
}

// says is the running peer's own sentence, or why there is none.
func says(ctx context.Context, s streams, top *cli) string {
	data := ""
	if top.System {
		if p, err := systemPlace(runtime.GOOS, ofComputer); err == nil {
			data = p.data
		}
	}
	cl, _, err := client(s, top, data)
	var st status
	if err == nil {
		err = cl.Status(ctx, &st)
	}
	switch {
	case err == nil:
		return st.Says
	case !joined(s, top):
		return "waits until this computer is a member: " + top.withSystem() + " join JOIN-STRING"
	case errors.Is(err, control.ErrNoAgent):
		return "does not run"
	}
	return err.Error()
}
