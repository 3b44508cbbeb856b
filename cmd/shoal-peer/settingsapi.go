package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"shoal/internal/plain"
	"shoal/peer/limit"
	"shoal/peer/words"
)

// told of one setting.
type settingTold struct {
	Key      string   `json:"setting"`
	Group    string   `json:"group"`
	Meaning  string   `json:"meaning"`
	Unit     string   `json:"unit,omitempty"`
	Kind     string   `json:"kind"` // "number", "text", "switch", "list" or "windows"
	Value    any      `json:"value"`
	Default  any      `json:"default"`
	Least    *int     `json:"least,omitempty"`
	Most     *int     `json:"most,omitempty"`
	Proposed int      `json:"proposed,omitempty"` // what joining proposes
	Zero     string   `json:"zero,omitempty"`     // what 0 means
	Choices  []string `json:"choices,omitempty"`
	Example  string   `json:"example,omitempty"` // of a list's entry
	Source   string   `json:"source,omitempty"`  // who set it; empty: it is the default
	Held     string   `json:"held,omitempty"`    // the flag or variable that the file cannot change
	Takes    string   `json:"takes,omitempty"`   // when a change takes effect, if not at once
	Fixed    bool     `json:"fixed,omitempty"`   // only the file and flags set it
}

// settingsTold is what GET /v1/settings answers.
type settingsTold struct {
	File     string        `json:"file"`
	Settings []settingTold `json:"settings"`
}

func kindOf(v reflect.Value) string {
	switch v.Kind() {
	case reflect.Int:
		return "number"
	case reflect.Bool:
		return "switch"
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.String {
			return "list"
		}
		return "windows"
	}
	return "text"
}

// shownValue is a value as JSON has it; a list that is nil is an empty one.
func shownValue(v reflect.Value) any {
	if v.Kind() == reflect.Slice && v.IsNil() {
		return []string{}
	}
	return v.Interface()
}

func describe(set *settings, file, lang string) settingsTold {
	out := settingsTold{File: file}
	base := defaults()
	values, usual := set.fields(), base.fields()
	for i := range table {
		d := &table[i]
		v := values[d.key]
		t := settingTold{Key: d.key, Group: d.group, Meaning: d.meaning(lang), Kind: kindOf(v), Value: shownValue(v), Default: shownValue(usual[d.key]), Choices: d.choices, Example: d.list, Zero: d.zero, Fixed: d.takes == takesFile, Proposed: proposedFor(d.key)}
		if d.unit != "" {
			t.Unit = words.T(d.unit).In(lang)
		}
		if t.Kind == "number" {
			least := d.least
			t.Least = &least
			if most := d.most; most > 0 {
				t.Most = &most
			}
		}
		if from := set.from[d.key]; from != "" {
			t.Source = sourceText(from).In(lang)
			if from != inFile(file) {
				t.Held = strings.TrimPrefix(from, "your settings, ")
			}
		}
		if d.takes != "" {
			t.Takes = words.T(d.takes).In(lang)
		}
		out.Settings = append(out.Settings, t)
	}
	return out
}

func inFile(file string) string { return "your settings in " + file }

func (s *station) getSettings(w http.ResponseWriter, r *http.Request) {
	set := s.settings()
	answer(w, describe(&set, s.file, lang(r)))
}

// fieldError is what is wrong with one setting.
type fieldError struct {
	Key  string `json:"setting"` // as in limit.Wrong: "windows[2].from"
	Text string `json:"text"`
}

// refusedSettings is an answer that names each setting that is wrong.
type refusedSettings struct {
	Error  string       `json:"error"`
	Errors []fieldError `json:"errors"`
}

func (e *refusedSettings) add(err error) {
	f := fieldError{Text: plain.Error(err)}
	var w *limit.Wrong
	if errors.As(err, &w) {
		f = fieldError{w.Key, w.Text}
	}
	e.Errors = append(e.Errors, f)
	if e.Error != "" {
		e.Error += "; "
	}
	e.Error += strings.TrimSpace(f.Key + " " + f.Text)
}

// typed turns what came as JSON into changes with the types of the settings.
func typed(in map[string]any) (changes, *refusedSettings) {
	known := limit.Keys(reflect.TypeFor[settings](), "koanf")
	out, bad := changes{}, &refusedSettings{}
	for _, key := range slices.Sorted(maps.Keys(in)) {
		d, ok := settingOf(key)
		switch {
		case !ok:
			bad.add(limit.Bad(key, "is not a setting%s", limit.Nearest(key, known)))
			continue
		case d.takes == takesFile:
			bad.add(limit.Bad(key, "can only be set in the file or with a flag, since it says where to find page and settings"))
			continue
		case in[key] == nil:
			out[key] = nil
			continue
		}
		v, err := typedValue(key, in[key], known[key])
		if err != nil {
			bad.add(err)
			continue
		}
		out[key] = v
	}
	return out, bad
}

func typedValue(key string, in any, kind reflect.Type) (any, error) {
	if f, is := in.(float64); is && kind.Kind() == reflect.Int {
		if f != math.Trunc(f) {
			return nil, limit.Bad(key, "is %v; want a whole number", f)
		}
		if d, known := settingOf(key); known && math.Abs(f) > limit.MaxNumber { // it may be more than an int holds
			shown := strconv.FormatFloat(f, 'f', 0, 64)
			if math.Abs(f) >= 1e18 {
				shown = strconv.FormatFloat(f, 'g', -1, 64)
			}
			return nil, limit.Bad(key, "is %s; %s", shown, d.tooLarge())
		}
		return int(f), nil
	}
	if want := limit.Wants(kind, in); want != "" {
		return nil, limit.Bad(key, "is %v; want %s", in, want)
	}
	if kind.Kind() != reflect.Slice {
		return in, nil
	}
	b, err := json.Marshal(in)
	if err != nil {
		return nil, err
	}
	to := reflect.New(kind)
	if err := json.Unmarshal(b, to.Interface()); err != nil {
		return nil, limit.Bad(key, "cannot be read: %v", err)
	}
	return to.Elem().Interface(), nil
}

// with returns settings with changes, and what is wrong with them. Only settings that are changed can be refused.
func (s settings) with(c changes, file string) (settings, *refusedSettings) {
	out, bad := s, &refusedSettings{}
	out.from = maps.Clone(s.from)
	base := defaults()
	fields, usual := out.fields(), base.fields()
	for key, v := range c {
		if from := s.from[key]; from != "" && from != inFile(file) {
			continue // a flag or a variable holds it
		}
		if v == nil {
			fields[key].Set(usual[key])
			delete(out.from, key)
			continue
		}
		fields[key].Set(reflect.ValueOf(v))
		out.from[key] = inFile(file)
	}
	for _, err := range out.wrongs() {
		var w *limit.Wrong
		if errors.As(err, &w) {
			top, _, _ := strings.Cut(w.Key, "[")
			if _, changed := c[top]; changed {
				bad.add(err)
			}
		}
	}
	return out, bad
}

// read takes changes out of a request. ok is false where it has answered already.
func (s *station) read(w http.ResponseWriter, r *http.Request) (c changes, set settings, bad *refusedSettings, ok bool) {
	in := map[string]any{}
	if err := take(r, &in); err != nil {
		fail(w, http.StatusBadRequest, err)
		return nil, set, nil, false
	}
	c, bad = typed(in)
	set, worse := s.settings().with(c, s.file)
	for _, e := range worse.Errors {
		bad.add(&limit.Wrong{Key: e.Key, Text: e.Text})
	}
	return c, set, bad, true
}

func refuseSettings(w http.ResponseWriter, bad *refusedSettings) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusUnprocessableEntity)
	_ = json.NewEncoder(w).Encode(bad) // a client that has gone needs no answer
}

func (s *station) putSettings(w http.ResponseWriter, r *http.Request) {
	c, _, bad, ok := s.read(w, r)
	if !ok {
		return
	}
	if len(bad.Errors) > 0 {
		refuseSettings(w, bad)
		return
	}
	if err := s.change(c); err != nil {
		fail(w, http.StatusInternalServerError, err)
		return
	}
	set := s.settings()
	answer(w, describe(&set, s.file, lang(r)))
}

// change saves settings and puts them in force.
func (s *station) change(c changes) error {
	s.saving.Lock()
	defer s.saving.Unlock()
	if s.file == "" {
		return errors.New("this system names no folder for settings; name a file with --config")
	}
	if err := save(s.file, c); err != nil {
		return fmt.Errorf("the settings cannot be written to %s: %w; make it writable, or name another file with --config. Nothing has changed", s.file, err)
	}
	return s.reload()
}

// takeUp puts in force what another process has written to the file.
func (s *station) takeUp() error {
	s.saving.Lock()
	defer s.saving.Unlock()
	return s.reload()
}

// reload puts the settings of the file in force.
func (s *station) reload() error {
	file := s.file
	if !s.named {
		file = "" // the usual one, which need not exist
	}
	set, err := load(file, s.env, s.cmd.values())
	if err != nil {
		return err
	}
	s.mu.Lock()
	before := s.set
	s.set = set
	p := s.peer
	s.mu.Unlock()
	if p != nil {
		p.apply(&before, &set)
	}
	return nil
}

// apply puts other settings in force.
func (p *program) apply(before, set *settings) {
	p.live.Store(set)
	p.limits.Replace(set.Settings, set.from)
	f := p.limits.At(time.Now())
	p.divide()
	p.shareRates(&f)
	var level slog.Level
	if level.UnmarshalText([]byte(set.LogLevel)) == nil {
		p.level.Set(level)
	}
	if set.LowPriority && !before.LowPriority {
		if err := limit.LowPriority(); err != nil {
			p.log.Warn("runs at a higher priority than it should", "err", err)
		}
	}
	wake(p.wake)
	wake(p.lists)
	was, is := before.fields(), set.fields()
	for i := range table {
		d := &table[i]
		if d.takes == takesReturn && !reflect.DeepEqual(was[d.key].Interface(), is[d.key].Interface()) {
			p.log.Info("the peer hands its tasks over and comes back with other settings", "setting", d.key)
			p.comeBack.Do(func() { close(p.again) })
			return
		}
	}
}

func wake(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
