package service

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Where the unit of the whole computer lies: as an administrator wrote it, or as a package brought it.
const (
	unitFile     = "/etc/systemd/system/" + Name + ".service"
	PackagedUnit = "/usr/lib/systemd/system/" + Name + ".service"
)

// EnvFile holds an administrator's variables for the system's service.
const EnvFile = "/etc/shoal/peer.env"

// Unit returns the systemd unit. A user's service manager can enforce only what needs no privilege, so the user's unit has fewer walls.
func Unit(s *Spec) string {
	var b strings.Builder
	b.WriteString(`[Unit]
Description=Shoal peer, which crawls the Web for the search company that this computer is lent to
Documentation=man:shoal-peer(1)
`)
	if s.System {
		b.WriteString("Wants=network-online.target\nAfter=network-online.target time-sync.target\n")
	}
	b.WriteString("# After a crash the program itself waits, longer each time.\nStartLimitIntervalSec=0\n\n[Service]\nType=exec\n")
	if s.System {
		fmt.Fprintf(&b, "User=%s\n", s.User)
	}
	for _, e := range s.Env {
		fmt.Fprintf(&b, "Environment=%s\n", unitQuoted(e))
	}
	if s.System {
		fmt.Fprintf(&b, "EnvironmentFile=-%s\n", EnvFile)
	}
	words := []string{unitQuoted(s.Exec)}
	for _, a := range s.Args {
		words = append(words, unitQuoted(a))
	}
	fmt.Fprintf(&b, "ExecStart=%s\n", strings.ReplaceAll(strings.Join(words, " "), "$", "$$"))
	b.WriteString("Restart=on-failure\nRestartSec=1\n# Handing tasks over takes grace_s, 10 s unless the settings say otherwise.\nTimeoutStopSec=60\n")
	b.WriteString("Nice=19\nIOSchedulingClass=idle\nOOMScoreAdjust=500\nLimitNOFILE=65536\nUMask=0077\n\n")
	b.WriteString(walls)
	if s.System {
		fmt.Fprintf(&b, "StateDirectory=%s\nStateDirectoryMode=0700\n%s", filepath.Base(s.Data), systemWalls)
	}
	target := "default.target"
	if s.System {
		target = "multi-user.target"
	}
	fmt.Fprintf(&b, "\n[Install]\nWantedBy=%s\n", target)
	return b.String()
}

// walls hold for the services of users too: none of them needs a privilege or a namespace. The last filter lets the program lower its own priority.
const walls = `NoNewPrivileges=yes
LockPersonality=yes
MemoryDenyWriteExecute=yes
RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX AF_NETLINK
RestrictNamespaces=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
SystemCallArchitectures=native
SystemCallErrorNumber=EPERM
SystemCallFilter=@system-service
SystemCallFilter=~@privileged @resources
SystemCallFilter=ioprio_set setpriority
`

// systemWalls need the system's service manager. /proc stays whole, since /proc/stat says how busy the processors are.
const systemWalls = `CapabilityBoundingSet=
AmbientCapabilities=
PrivateDevices=yes
PrivateTmp=yes
PrivateUsers=yes
ProtectClock=yes
ProtectControlGroups=yes
ProtectHome=yes
ProtectHostname=yes
ProtectKernelLogs=yes
ProtectKernelModules=yes
ProtectKernelTunables=yes
ProtectProc=invisible
ProtectSystem=strict
RemoveIPC=yes
`

// unitQuoted writes one word of a unit: percent signs are specifiers there.
func unitQuoted(s string) string {
	s = strings.ReplaceAll(s, "%", "%%")
	if s != "" && !strings.ContainsAny(s, " \t\"'\\;") {
		return s
	}
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"`
}

// Systemd is a Manager.
type Systemd struct {
	Spec  Spec
	Tools Tools
}

// path is the unit that counts: the administrator's, else the package's.
func (m *Systemd) path() string {
	if !m.Spec.System {
		return filepath.Join(m.Spec.Home, ".config", "systemd", "user", Name+".service")
	}
	if _, err := os.Stat(unitFile); err != nil {
		if _, err := os.Stat(PackagedUnit); err == nil {
			return PackagedUnit
		}
	}
	return unitFile
}

func (m *Systemd) ask(ctx context.Context, args ...string) (string, error) {
	if !m.Spec.System {
		args = append([]string{"--user"}, args...)
	}
	out, err := m.Tools.Run(ctx, "systemctl", args...)
	said := strings.TrimSpace(out)
	switch {
	case err == nil:
		return said, nil
	case absent(err):
		return said, fmt.Errorf("%w: this computer has no systemctl, so it does not run systemd; have your own init system run: %s", ErrNoManager, strings.Join(append([]string{m.Spec.Exec}, m.Spec.Args...), " "))
	case strings.Contains(said, "not been booted with systemd") || strings.Contains(said, "Failed to connect to bus") || strings.Contains(said, "No medium found"):
		if m.Spec.System || !m.Tools.booted() {
			return said, fmt.Errorf("%w: systemd does not run here, as in most containers (%s); have the container run: %s", ErrNoManager, said, strings.Join(append([]string{m.Spec.Exec}, m.Spec.Args...), " "))
		}
		return said, fmt.Errorf("%w: your own systemd does not answer (%s); log in at this computer or by ssh rather than with su or sudo, or install for the whole computer: sudo shoal-peer --system service install", ErrNoManager, said)
	case strings.Contains(said, "Access denied") || strings.Contains(said, "authentication required") || strings.Contains(said, "Permission denied"):
		return said, fmt.Errorf("systemd does not let you: %s; put sudo before the command", said)
	}
	return said, fmt.Errorf("systemctl %s: %w: %s", strings.Join(args, " "), err, said)
}

// Install implements Manager. A unit that a package brought is left as it is.
func (m *Systemd) Install(ctx context.Context) error {
	if err := m.Spec.Validate(); err != nil {
		return err
	}
	if _, err := m.ask(ctx, "show-environment"); err != nil { // before anything is written
		return err
	}
	if m.Spec.System {
		if err := m.account(ctx); err != nil {
			return err
		}
	}
	path := m.path()
	if path != PackagedUnit {
		if err := write(path, Unit(&m.Spec)); err != nil {
			return err
		}
	}
	if _, err := m.ask(ctx, "daemon-reload"); err != nil {
		return err
	}
	if _, err := m.ask(ctx, "enable", Name+".service"); err != nil {
		return err
	}
	_, err := m.ask(ctx, "restart", Name+".service") // a new program takes an old one's place
	return err
}

// account makes the account that the system's service runs as.
func (m *Systemd) account(ctx context.Context) error {
	if _, err := m.Tools.Run(ctx, "id", "-u", m.Spec.User); err == nil {
		return nil
	}
	out, err := m.Tools.Run(ctx, "useradd", "--system", "--user-group", "--no-create-home", "--home-dir", m.Spec.Data, "--shell", "/usr/sbin/nologin", m.Spec.User)
	if err != nil {
		return fmt.Errorf("the account %s cannot be made: %w: %s; make it yourself, or put sudo before the command", m.Spec.User, err, strings.TrimSpace(out))
	}
	return nil
}

// Start implements Manager.
func (m *Systemd) Start(ctx context.Context) error { return m.order(ctx, "start") }

// Stop implements Manager.
func (m *Systemd) Stop(ctx context.Context) error { return m.order(ctx, "stop") }

func (m *Systemd) order(ctx context.Context, what string) error {
	if _, err := os.Stat(m.path()); err != nil {
		return ErrNotInstalled
	}
	_, err := m.ask(ctx, what, Name+".service")
	return err
}

// State implements Manager.
func (m *Systemd) State(ctx context.Context) (State, error) {
	s := State{Logs: "journalctl --user -u " + Name}
	if m.Spec.System {
		s.Logs = "sudo journalctl -u " + Name
	}
	_, err := os.Stat(m.path())
	s.Installed = err == nil
	out, err := m.ask(ctx, "show", "--property=ActiveState,SubState,UnitFileState,NRestarts", Name+".service")
	if err != nil {
		return s, err
	}
	p := map[string]string{}
	for line := range strings.Lines(out) {
		k, v, _ := strings.Cut(strings.TrimSpace(line), "=")
		p[k] = v
	}
	s.Running = p["ActiveState"] == "active"
	s.Says = p["ActiveState"] + " (" + p["SubState"] + "), " + p["UnitFileState"]
	if n := p["NRestarts"]; n != "" && n != "0" {
		s.Says += ", started again " + n + " times"
	}
	return s, nil
}

// Uninstall implements Manager. Data and account stay.
func (m *Systemd) Uninstall(ctx context.Context) error {
	path := m.path()
	if _, err := os.Stat(path); err != nil {
		return ErrNotInstalled
	}
	if _, err := m.ask(ctx, "disable", "--now", Name+".service"); err != nil {
		return err
	}
	if path == PackagedUnit {
		return nil // the package's to remove
	}
	if err := os.Remove(path); err != nil {
		return err
	}
	_, err := m.ask(ctx, "daemon-reload")
	return err
}

// write writes a definition at once or not at all.
func write(path, text string) error {
	err := os.MkdirAll(filepath.Dir(path), 0o755)
	if err == nil {
		err = os.WriteFile(path+".new", []byte(text), 0o644)
	}
	if err == nil {
		err = os.Rename(path+".new", path)
	}
	if errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("%w; put sudo before the command", err)
	}
	return err
}
