package main

import (
	"slices"
	"strings"
	"testing"
	"time"

	"shoal/internal/wire"
	"shoal/peer"
	"shoal/peer/limit"
	"shoal/peer/words"
)

// TestFirstLineTellsTrouble: the first line of a status says in a sentence what the peer does, or what keeps it from that, since when, and
// what it does about it.
func TestFirstLineTellsTrouble(t *testing.T) {
	now := time.Date(2026, 3, 2, 8, 0, 0, 0, time.Local)
	at := func(d time.Duration) time.Time { return now.Add(-d) }
	home := wire.Home{At: "12D3", Since: at(time.Hour)}
	away := wire.Home{Since: at(122 * time.Minute), Tries: 9, Next: now.Add(12 * time.Second), Why: "all dials failed"}
	one := []peer.TaskStatus{{Host: "http://a.test"}}
	for _, c := range []struct {
		change func(*status)
		state  string
		says   string
	}{
		{func(*status) {}, stateIdle, "Idle, since there is nothing near you to fetch for Example Search now."},
		{func(s *status) { s.Running = one }, stateWorking, "Working for Example Search: 1 site being fetched."},
		{func(s *status) { s.Running, s.Waiting = one, one }, stateWorking, "Working for Example Search: 1 site being fetched, 1 waiting."},
		{func(s *status) { s.Waiting = one; s.Name = "" }, stateWorking, "Working for contact.test: no site being fetched, 1 waiting."},
		{func(s *status) { s.Contact, s.Name = "mailto:bot@contact.test", "" }, stateIdle, "to fetch for contact.test now."},
		{func(s *status) { s.Running = []peer.TaskStatus{{Away: true}} }, stateWorking, "(1 of them waits for the archive, which does not answer"},
		{func(s *status) { s.Home = away }, stateAway, "Cannot reach Example Search since 05:58, nor any other member. If other sites open in your browser, you need not do anything: it tries again in 12 s, and keeps what it fetched until the company has it. If they do not open, this computer has no Internet connection."},
		{func(s *status) { s.Home = away; s.Reach.Direct = 2; s.Running = one }, stateAway, "other members answer, so the trouble is probably on the company's side."},
		{func(s *status) { s.Home = away; s.Home.Since = at(40 * time.Hour) }, stateAway, "since 28 February 16:00,"},
		{func(s *status) { s.Home = away; s.Home.Refused, s.Home.Why = true, "wire: banned from this network" }, stateRefused, "Example Search does not let this computer in since 05:58: "},
		{func(s *status) {
			s.Home = away
			s.Home.Refused, s.Home.Outcast, s.Home.Why = true, true, "wire: 12D3: wire: the connection is not a member's"
		}, stateRefused, "since 05:58: it has suspended or banned it. The lines standing and held say for what"},
		{func(s *status) { s.Home.Silent = at(20 * time.Second); s.Running = one }, stateSilent, "Example Search has not answered since 07:59 (20 s ago), though the connection stands: "},
		{func(s *status) { s.Home.Silent = at(20 * time.Second); s.Mode = "paused" }, statePaused, "until: shoal-peer resume. Example Search has not answered since"},
		{func(s *status) { s.Home = wire.Home{Since: at(5 * time.Second)} }, stateLooking, "The connection to Example Search was lost 5 s ago; it is made again."},
		{func(s *status) { s.Home = wire.Home{Since: at(time.Second)}; s.Since = at(2 * time.Second) }, stateLooking, "Looking for Example Search."},
		{func(s *status) { s.unplugged, s.Home.Silent = true, at(20*time.Second) }, stateAway, "This computer is connected to no network since 07:59: "},
		{func(s *status) { s.unplugged, s.Home = true, away }, stateAway, "This computer is connected to no network since 05:58: "},
		{func(s *status) { s.unplugged = true }, stateIdle, "Idle"}, // the company is on this computer
		{func(s *status) { s.web = words.T("say.web.proxy", "05:58", 2); s.Running = one }, stateWebless, "The proxy does not answer since 05:58, for 2 sites."},
		{func(s *status) { s.noPond = true }, stateWebless, "There is nothing that this peer could fetch: Example Search crawls the pond,"},
		{func(s *status) { s.noPond, s.Mode = true, "paused" }, statePaused, "Paused because you said so, until: shoal-peer resume."},
		{func(s *status) { s.Mode = "paused" }, statePaused, "Paused because you said so, until: shoal-peer resume."},
		{func(s *status) { s.Mode, s.Until = "paused", now.Add(6*time.Hour) }, statePaused, "Paused because you said so, until 14:00; shoal-peer resume ends it early."},
		{func(s *status) { s.Hold = "on battery (your settings, on_battery)" }, statePaused, "Paused: on battery (your settings, on_battery)."},
		{func(s *status) { s.Hold = "turned off (policy from p)"; s.Home = away }, statePaused, "Paused: turned off (policy from p). Cannot reach Example Search since 05:58,"},
		{func(s *status) { s.Mode = "finish"; s.Running = one }, stateFinishing, "Finishing, because you said so: 1 site being fetched, and nothing new"},
		{func(s *status) { s.Mode = "drain" }, stateDraining, "Idle, because you had everything given back"},
	} {
		st := &status{Status: peer.Status{Name: "Example Search", Contact: "http://contact.test/bot", Network: "abcdefghijklmnop", Mode: "open", Home: home, Since: at(24 * time.Hour)}}
		c.change(st)
		state, says := sentence(st, now)
		if state != c.state || !strings.Contains(says, c.says) {
			t.Errorf("%s: %q, want %s: %q", state, says, c.state, c.says)
		}
	}
}

// TestSince reads moments as people write them.
func TestSince(t *testing.T) {
	now := time.Date(2026, 3, 2, 8, 0, 0, 0, time.UTC)
	for text, want := range map[string]string{"2h": "2026-03-02T06:00:00Z", "07:30": "2026-03-02T07:30:00Z", "2026-03-01": "2026-03-01T00:00:00Z", "2026-03-01 12:00": "2026-03-01T12:00:00Z",
		"2026-03-01T12:00:00Z": "2026-03-01T12:00:00Z"} {
		if got, err := since(text, now); err != nil || got.Format(time.RFC3339) != want {
			t.Errorf("%s: %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"yesterday", "-2h", "25:00", ""} {
		if _, err := since(text, now); err == nil {
			t.Errorf("%q was taken", text)
		}
	}
}

// TestSpeed is the mean of the last ten seconds, not of all.
func TestSpeed(t *testing.T) {
	var s speeds
	if s.last() != (speed{}) {
		t.Error("a speed without a reading")
	}
	at := time.Unix(0, 0)
	for i := range int64(100) {
		rate := int64(1000)
		if i >= 80 {
			rate = 50
		}
		last := int64(0)
		if n := len(s.read); n > 0 {
			last = s.read[n-1].received
		}
		s.note(at.Add(time.Duration(i)*time.Second), last+rate, 2*i)
	}
	if got := s.last(); got != (speed{Down: 50, Up: 2, OverS: speedOver}) {
		t.Errorf("%+v", got)
	}
	for i := range speedLately + 1 { // at rest
		s.note(at.Add(time.Duration(100+i)*time.Second), s.read[len(s.read)-1].received, 198)
	}
	if got := s.lately(); got != (speed{OverS: speedLately}) || s.last().Down == 0 {
		t.Errorf("%+v, %+v", got, s.last())
	}
}

// TestWhoSetALimit tells what joining proposes from what the volunteer set.
func TestWhoSetALimit(t *testing.T) {
	const file = "your settings in /home/ada/peer.toml"
	f := limit.Force{DownKiBPerS: limit.Cap{Value: 500, Source: file}, UpKiBPerS: limit.Cap{Value: 99, Source: file}, DayMiB: limit.Cap{Value: 2000, Source: "policy from /etc/shoal/policy.toml"}}
	got := []string{}
	for _, c := range shownCaps(&f, &limit.Done{}, "en") {
		got = append(got, c.By)
	}
	if want := []string{byJoining, byYou, byAdmin, ""}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestFailingDiskInWords: why a disk that fails pauses the peer is said in the language of the page, and in English as the status has it.
func TestFailingDiskInWords(t *testing.T) {
	for _, do := range []string{"room", "readonly", "permission", "look"} {
		d := &peer.DiskFailure{Since: time.Date(2026, 11, 25, 8, 5, 0, 0, time.Local), Why: "write /d/pages: no space left on device", Do: do}
		text := diskFails(d)
		if got := text.In(words.English); got != d.Says() {
			t.Errorf("%q, want %q", got, d.Says())
		}
		if got := text.In("de"); !strings.HasPrefix(got, "die Platte versagt seit 25. November 08:05: write /d/pages: no space left on device; ") || strings.Contains(got, "fails") || strings.Contains(got, "disk") {
			t.Error(got)
		}
	}
}

// TestOneOfThem: a single task that waits for its archive is told in the singular.
func TestOneOfThem(t *testing.T) {
	st := &status{}
	st.Running = []peer.TaskStatus{{Away: true}, {}}
	for lang, want := range map[string]string{"en": "(1 of them waits for", "de": "(1 davon wartet auf"} {
		if got := running(st).In(lang); !strings.Contains(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
