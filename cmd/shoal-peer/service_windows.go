package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"golang.org/x/sys/windows/svc"
	"golang.org/x/sys/windows/svc/eventlog"

	"shoal/internal/plain"
	"shoal/internal/service"
)

// windowsService runs f, answers the service manager meanwhile, and logs to the event log.
func windowsService(ctx context.Context, s streams, p *place, f func(context.Context, streams) error) error {
	h := &handler{begin: func() (context.Context, context.CancelFunc) { return context.WithCancel(ctx) }, s: s, f: f, data: p.data}
	if l, err := eventlog.Open(service.Name); err == nil {
		defer l.Close()
		h.s.err, h.s.out = events{l}, events{l}
	}
	if err := svc.Run(service.Name, h); err != nil {
		return fmt.Errorf("the service manager of Windows does not answer: %w; start the service with: shoal-peer --system service start", err)
	}
	return h.err
}

type handler struct {
	begin func() (context.Context, context.CancelFunc)
	s     streams
	f     func(context.Context, streams) error
	data  string
	err   error
}

// Execute implements svc.Handler.
func (h *handler) Execute(_ []string, orders <-chan svc.ChangeRequest, to chan<- svc.Status) (bool, uint32) {
	ctx, cancel := h.begin()
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		if err := private(ctx, h.data); err != nil {
			ended <- err
			return
		}
		ended <- h.f(ctx, h.s)
	}()
	to <- svc.Status{State: svc.Running, Accepts: svc.AcceptStop | svc.AcceptShutdown}
	for {
		select {
		case o := <-orders:
			switch o.Cmd {
			case svc.Interrogate:
				to <- o.CurrentStatus
			case svc.Stop, svc.Shutdown:
				to <- svc.Status{State: svc.StopPending, WaitHint: 60_000}
				cancel()
			}
		case h.err = <-ended:
			if h.err != nil && ctx.Err() == nil {
				fmt.Fprintf(h.s.err, "level=ERROR msg=%q\n", plain.Error(h.err))
				return true, 1 // which the recovery actions answer
			}
			h.err = nil
			return false, 0
		}
	}
}

// private lets only the service and administrators read the peer's folder: below ProgramData all users could.
func private(ctx context.Context, dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	icacls := filepath.Join(os.Getenv("SystemRoot"), "System32", "icacls.exe")
	out, err := exec.CommandContext(ctx, icacls, dir, "/inheritance:r", "/grant:r", `NT SERVICE\`+service.Name+":(OI)(CI)F", "*S-1-5-32-544:(OI)(CI)F", "*S-1-5-18:(OI)(CI)F").CombinedOutput()
	if err != nil {
		return fmt.Errorf("the folder %s cannot be made private: %w: %s", dir, err, strings.TrimSpace(string(out)))
	}
	return nil
}

// events writes lines of a log as events.
type events struct{ l *eventlog.Log }

// Write implements io.Writer. The number is that of an event without a text of its own.
func (e events) Write(p []byte) (int, error) {
	text := strings.TrimSpace(string(p))
	write := e.l.Info
	switch {
	case strings.Contains(text, "level=WARN"):
		write = e.l.Warning
	case strings.Contains(text, "level=ERROR"):
		write = e.l.Error
	}
	return len(p), write(1, text)
}
