package service

import (
	"context"
	"encoding/xml"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Label is the service's name at launchd.
const Label = "network.shoal.peer"

// Plist returns the property list of launchd. launchd starts the program again 10 s after a crash at the earliest.
func Plist(s *Spec) string {
	var b strings.Builder
	b.WriteString(`<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">
<plist version="1.0">
<dict>
`)
	key := func(name, value string) { fmt.Fprintf(&b, "\t<key>%s</key>\n\t%s\n", name, value) }
	text := func(v string) string { return "<string>" + escaped(v) + "</string>" }
	key("Label", text(Label))
	words := text(s.Exec)
	for _, a := range s.Args {
		words += text(a)
	}
	key("ProgramArguments", "<array>"+words+"</array>")
	if len(s.Env) > 0 {
		var vars strings.Builder
		for _, e := range s.Env {
			k, v, _ := strings.Cut(e, "=")
			fmt.Fprintf(&vars, "<key>%s</key>%s", escaped(k), text(v))
		}
		key("EnvironmentVariables", "<dict>"+vars.String()+"</dict>")
	}
	if s.System {
		key("UserName", text(s.User))
	}
	key("RunAtLoad", "<true/>")
	key("KeepAlive", "<dict><key>SuccessfulExit</key><false/></dict>")
	key("ThrottleInterval", "<integer>10</integer>")
	key("ExitTimeOut", "<integer>60</integer>")
	key("ProcessType", text("Background"))
	key("LowPriorityIO", "<true/>")
	key("Nice", "<integer>19</integer>")
	key("Umask", "<integer>63</integer>") // 077
	key("StandardOutPath", text("/dev/null"))
	key("StandardErrorPath", text("/dev/null")) // the program keeps its own log, since launchd would let a file grow without end
	b.WriteString("</dict>\n</plist>\n")
	return b.String()
}

func escaped(s string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(s)) // a builder takes all
	return b.String()
}

// Launchd is a Manager.
type Launchd struct {
	Spec  Spec
	Tools Tools
}

func (m *Launchd) path() string {
	if m.Spec.System {
		return "/Library/LaunchDaemons/" + Label + ".plist"
	}
	return filepath.Join(m.Spec.Home, "Library", "LaunchAgents", Label+".plist")
}

func (m *Launchd) domain() string {
	if m.Spec.System {
		return "system"
	}
	return "gui/" + strconv.Itoa(m.Tools.UID)
}

func (m *Launchd) ask(ctx context.Context, args ...string) (string, error) {
	out, err := m.Tools.Run(ctx, "launchctl", args...)
	said := strings.TrimSpace(out)
	switch {
	case err == nil:
		return said, nil
	case absent(err):
		return said, fmt.Errorf("%w: this computer has no launchctl", ErrNoManager)
	case strings.Contains(said, "Domain does not support specified action") || strings.Contains(said, "Could not find domain"):
		return said, fmt.Errorf("%w: launchd has no session of yours (%s); log in at the Mac's own screen, or install for the whole computer: sudo shoal-peer --system service install", ErrNoManager, said)
	case strings.Contains(said, "Operation not permitted") || strings.Contains(said, "not privileged"):
		return said, fmt.Errorf("launchd does not let you: %s; put sudo before the command", said)
	}
	return said, fmt.Errorf("launchctl %s: %w: %s", strings.Join(args, " "), err, said)
}

func (m *Launchd) loaded(ctx context.Context) (string, bool) {
	out, err := m.Tools.Run(ctx, "launchctl", "print", m.domain()+"/"+Label)
	return out, err == nil
}

// Install implements Manager.
func (m *Launchd) Install(ctx context.Context) error {
	if err := m.Spec.Validate(); err != nil {
		return err
	}
	if _, err := m.ask(ctx, "print", m.domain()); err != nil { // before anything is written
		return err
	}
	if err := write(m.path(), Plist(&m.Spec)); err != nil {
		return err
	}
	if _, there := m.loaded(ctx); there {
		if _, err := m.ask(ctx, "bootout", m.domain()+"/"+Label); err != nil {
			return err
		}
	}
	return m.Start(ctx)
}

// Start implements Manager.
func (m *Launchd) Start(ctx context.Context) error {
	if _, err := os.Stat(m.path()); err != nil {
		return ErrNotInstalled
	}
	if _, there := m.loaded(ctx); there {
		_, err := m.ask(ctx, "kickstart", m.domain()+"/"+Label)
		return err
	}
	if _, err := m.ask(ctx, "enable", m.domain()+"/"+Label); err != nil {
		return err
	}
	_, err := m.ask(ctx, "bootstrap", m.domain(), m.path())
	return err
}

// Stop implements Manager. The service starts again with the next login or start of the computer.
func (m *Launchd) Stop(ctx context.Context) error {
	if _, err := os.Stat(m.path()); err != nil {
		return ErrNotInstalled
	}
	if _, there := m.loaded(ctx); !there {
		return nil
	}
	_, err := m.ask(ctx, "bootout", m.domain()+"/"+Label)
	return err
}

// State implements Manager.
func (m *Launchd) State(ctx context.Context) (State, error) {
	s := State{Logs: m.Spec.Log, Says: "not loaded"}
	_, err := os.Stat(m.path())
	s.Installed = err == nil
	if _, err := m.ask(ctx, "print", m.domain()); err != nil {
		return s, err
	}
	if out, there := m.loaded(ctx); there {
		s.Says = "loaded"
		for line := range strings.Lines(out) {
			if v, ok := strings.CutPrefix(strings.TrimSpace(line), "state = "); ok {
				s.Says, s.Running = v, v == "running"
				break
			}
		}
	}
	return s, nil
}

// Uninstall implements Manager.
func (m *Launchd) Uninstall(ctx context.Context) error {
	if err := m.Stop(ctx); err != nil {
		return err
	}
	return os.Remove(m.path())
}
