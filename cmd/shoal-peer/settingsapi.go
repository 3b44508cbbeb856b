package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"net"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"time"

	"shoal/internal/plain"
	"shoal/peer"
	"shoal/peer/limit"
	"shoal/peer/words"
)

// told of one setting.
type settingTold struct {
	Key     string   `json:"setting"`
	Group   string   `json:"group"`
	Meaning string   `json:"meaning"`
	Unit    string   `json:"unit,omitempty"`
	Kind    string   `json:"kind"` // "number", "text", "switch", "list" or "windows"
	Value   any      `json:"value"`
	Default any      `json:"default"`
	Least   *int     `json:"least,omitempty"`
	Most    *int     `json:"most,omitempty"`
	Zero    string   `json:"zero,omitempty"` // what 0 means
	Choices []string `json:"choices,omitempty"`
	Example string   `json:"example,omitempty"` // of a list's entry
	Source  string   `json:"source,omitempty"`  // who set it; empty: it is the default
	Held    string   `json:"held,omitempty"`    // the flag or variable that the file cannot change
	Takes   string   `json:"takes,omitempty"`   // when a change takes effect, if not at once
	Fixed   bool     `json:"fixed,omitempty"`   // only the file and flags set it
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
		t := settingTold{Key: d.key, Group: d.group, Meaning: d.meaning(lang), Kind: kindOf(v), Value: shownValue(v), Default: shownValue(usual[d.key]), Choices: d.choices, Example: d.list, Zero: d.zero, Fixed: d.takes == takesFile}
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
		if f != math.Trunc(f) || math.Abs(f) > math.MaxInt32 {
			return nil, limit.Bad(key, "is %v; want a whole number", f)
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
func (set settings) with(c changes, file string) (settings, *refusedSettings) {
	out, bad := set, &refusedSettings{}
	out.from = maps.Clone(set.from)
	base := defaults()
	fields, usual := out.fields(), base.fields()
	for key, v := range c {
		if from := set.from[key]; from != "" && from != inFile(file) {
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
	p.meter.SetRates(f.DownKiBPerS.Value, f.UpKiBPerS.Value)
	if err := p.agent.SetLimits(set.Threads, set.Queue); err != nil {
		p.log.Warn("threads and queue stay as they were", "err", err)
	}
	cfg := set.config()
	if p.inPond && set.MinGapMs == defaults().MinGapMs {
		cfg.MinGap = pondGap
	}
	p.agent.Tune(peer.Tuning{MinGap: cfg.MinGap, Checkpoint: cfg.Checkpoint, Grace: cfg.Grace, Disk: cfg.Disk})
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

// hour is an hour of the week as limits hold in it.
type hour struct {
	Day    int    `json:"day"` // 0: Monday
	Hour   int    `json:"hour"`
	Paused bool   `json:"paused,omitempty"`
	Down   int    `json:"down,omitempty"`
	Up     int    `json:"up,omitempty"`
	By     string `json:"by,omitempty"` // who set what makes it differ
}

// tried is what POST /v1/settings/try answers: what would hold.
type tried struct {
	Errors    []fieldError `json:"errors"`
	Limits    []shownCap   `json:"limits"`
	Paused    string       `json:"paused,omitempty"`
	Overruled []string     `json:"overruled"` // sentences: what a policy overrides
	Week      []hour       `json:"week"`
	Held      []string     `json:"held"` // changed settings that a flag or variable holds
}

func (s *station) trySettings(w http.ResponseWriter, r *http.Request) {
	c, set, bad, ok := s.read(w, r)
	if !ok {
		return
	}
	now, l := time.Now(), lang(r)
	would := s.limits(r.Context()).Try(set.Settings, set.from)
	f := would.At(now)
	out := tried{Errors: bad.Errors, Limits: shownCaps(&f, &limit.Done{}, l), Week: week(would, now), Overruled: []string{}, Held: []string{}}
	if out.Errors == nil {
		out.Errors = []fieldError{}
	}
	if t := pausedBy(&f); t.Key != "" {
		out.Paused = t.In(l)
	}
	for _, x := range out.Limits {
		if x.Overruled != nil {
			d, _ := settingOf(x.Key)
			unit := words.T(d.unit).In(l)
			wish := words.T("amount", *x.Overruled, unit)
			if *x.Overruled == 0 {
				wish = words.T("amount.none")
			}
			out.Overruled = append(out.Overruled, words.T("try.overruled", words.T("name."+x.Key), wish, words.T("amount", x.Value, unit), x.Source).In(l))
		}
	}
	if f.DSCPLE && !set.DSCPLE {
		out.Overruled = append(out.Overruled, words.T("try.mark", sourceText(f.DSCPSource)).In(l))
	}
	for key := range c {
		if from := set.from[key]; from != "" && from != inFile(s.file) {
			out.Held = append(out.Held, key)
		}
	}
	slices.Sort(out.Held)
	answer(w, out)
}

// week returns the limits in each hour of a week, as they are in its middle. It begins on Monday.
func week(l *limit.Limits, now time.Time) (out []hour) {
	monday := time.Date(now.Year(), now.Month(), now.Day()-(int(now.Weekday())+6)%7, 0, 0, 0, 0, now.Location())
	for d := range 7 {
		for h := range 24 {
			f := l.At(time.Date(monday.Year(), monday.Month(), monday.Day()+d, h, 30, 0, 0, now.Location()))
			x := hour{Day: d, Hour: h, Paused: f.Paused != "", Down: f.DownKiBPerS.Value, Up: f.UpKiBPerS.Value}
			x.By = byYou
			for _, source := range []string{f.Reason.Source, f.DownKiBPerS.Source, f.UpKiBPerS.Source} {
				if byOf(source) == byAdmin {
					x.By = byAdmin
				}
			}
			out = append(out, x)
		}
	}
	return out
}

// deny puts a domain on the deny list or takes it off, and gives back the tasks of sites below it.
func (s *station) deny(w http.ResponseWriter, domain string, allow bool) {
	domain = strings.ToLower(strings.TrimSpace(domain))
	if host := peer.SiteOf(domain); host != domain {
		domain = host
	}
	if host, _, err := net.SplitHostPort(domain); err == nil { // a domain is denied at every port
		domain = host
	}
	if !isDomain(domain) || strings.HasSuffix(domain, ".") {
		fail(w, http.StatusBadRequest, fmt.Errorf("%q is no domain; want one such as example.org", domain))
		return
	}
	set := s.settings()
	if from := set.from["deny"]; from != "" && from != inFile(s.file) {
		fail(w, http.StatusConflict, fmt.Errorf("the list of denied domains is set by %s, which the settings file cannot change", strings.TrimPrefix(from, "your settings, ")))
		return
	}
	list := slices.DeleteFunc(slices.Clone(set.Deny), func(d string) bool { return d == domain })
	if !allow {
		list = append(list, domain)
	}
	if len(list) > maxDeny {
		fail(w, http.StatusConflict, fmt.Errorf("the list of denied domains is full: it has %d", maxDeny))
		return
	}
	var change changes = map[string]any{"deny": list}
	if len(list) == 0 {
		change["deny"] = nil
	}
	if err := s.change(change); err != nil {
		fail(w, http.StatusInternalServerError, err)
		return
	}
	n := 0
	if p := s.running(); p != nil && !allow {
		st := p.agent.Status()
		for _, t := range append(st.Running, st.Waiting...) {
			if p.refuse(t.Host) != nil {
				n++
			}
		}
	}
	answer(w, deniedTold{domain, n})
}

// deniedTold is the answer to an order to deny.
type deniedTold struct {
	Domain string `json:"domain"`
	Tasks  int    `json:"tasks_given_back"`
}
