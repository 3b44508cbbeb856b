package main

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"

	"shoal/internal/version"
	"shoal/peer/limit"
	"shoal/peer/words"
)

// check is one line of what is well and what is not.
type check struct {
	Name  string `json:"name"` // for programs
	What  string `json:"what"`
	Level string `json:"level"` // "ok", "note" or "bad"
	Says  string `json:"says"`
}

// Levels of a check.
const (
	levelOK   = "ok"
	levelNote = "note"
	levelBad  = "bad"
)

// health is what GET /v1/health answers.
type health struct {
	Checks []check `json:"checks"`
}

// clockOff is how far this computer's clock may be from the network's before that is said: certificates and pauses count by time.
const clockOff = 5 * time.Second

// clockNote says that this computer's clock is wrong, by the server of the first network that is connected; without a key: it is not, or that is not known.
func clockNote(of []said) words.Text {
	for _, x := range of {
		if x.Home.At == "" {
			continue
		}
		if offset := x.n.agent.ClockOffset().Abs(); offset > clockOff {
			return words.T("health.clock.off", words.Span(offset))
		}
		break
	}
	return words.Text{}
}

// checks looks at what a peer depends on.
func (s *station) checks(ctx context.Context, lang string) (out []check) {
	add := func(name, level string, says words.Text) {
		out = append(out, check{name, words.T("health." + name).In(lang), level, says.In(lang)})
	}
	now := time.Now()
	p := s.running()
	if p == nil {
		add("connection", levelNote, words.T("say."+s.status().State))
	} else {
		list := p.asked(ctx, false)
		at := ""
		for _, x := range list {
			s.connectionChecks(&status{Status: x.Status, around: around{web: p.web.says(now), unplugged: unplugged(), noPond: x.n.noPond.Load()}}, now, add)
			if at == "" {
				at = x.Home.At
			}
		}
		switch note := clockNote(list); {
		case at == "":
			add("clock", levelNote, words.T("health.clock.unknown"))
		case note.Key != "":
			add("clock", levelBad, note)
		default:
			add("clock", levelOK, words.T("health.clock.ok"))
		}
	}
	set := s.settings()
	if free, err := limit.FreeDisk(set.Data); err != nil {
		add("disk", levelNote, words.T("health.unknown"))
	} else if free < int64(set.MinFreeMiB)<<20 {
		add("disk", levelBad, words.T("health.disk.full", words.Num(free>>20), words.Num(set.MinFreeMiB)))
	} else if free < 1<<20 {
		add("disk", levelBad, words.T("health.disk.none"))
	} else {
		add("disk", levelOK, words.T("health.disk.ok", words.Num(free>>20)))
	}
	if p != nil {
		p.machineChecks(add)
		for _, n := range p.notes.in(lang, func(n note) bool { return !n.machine() }) {
			add("note", levelNote, words.Raw(n))
		}
	}
	if what, at := s.last.get(); what == "" {
		add("trouble", levelOK, words.T("health.trouble.none"))
	} else {
		add("trouble", levelNote, troubleSays(what, words.Moment(at, now)))
	}
	update := s.updates.told(lang)
	add("update", update.level, update.text)
	add("version", levelOK, words.T("health.version.says", version.String(), words.Span(now.Sub(s.begun))))
	return out
}

func (s *station) connectionChecks(st *status, now time.Time, add func(name, level string, says words.Text)) {
	name := companyText(st)
	switch state, why := connection(st, name, now, onPage); state {
	case "":
		add("connection", levelOK, words.T("health.connected", name, words.Moment(st.Home.Since, now)))
	case stateLooking:
		add("connection", levelNote, why)
	default:
		add("connection", levelBad, why)
	}
	if st.web.Key != "" {
		add("web", levelBad, st.web)
	} else if st.noPond {
		add("web", levelBad, words.T("say.web.pond", name))
	}
	key := "reach." + strings.NewReplacer(" ", "", ",", "", ";", "").Replace(st.Reach.NAT)
	if !words.Has(key) {
		key = "reach.unknown"
	}
	level := levelOK
	switch {
	case st.Reach.Direct+st.Reach.Relayed == 0:
		key, level = "reach.nobody", levelNote
	case !st.Home.Silent.IsZero(): // the connections may have ended without a word
		key, level = "reach.silent", levelNote
	}
	add("router", level, words.T("health.router.says", words.T(key), st.Reach.Direct, st.Reach.Relayed))
}

func (s *station) getHealth(w http.ResponseWriter, r *http.Request) {
	answer(w, health{s.checks(r.Context(), lang(r))})
}

var (
	urls      = regexp.MustCompile(`\b[a-z][a-z0-9+.-]*://[^\s"'<>]+`)
	names     = regexp.MustCompile(`\b(?:[\p{L}\p{N}_-]+\.)+[\p{L}]{2,}\b`)
	addresses = regexp.MustCompile(`\b(?:\d{1,3}\.){3}\d{1,3}\b|\b(?:[0-9a-fA-F]{0,4}:){3,7}[0-9a-fA-F]{0,4}`)
	secrets   = regexp.MustCompile(`\b(?:shoal-[a-z]+-\S+|[A-Za-z0-9]{32,})`)
	folders   = regexp.MustCompile(`(?:/[^\s/,;:()"']+){2,}|/root\b|\b[A-Z]:\\[^\s,;:()"']*`)
)

// clean takes out of a text what is private: URLs, names of sites, addresses, keys, folders with a user's name.
func clean(s string) string {
	s = urls.ReplaceAllString(s, "(URL)")
	s = secrets.ReplaceAllString(s, "(key)")
	s = folders.ReplaceAllString(s, "(folder)")
	s = addresses.ReplaceAllString(s, "(address)")
	return names.ReplaceAllStringFunc(s, func(n string) string {
		for _, ours := range []string{".toml", ".json"} {
			if strings.HasSuffix(n, ours) {
				return n
			}
		}
		return "(name)"
	})
}

// nameless takes the companies' names out of a text if there are several: none is told of the others.
func nameless(text string, list []networkTold) string {
	for i := range list {
		if len(list) > 1 {
			text = strings.ReplaceAll(text, company(list[i].alone()), fmt.Sprintf("(company %d)", i+1))
		}
	}
	return text
}

// report is a text for the company's support, without secrets, addresses, URLs or names of sites.
func (s *station) report(ctx context.Context) string {
	var b strings.Builder
	now := time.Now()
	fmt.Fprintf(&b, "shoal-peer %s, %s/%s, %s, %d processors\n%s\n\n", version.String(), runtime.GOOS, runtime.GOARCH, runtime.Version(), runtime.NumCPU(), now.UTC().Format(time.RFC3339))
	st := s.status()
	for _, c := range s.checks(ctx, words.English) {
		fmt.Fprintf(&b, "%-4s %s: %s\n", c.Level, c.What, clean(nameless(c.Says, st.Networks)))
	}
	if st.State != stateUnjoined && st.State != stateStarting {
		state, _ := told(st, now, "")
		fmt.Fprintf(&b, "\nstate %s, mode %s, running %d of %d, waiting %d of %d, %d members known\n", state, st.Mode, len(st.Running), st.Threads, len(st.Waiting), st.Queue, st.Members)
		c := st.Counters
		fmt.Fprintf(&b, "since the start: pages %d, unchanged %d, tasks updated %d, failed %d, lost %d, stopped %d\n", c.Pages, c.Unchanged, c.Updated, c.Failed, c.Lost, c.Stopped)
		fmt.Fprintf(&b, "today %d bytes, %d pages; month %d bytes, %d pages\n", st.Done.Today.Bytes, st.Done.Today.Pages, st.Done.Month.Bytes, st.Done.Month.Pages)
		fmt.Fprintf(&b, "speed %.1f KiB/s down, %.1f up; %.1f messages and %.0f packets a minute\n", st.Speed.Down/1024, st.Speed.Up/1024, st.MessagesMin, st.PacketsMin)
		for _, kind := range slices.Sorted(maps.Keys(c.Errors)) {
			fmt.Fprintf(&b, "error %s %d\n", clean(kind), c.Errors[kind])
		}
	}
	b.WriteString("\nsettings that differ from their defaults\n")
	set := s.settings()
	for _, t := range describe(&set, s.file, words.English).Settings {
		switch {
		case t.Source == "":
		case t.Kind == "text" && len(t.Choices) == 0, t.Kind == "list", t.Kind == "windows": // names of the volunteer's
			fmt.Fprintf(&b, "  %s is set\n", t.Key)
		default:
			fmt.Fprintf(&b, "  %s = %v\n", t.Key, t.Value)
		}
	}
	return b.String()
}

func (s *station) getReport(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	fmt.Fprint(w, s.report(r.Context())) // a client that has gone needs no answer
}
