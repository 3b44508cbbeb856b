package main

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"shoal/peer/limit"
	"shoal/peer/words"
)

// list returns the notes in English.
func (n *notes) list() []string { return n.in(words.English, everyNote) }

// TestLostCountIsNoted starts with a damaged count: a note says so until the month ends, also after a restart.
func TestLostCountIsNoted(t *testing.T) {
	file := filepath.Join(t.TempDir(), "usage.json")
	if err := os.WriteFile(file, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, start := range []string{"first", "second"} {
		p := limited(t, defaults())
		var err error
		if p.usage, err = limit.OpenUsage(file, time.Now); err != nil {
			t.Fatal(err)
		}
		now := time.Now()
		p.tellLost(now)
		if list := p.notes.list(); len(list) != 1 || !strings.Contains(list[0], "found damaged") || !strings.Contains(list[0], file+".damaged") {
			t.Errorf("after the %s start: %q", start, list)
		}
		p.tellLost(now.AddDate(0, 1, 0))
		if list := p.notes.list(); len(list) != 0 {
			t.Errorf("a month later: %q", list)
		}
	}
}

// TestRemovedListHasNoNote takes a list away that was never read.
func TestRemovedListHasNoNote(t *testing.T) {
	set := defaults()
	set.BlockLists = []string{filepath.Join(t.TempDir(), "none")}
	p := limited(t, set)
	p.live.Store(&set)
	kept := map[string]*limit.Blocked{}
	p.readLists(t.Context(), kept)
	if list := p.notes.list(); len(list) != 1 || !strings.Contains(list[0], "blocks nothing yet: there is no such file") {
		t.Errorf("%q", list)
	}
	without := set
	without.BlockLists = nil
	p.live.Store(&without)
	p.readLists(t.Context(), kept)
	if list := p.notes.list(); len(list) != 0 {
		t.Errorf("it is named no more: %q", list)
	}
}

// TestNotesHideSecrets has a policy and a block list whose addresses have a password and a key. No note, no source and no log has them.
func TestNotesHideSecrets(t *testing.T) {
	srv := httptest.NewServer(http.NotFoundHandler())
	defer srv.Close()
	at := strings.Replace(srv.URL, "://", "://ada:secret@", 1) + "/p?key=hush"
	set := defaults()
	set.PolicyURL, set.BlockLists = at, []string{at, strings.Replace(at, srv.Listener.Addr().String(), "127.0.0.1:1", 1)}
	p := limited(t, set)
	s := newPolicies(p)
	s.file = filepath.Join(t.TempDir(), "none.toml")
	s.read(t.Context(), time.Now())
	p.readLists(t.Context(), map[string]*limit.Blocked{})
	f := p.limits.At(time.Now())
	text := strings.Join(append(p.notes.list(), f.Paused, f.Reason.Source), "\n")
	if strings.Contains(text, "secret") || strings.Contains(text, "hush") || !strings.Contains(text, "://ada:***@") || len(p.notes.list()) != 3 {
		t.Error(text)
	}
}

// TestNotesInGerman: what the page shows in German has no English sentence in it.
func TestNotesInGerman(t *testing.T) {
	p := limited(t, defaults())
	s := newPolicies(p)
	s.set("/etc/shoal/policy.toml", nil, errors.New("no"), false)
	p.tells("metered", errors.New("no"))
	want := []string{"Verbindung nach Menge: dieses System sagt es nicht; das Programm pausiert deswegen nicht", "Vorgabe /etc/shoal/policy.toml: nichts wird geholt, bis sie lesbar ist: no"}
	if got := p.notes.in("de", everyNote); !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	if got := p.notes.in(words.English, note.holds); len(got) != 1 || !strings.HasPrefix(got[0], "policy /etc/shoal/policy.toml: nothing is fetched until it can be read") {
		t.Errorf("what holds it: %q", got)
	}
	if got := p.notes.in("de", func(n note) bool { return !n.machine() }); len(got) != 1 {
		t.Errorf("beside the rows of health: %q", got)
	}
}

// TestFurtherPolicyIsNoted: a policy from a URL that names another one says so, since that one is not read.
func TestFurtherPolicyIsNoted(t *testing.T) {
	a := &admin{status: http.StatusOK, text: "down_kib_per_s = 90\npolicy_url = \"https://more.example/p.toml?key=hush\"\n"}
	srv := httptest.NewServer(a)
	defer srv.Close()
	set := defaults()
	set.PolicyURL = srv.URL
	p := limited(t, set)
	s := newPolicies(p)
	s.file = filepath.Join(t.TempDir(), "none.toml")
	now := time.Now()
	s.read(t.Context(), now)
	if list := p.notes.list(); p.limits.At(now).DownKiBPerS.Value != 90 || len(list) != 1 || !strings.Contains(list[0], "names a further policy, https://more.example/p.toml?***, which is not read") {
		t.Errorf("%q", list)
	}
	a.say(http.StatusOK, "down_kib_per_s = 90\n")
	s.read(t.Context(), now.Add(fetchEvery))
	if list := p.notes.list(); len(list) != 0 {
		t.Errorf("it names none any more: %q", list)
	}
}

// TestUnreadPolicyIsNotNone: what a page is told of an attempt says that a policy cannot be read, for it must not say then that none changes anything.
func TestUnreadPolicyIsNotNone(t *testing.T) {
	p := limited(t, defaults())
	st := &station{set: defaults(), peer: p}
	try := func() (got tried) {
		w := httptest.NewRecorder()
		st.trySettings(w, httptest.NewRequest(http.MethodPost, "/v1/settings/try", strings.NewReader("{}")))
		if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
			t.Fatal(err)
		}
		return got
	}
	if got := try(); got.Unread {
		t.Errorf("without a policy: %+v", got)
	}
	newPolicies(p).set("/etc/shoal/policy.toml", nil, errors.New("no"), false)
	if got := try(); !got.Unread || got.Paused == "" || len(got.Overruled) != 0 {
		t.Errorf("with one that cannot be read: %+v", got)
	}
}
