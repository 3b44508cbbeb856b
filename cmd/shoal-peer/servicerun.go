package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"shoal/internal/plain"
	"shoal/internal/service"
)

// serviceRunCmd is what a service manager runs. It waits for settings that can be read, and after a crash for some time, and then does what the
// command run does. It ends with an error only where a new start may help.
type serviceRunCmd struct {
	To      string `name:"log" help:"File for the log, of at most 5 MB; an older one lies beside it." type:"path" placeholder:"FILE"`
	Windows bool   `name:"windows-service" help:"Answer the service manager of Windows, and use the folder of the whole computer's peer."`
	runCmd
}

// lookForSettings is how often the service looks whether a person has mended the settings.
const lookForSettings = 10 * time.Second

func (c *serviceRunCmd) Run(ctx context.Context, s streams, top *cli) error {
	if c.To != "" {
		l, err := service.OpenLog(c.To)
		if err != nil {
			return err
		}
		defer l.Close()
		s.err, s.out = l, l
	}
	again := func(ctx context.Context, s streams) error {
		set, err := c.readable(ctx, s, top)
		if err != nil {
			return err
		}
		return launched(ctx, c.launcher(s, &set, c.args(top)), func(ctx context.Context) error {
			for {
				if err := c.once(ctx, s, top); err != nil || ctx.Err() != nil {
					return err
				}
			}
		})
	}
	if !c.Windows {
		return again(ctx, s)
	}
	p, err := systemPlace("windows", ofComputer)
	if err != nil {
		return err
	}
	top.Config = p.config // a Windows service has no variables of its own
	s.env = append(s.env[:len(s.env):len(s.env)], p.env()...)
	return windowsService(ctx, s, &p, again)
}

// args is the command line of another version of the program, whose log and whose answers to Windows are this one's.
func (c *serviceRunCmd) args(top *cli) []string {
	var out []string
	for i := 1; i < len(os.Args); i++ {
		switch a := os.Args[i]; {
		case a == "--windows-service", strings.HasPrefix(a, "--log="):
		case a == "--log":
			i++
		default:
			out = append(out, a)
		}
	}
	if c.Windows {
		out = append(out, "--config", top.Config)
	}
	return out
}

// once runs the peer until it ends or leaves its network.
func (c *serviceRunCmd) once(ctx context.Context, s streams, top *cli) error {
	set, err := c.readable(ctx, s, top)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(set.Data, 0o700); err != nil {
		return fmt.Errorf("data folder: %w", err)
	}
	file := starts(set.Data)
	past, err := service.LoadStarts(file)
	if err != nil {
		return err
	}
	next, wait := past.Next(time.Now())
	if err := service.SaveStarts(file, next); err != nil { // the next start would know of no crash, and wait for none
		wait = max(wait, c.Minute)
		c.log(s).Error("crashes are not counted until the disk takes what is written to it: each start waits for a minute; make room on the disk if it is full", "err", err)
	} else if wait > 0 {
		c.log(s).Warn("the peer ended without being asked to: it starts again after a wait", "in_a_row", next.Crashes, "wait", wait)
	}
	if err = pause(ctx, wait); err == nil {
		err = c.here(ctx, s, top) // which waits until the computer is a member
	}
	if err == nil || errors.Is(err, errSwap) || ctx.Err() != nil { // it left its network, makes room for another version, or was told to end
		if service.SaveStarts(file, service.Starts{}) != nil {
			forget(set.Data) // a full disk takes that
		}
	}
	return err
}

func (c *serviceRunCmd) log(s streams) *slog.Logger { return slog.New(slog.NewTextHandler(s.err, nil)) }

// readable waits for settings that can be read: a person has to mend them, and no restart would.
func (c *serviceRunCmd) readable(ctx context.Context, s streams, top *cli) (settings, error) {
	said := ""
	for {
		err := prepare(top.Config)
		if err == nil {
			var set settings
			if set, err = load(top.Config, s.env, c.values()); err == nil {
				return set, nil
			}
		}
		if text := plain.Error(err); text != said {
			c.log(s).Warn("cannot run with these settings, and looks again every 10 s: " + text)
			said = text
		}
		if err := pause(ctx, lookForSettings); err != nil {
			return settings{}, err
		}
	}
}

// pause waits, or returns the context's error.
func pause(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// starts is the file that remembers crashes.
func starts(data string) string { return filepath.Join(data, "starts.json") }

// forget forgets earlier crashes, so that the next start is at once. Not to be able to do so costs a wait.
func forget(data string) { _ = os.Remove(starts(data)) }

// prepare makes the configuration file of a peer that has one of its own, so that join and the page can add to it.
func prepare(file string) error {
	if file == "" {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return fmt.Errorf("configuration: %w", err)
	}
	f, err := os.OpenFile(file, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("configuration: %w", err)
	}
	_, err = io.WriteString(f, "# Settings of this computer's peer. What can be set: shoal-peer run --help\n")
	return errors.Join(err, f.Close())
}
