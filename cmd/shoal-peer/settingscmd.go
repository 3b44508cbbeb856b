package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"

	"shoal/peer/control"
	"shoal/peer/limit"
)

type settingsCmd struct {
	remote
	Change  []string `arg:"" optional:"" name:"name=value" help:"Settings to change, as in peer.toml: threads=3 'deny=[\"example.org\"]'. A name with nothing behind the = goes back to its default."`
	Windows *string  `help:"File with the week's windows, as in peer.toml; -: standard input." type:"path" placeholder:"FILE"`
	DryRun  bool     `name:"dry-run" help:"Change nothing; say what would hold, and what a policy overrides."`
}

// Run shows the settings of the running peer, or changes them.
func (c *settingsCmd) Run(ctx context.Context, s streams, top *cli) error {
	cl, _, err := client(s, top, c.Data)
	if err != nil {
		return err
	}
	body, err := c.changes(s)
	if err != nil {
		return err
	}
	if c.DryRun {
		var raw json.RawMessage
		if err := cl.Call(ctx, http.MethodPost, "/v1/settings/try", body, &raw); err != nil {
			return err
		}
		return c.printTried(s.out, raw)
	}
	var raw json.RawMessage
	if len(body) > 0 {
		err = cl.Call(ctx, http.MethodPut, "/v1/settings", body, &raw)
	} else {
		err = cl.Get(ctx, "/v1/settings", &raw)
	}
	if err != nil {
		return c.explain(err)
	}
	if c.JSON {
		_, err := fmt.Fprintf(s.out, "%s\n", raw)
		return err
	}
	var t settingsTold
	if err := json.Unmarshal(raw, &t); err != nil {
		return err
	}
	printSettings(s.out, &t, body)
	return nil
}

// changes reads the arguments.
func (c *settingsCmd) changes(s streams) (map[string]any, error) {
	known := limit.Keys(reflect.TypeFor[settings](), "koanf")
	body := map[string]any{}
	for _, arg := range c.Change {
		name, value, ok := strings.Cut(arg, "=")
		name = strings.ReplaceAll(strings.TrimSpace(name), "-", "_")
		kind, is := known[name]
		switch {
		case !is:
			return nil, fmt.Errorf("%w: %s is not a setting%s", errSettings, name, limit.Nearest(name, known))
		case !ok:
			return nil, fmt.Errorf("%w: %s: write what it is to be behind a =, as in threads=3", errSettings, arg)
		case strings.TrimSpace(value) == "":
			body[name] = nil
			continue
		}
		v := map[string]any{}
		if err := toml.Unmarshal([]byte(name+" = "+value+"\n"), &v); err == nil {
			body[name] = v[name]
		} else if body[name], err = parse(value, kind); err != nil { // a text without quotes
			return nil, fmt.Errorf("%w: %s: %w", errSettings, name, err)
		}
	}
	if c.Windows != nil {
		var err error
		if body["windows"], err = readWindows(s, *c.Windows); err != nil {
			return nil, err
		}
	}
	return body, nil
}

// readWindows reads [[windows]] as in a settings file.
func readWindows(s streams, file string) ([]limit.Window, error) {
	text, err := readAll(s.in, file)
	if err != nil {
		return nil, err
	}
	if _, err := limit.Parse(text, file, map[string]reflect.Type{"windows": reflect.TypeFor[[]limit.Window]()}, "koanf"); err != nil {
		return nil, err
	}
	var m struct{ Windows []limit.Window }
	if err := toml.Unmarshal(text, &m); err != nil {
		return nil, err
	}
	if m.Windows == nil {
		m.Windows = []limit.Window{}
	}
	return m.Windows, nil
}

// explain words an answer that names several wrong settings, one on a line.
func (c *settingsCmd) explain(err error) error {
	var r *control.Refusal
	var bad refusedSettings
	if !errors.As(err, &r) || json.Unmarshal(r.Body, &bad) != nil || len(bad.Errors) == 0 {
		return err
	}
	var all []error
	for _, e := range bad.Errors {
		all = append(all, &limit.Wrong{Key: e.Key, Text: e.Text})
	}
	return errors.Join(all...)
}

// printSettings prints each setting with its source, or only those that were changed.
func printSettings(w io.Writer, t *settingsTold, changed map[string]any) {
	fmt.Fprintf(w, "settings in %s\n", t.File)
	for _, x := range t.Settings {
		if _, is := changed[x.Key]; len(changed) > 0 && !is {
			continue
		}
		source := x.Source
		if source == "" {
			source = "the default"
		}
		fmt.Fprintf(w, "  %-15s %s%s  (%s)\n", x.Key, settingValue(x.Value), unitOf(&x), source)
		if len(changed) == 0 {
			fmt.Fprintf(w, "  %-15s %s\n", "", x.Meaning)
		}
		if x.Held != "" && len(changed) > 0 {
			fmt.Fprintf(w, "  %-15s it is in the file, but %s holds until it is gone\n", "", x.Held)
		}
		if x.Takes != "" && len(changed) > 0 {
			fmt.Fprintf(w, "  %-15s %s\n", "", x.Takes)
		}
	}
}

func unitOf(x *settingTold) string {
	if x.Unit == "" {
		return ""
	}
	return " " + x.Unit
}

func settingValue(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(b)
}

func (c *settingsCmd) printTried(w io.Writer, raw json.RawMessage) error {
	if c.JSON {
		_, err := fmt.Fprintf(w, "%s\n", raw)
		return err
	}
	var t tried
	if err := json.Unmarshal(raw, &t); err != nil {
		return err
	}
	var all []error
	for _, e := range t.Errors {
		all = append(all, &limit.Wrong{Key: e.Key, Text: e.Text})
	}
	if len(all) > 0 {
		return errors.Join(all...)
	}
	fmt.Fprintln(w, "Nothing was changed. With these settings, these limits would hold:")
	for _, l := range t.Limits {
		value := "no limit"
		if l.Value > 0 {
			value = fmt.Sprintf("%d  (%s)", l.Value, l.Source)
		}
		fmt.Fprintf(w, "  %-15s %s\n", l.Key, value)
	}
	if t.Paused != "" {
		fmt.Fprintf(w, "  %-15s %s\n", "paused now", t.Paused)
	}
	paused := 0
	for _, h := range t.Week {
		if h.Paused {
			paused++
		}
	}
	fmt.Fprintf(w, "  %-15s %d of 168 hours\n", "paused a week", paused)
	for _, o := range t.Overruled {
		fmt.Fprintln(w, o)
	}
	if len(t.Held) > 0 {
		slices.Sort(t.Held)
		fmt.Fprintf(w, "A flag or a variable holds %s: the file counts when it is gone.\n", strings.Join(t.Held, ", "))
	}
	return nil
}
