package service

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"unicode/utf16"
)

// TaskName is the name of a user's scheduled task on Windows, which has no services of users.
const TaskName = `Shoal\peer`

// Task returns the definition of a scheduled task that runs from the user's login on. Windows starts it again a minute after a crash.
// Without conhost --headless a console window would stand on the desktop. A task has no variables of its own, so s.Env must be empty or the user's lasting ones.
func Task(s *Spec) string {
	return fmt.Sprintf(`<?xml version="1.0" encoding="UTF-16"?>
<Task version="1.3" xmlns="http://schemas.microsoft.com/windows/2004/02/mit/task">
  <RegistrationInfo><Description>Shoal peer, which crawls the Web for the search company that this computer is lent to</Description></RegistrationInfo>
  <Triggers><LogonTrigger><Enabled>true</Enabled><UserId>%[1]s</UserId></LogonTrigger></Triggers>
  <Principals><Principal id="user"><UserId>%[1]s</UserId><LogonType>InteractiveToken</LogonType><RunLevel>LeastPrivilege</RunLevel></Principal></Principals>
  <Settings>
    <MultipleInstancesPolicy>IgnoreNew</MultipleInstancesPolicy>
    <DisallowStartIfOnBatteries>false</DisallowStartIfOnBatteries>
    <StopIfGoingOnBatteries>false</StopIfGoingOnBatteries>
    <AllowHardTerminate>true</AllowHardTerminate>
    <StartWhenAvailable>true</StartWhenAvailable>
    <RestartOnFailure><Interval>PT1M</Interval><Count>999</Count></RestartOnFailure>
    <ExecutionTimeLimit>PT0S</ExecutionTimeLimit>
    <Hidden>true</Hidden>
    <Priority>9</Priority>
  </Settings>
  <Actions Context="user"><Exec><Command>conhost.exe</Command><Arguments>%[2]s</Arguments></Exec></Actions>
</Task>
`, escaped(s.User), escaped(CommandLine(append([]string{"--headless", s.Exec}, s.Args...))))
}

// CommandLine joins words as Windows programs split them again (CommandLineToArgvW).
func CommandLine(words []string) string {
	var out []string
	for _, w := range words {
		if w != "" && !strings.ContainsAny(w, " \t\"") {
			out = append(out, w)
			continue
		}
		var b strings.Builder
		b.WriteByte('"')
		slashes := 0
		for _, c := range []byte(w) {
			switch c {
			case '\\':
				slashes++
				continue
			case '"':
				slashes = 2*slashes + 1
			}
			b.WriteString(strings.Repeat(`\`, slashes))
			slashes = 0
			b.WriteByte(c)
		}
		b.WriteString(strings.Repeat(`\`, 2*slashes))
		b.WriteByte('"')
		out = append(out, b.String())
	}
	return strings.Join(out, " ")
}

// utf16le encodes a definition as schtasks reads it, with the mark of its byte order.
func utf16le(s string) []byte {
	out := []byte{0xff, 0xfe}
	for _, u := range utf16.Encode([]rune(s)) {
		out = append(out, byte(u), byte(u>>8))
	}
	return out
}

// Tasks is a Manager: the scheduled tasks of a Windows user.
type Tasks struct {
	Spec  Spec
	Tools Tools
}

func (m *Tasks) ask(ctx context.Context, args ...string) (string, error) {
	out, err := m.Tools.Run(ctx, "schtasks.exe", args...)
	said := strings.TrimSpace(out)
	switch {
	case err == nil:
		return said, nil
	case absent(err):
		return said, fmt.Errorf("%w: this computer has no schtasks.exe", ErrNoManager)
	}
	return said, fmt.Errorf("schtasks %s: %w: %s", strings.Join(args, " "), err, said)
}

// Install implements Manager.
func (m *Tasks) Install(ctx context.Context) error {
	if err := m.Spec.Validate(); err != nil {
		return err
	}
	f, err := os.CreateTemp("", "shoal-peer-task-*.xml")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	if _, err := f.Write(utf16le(Task(&m.Spec))); err != nil {
		f.Close()
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	if _, err := m.ask(ctx, "/create", "/tn", TaskName, "/xml", f.Name(), "/f"); err != nil {
		return err
	}
	return m.Start(ctx)
}

func (m *Tasks) there(ctx context.Context) error {
	_, err := m.ask(ctx, "/query", "/tn", TaskName)
	if err != nil && !errors.Is(err, ErrNoManager) {
		return ErrNotInstalled
	}
	return err
}

// Start implements Manager.
func (m *Tasks) Start(ctx context.Context) error {
	if err := m.there(ctx); err != nil {
		return err
	}
	_, err := m.ask(ctx, "/run", "/tn", TaskName)
	return err
}

// Stop implements Manager. The program ends at once: what it fetched is on the disk, and it goes on from there.
func (m *Tasks) Stop(ctx context.Context) error {
	if err := m.there(ctx); err != nil {
		return err
	}
	_, err := m.ask(ctx, "/end", "/tn", TaskName)
	return err
}

// State implements Manager. Windows words its answer in the user's language, so the program's own answer says whether it runs.
func (m *Tasks) State(ctx context.Context) (State, error) {
	s := State{Logs: m.Spec.Log}
	switch err := m.there(ctx); {
	case errors.Is(err, ErrNotInstalled):
		s.Says = "no scheduled task"
		return s, nil
	case err != nil:
		return s, err
	}
	s.Installed = true
	out, err := m.ask(ctx, "/query", "/tn", TaskName, "/fo", "csv", "/nh")
	if err != nil {
		return s, err
	}
	fields := strings.Split(strings.TrimSpace(out), `","`)
	s.Says = strings.Trim(fields[len(fields)-1], `"`)
	s.Running = s.Says == "Running"
	return s, nil
}

// Uninstall implements Manager.
func (m *Tasks) Uninstall(ctx context.Context) error {
	if err := m.Stop(ctx); err != nil {
		return err
	}
	_, err := m.ask(ctx, "/delete", "/tn", TaskName, "/f")
	return err
}
