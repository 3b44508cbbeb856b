package tables

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
)

// Log receives Badger's messages and passes the important ones on. Badger's info messages concern every table that it
// writes.
type Log struct {
	To       *slog.Logger // nil: nothing is logged
	unsynced atomic.Pointer[error]
}

// Unsynced returns the one error that Badger (value.go, valueLog.write) neither returns nor acts upon, although
// durability depends on it. Callers ask for it after each commit.
func (l *Log) Unsynced() error {
	if err := l.unsynced.Load(); err != nil {
		return *err
	}
	return nil
}

// Errorf implements badger.Logger.
func (l *Log) Errorf(format string, args ...any) {
	msg := strings.TrimSpace(fmt.Sprintf(format, args...))
	if l.To != nil {
		l.To.Error("badger: " + msg)
	}
	if strings.Contains(format, "curlf sync") {
		err := errors.New(msg)
		l.unsynced.Store(&err)
	}
}

// Warningf implements badger.Logger.
func (l *Log) Warningf(format string, args ...any) {
	if l.To != nil {
		l.To.Warn("badger: " + strings.TrimSpace(fmt.Sprintf(format, args...)))
	}
}

// Infof implements badger.Logger.
func (l *Log) Infof(string, ...any) {}

// Debugf implements badger.Logger.
func (l *Log) Debugf(string, ...any) {}
