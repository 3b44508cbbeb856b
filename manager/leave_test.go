package manager

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"testing"

	"shoal/channel"
)

// farewell is a database that notes what a manager does to it at its end.
type farewell struct {
	Shared
	did []string
}

func (f *farewell) Tell(_ context.Context, n channel.Note) error {
	f.did = append(f.did, n.What)
	return nil
}

func (f *farewell) Leave(context.Context) error {
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
		(&tenancy{core: &core{log: slog.New(slog.DiscardHandler)}, Several: &Several{Shared: f, About: func() []byte { return nil }}}).leave(tt.ended)
		if !slices.Equal(f.did, tt.want) {
			t.Errorf("%s: at its end it did %q, want %q", what, f.did, tt.want)
		}
	}
}
