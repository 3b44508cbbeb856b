package manager_test

import (
	"testing"

	"shoal/channel"
)

// TestInspectOfAnOlderRead looks at a channel as it was read before it was paused, once the pause is written: it is shown as paused.
func TestInspectOfAnOlderRead(t *testing.T) {
	t.Parallel()
	b := open(t, t.TempDir(), nil)
	id := b.add(t, "https://a.example")[0]
	before, err := b.db.Channel(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	if err := b.m.Pause(t.Context(), id, true); err != nil {
		t.Fatal(err)
	}
	until(t, "it is written", func() bool {
		ch, err := b.db.Channel(t.Context(), id)
		return err == nil && ch.State == channel.Paused
	})
	for range 20 { // the keeper forgets the state right after it is written
		in, err := b.m.Inspect(t.Context(), []channel.Channel{before})
		if err != nil || in[0].State != channel.Paused {
			t.Fatalf("it is shown in state %d, %v; want paused", in[0].State, err)
		}
	}
}
