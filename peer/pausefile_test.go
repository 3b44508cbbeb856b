package peer

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"shoal/internal/member"
	"shoal/peer/queue"
)

// TestPauseSurvivesRestart pauses an agent and starts it anew: it is paused still, until the end that its volunteer gave or until it is told to resume.
func TestPauseSurvivesRestart(t *testing.T) {
	s := open(t, plain(3))
	dir := t.TempDir()
	file := filepath.Join(dir, pauseFile)
	mode := func() string {
		a, leave := s.agent(dir, nil)
		defer leave()
		return a.Status().Mode
	}
	a, leave := s.agent(dir, nil)
	if err := a.Do("pause", map[string]string{"for": "2h"}); err != nil {
		t.Fatal(err)
	}
	leave()
	var kept pause
	if b, err := os.ReadFile(file); err != nil || json.Unmarshal(b, &kept) != nil || kept.Here.Sub(kept.Until).Abs() > time.Hour {
		t.Errorf("with a clock that is right it keeps %+v, %v", kept, err)
	}
	a, leave = s.agent(dir, nil)
	if st := a.Status(); st.Mode != queue.Paused.String() || time.Until(st.Until) > 2*time.Hour+member.Skew || time.Until(st.Until) < time.Hour {
		t.Errorf("after a new start it is %s until %v", st.Mode, st.Until)
	}
	if err := a.Do("resume", nil); err != nil {
		t.Fatal(err)
	}
	leave()
	if m := mode(); m != queue.Open.String() {
		t.Errorf("after resume and a new start it is %s", m)
	}
	for text, want := range map[string]queue.Mode{`{"until":"2020-01-01T00:00:00Z"}`: queue.Open, `{}`: queue.Paused, `{"un`: queue.Paused,
		`{"until":"2020-01-01T00:00:00Z","here":"2200-01-01T00:00:00Z"}`: queue.Paused, `{"until":"2020-01-01T00:00:00Z","here":"2021-01-01T00:00:00Z"}`: queue.Open} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if m := mode(); m != want.String() {
			t.Errorf("with a pause of %s it is %s, want %v", text, m, want)
		}
	}
	if _, err := Forget(dir); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(file); err == nil {
		t.Error("the pause outlives leaving the network")
	}
}
