package service

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/windows"
	"golang.org/x/sys/windows/svc"
	"golang.org/x/sys/windows/svc/eventlog"
	"golang.org/x/sys/windows/svc/mgr"
)

// account is one that Windows makes for this service alone: it has no password, and no rights but those of its folder.
const account = `NT SERVICE\` + Name

// Services is a Manager: the services of a Windows computer.
type Services struct{ Spec Spec }

// For returns the manager of this computer's services, or of the user's.
func For(s Spec, t Tools) (Manager, error) {
	if s.System {
		return &Services{s}, nil
	}
	return &Tasks{s, t}, nil
}

func (m *Services) connect() (*mgr.Mgr, error) {
	c, err := mgr.Connect()
	if errors.Is(err, windows.ERROR_ACCESS_DENIED) {
		return nil, fmt.Errorf("windows does not let you change services: %w; open the command prompt with \"Run as administrator\"", err)
	}
	return c, err
}

// with hands the service, if it is installed, to f.
func (m *Services) with(f func(*mgr.Service) error) error {
	c, err := m.connect()
	if err != nil {
		return err
	}
	defer func() { _ = c.Disconnect() }()
	s, err := c.OpenService(Name)
	if errors.Is(err, windows.ERROR_SERVICE_DOES_NOT_EXIST) {
		return ErrNotInstalled
	}
	if err != nil {
		return err
	}
	defer s.Close()
	return f(s)
}

// Install implements Manager.
func (m *Services) Install(ctx context.Context) error {
	if err := m.Spec.Validate(); err != nil {
		return err
	}
	if err := m.Uninstall(ctx); err != nil && !errors.Is(err, ErrNotInstalled) {
		return err
	}
	c, err := m.connect()
	if err != nil {
		return err
	}
	defer func() { _ = c.Disconnect() }()
	args := append(m.Spec.Args[:len(m.Spec.Args):len(m.Spec.Args)], WindowsFlag)
	s, err := c.CreateService(Name, m.Spec.Exec, mgr.Config{StartType: mgr.StartAutomatic, ServiceStartName: account, DisplayName: "Shoal peer",
		Description: "Crawls the Web for the search company that this computer is lent to."}, args...)
	if err != nil {
		return err
	}
	defer s.Close()
	if err := s.SetRecoveryActions(recovery(), uint32((24 * time.Hour).Seconds())); err != nil {
		return err
	}
	if err := s.SetRecoveryActionsOnNonCrashFailures(true); err != nil && !errors.Is(err, windows.ERROR_INVALID_LEVEL) { // which says that this Windows does not know it
		return err
	}
	if err := eventlog.InstallAsEventCreate(Name, eventlog.Error|eventlog.Warning|eventlog.Info); err != nil {
		_ = eventlog.Remove(Name) // of an earlier installation
		if err := eventlog.InstallAsEventCreate(Name, eventlog.Error|eventlog.Warning|eventlog.Info); err != nil {
			return fmt.Errorf("event log: %w", err)
		}
	}
	return s.Start()
}

// recovery starts the program again after each crash; the program itself waits longer each time.
func recovery() []mgr.RecoveryAction {
	again := mgr.RecoveryAction{Type: mgr.ServiceRestart, Delay: time.Second}
	return []mgr.RecoveryAction{again, again, again} // the last one holds for all further crashes
}

// Start implements Manager.
func (m *Services) Start(context.Context) error {
	return m.with(func(s *mgr.Service) error {
		err := s.Start()
		if errors.Is(err, windows.ERROR_SERVICE_ALREADY_RUNNING) {
			return nil
		}
		return err
	})
}

// Stop implements Manager. It waits until the service has ended.
func (m *Services) Stop(ctx context.Context) error {
	return m.with(func(s *mgr.Service) error {
		st, err := s.Control(svc.Stop)
		if errors.Is(err, windows.ERROR_SERVICE_NOT_ACTIVE) {
			return nil
		}
		for err == nil && st.State != svc.Stopped {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(200 * time.Millisecond):
			}
			st, err = s.Query()
		}
		return err
	})
}

// State implements Manager.
func (m *Services) State(context.Context) (State, error) {
	out := State{Logs: "Event Viewer, Windows Logs, Application, source " + Name, Says: "no such service"}
	err := m.with(func(s *mgr.Service) error {
		out.Installed = true
		st, err := s.Query()
		out.Running = st.State == svc.Running
		out.Says = map[svc.State]string{svc.Stopped: "stopped", svc.StartPending: "starting", svc.StopPending: "stopping", svc.Running: "running"}[st.State]
		return err
	})
	if errors.Is(err, ErrNotInstalled) {
		err = nil
	}
	return out, err
}

// Uninstall implements Manager.
func (m *Services) Uninstall(ctx context.Context) error {
	if err := m.Stop(ctx); err != nil {
		return err
	}
	if err := m.with(func(s *mgr.Service) error { return s.Delete() }); err != nil {
		return err
	}
	_ = eventlog.Remove(Name) // a missing source is what is wanted
	return nil
}
