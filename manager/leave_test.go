package manager

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"shoal/channel"
)

// farewell is a database that notes what a manager does to it at its end.
type farewell struct {
	Shared
	did    []string
	silent bool // it does not answer
}

func (f *farewell) Tell(_ context.Context, n channel.Note) error {
	f.did = append(f.did, n.What)
	return nil
}

func (f *farewell) Leave(ctx context.Context) error {
	if f.silent {
		<-ctx.Done()
		return ctx.Err()
	}
	f.did = append(f.did, "leave")
	return nil
}

// TestLastWords has a manager tell the others that it was asked to end only if it was. Of one that a failure of its own ended, as of its disk, they are to tell their
// operator.
func TestLastWords(t *testing.T) {
	asked, ask := context.WithCancel(t.Context())
	ask()
	failed, fail := context.WithCancelCause(t.Context())
	fail(errors.New("data: the disk is broken"))
	for what, tt := range map[string]struct {
		ended context.Context
		want  []string
	}{"asked to end": {asked, []string{noteOther + NoteEnds, "leave"}}, "another part has failed": {failed, []string{"leave"}}, "its own failure": {t.Context(), []string{"leave"}}} {
		f := &farewell{}
		(&tenancy{core: &core{log: slog.New(slog.DiscardHandler)}, Several: &Several{Shared: f, About: func() []byte { return nil }}}).leave(t.Context(), tt.ended)
		if !slices.Equal(f.did, tt.want) {
			t.Errorf("%s: at its end it did %q, want %q", what, f.did, tt.want)
		}
	}
}

// TestEndWithoutDatabase ends a manager whose database does not answer: what is written at the end has one time limit for all of it, and the last word to the
// others a short one.
func TestEndWithoutDatabase(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		last, done := context.WithTimeout(t.Context(), saveTimeout)
		defer done()
		f := &farewell{silent: true}
		began := time.Now()
		<-last.Done() // what came before has waited
		(&tenancy{core: &core{log: slog.New(slog.DiscardHandler)}, Several: &Several{Shared: f, About: func() []byte { return nil }}}).leave(last, last)
		if took := time.Since(began); took > saveTimeout+leaveWait {
			t.Errorf("the end took %v", took)
		}
	})
}
