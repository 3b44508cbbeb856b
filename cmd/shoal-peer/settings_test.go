package main

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"shoal/peer/limit"
	"shoal/peer/words"
)

// TestEverySettingHasItsPlaces checks that each setting has a flag of its type, except windows, which only the file can set, and that
// docs/volunteer.md mentions every limit.
func TestEverySettingHasItsPlaces(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "volunteer.md"))
	if err != nil {
		t.Fatal(err)
	}
	set := &flagged{}
	v := reflect.ValueOf(set).Elem()
	for i := range v.NumField() { // give every flag
		if f := v.Field(i); f.Kind() == reflect.Pointer {
			f.Set(reflect.New(f.Type().Elem()))
		} else {
			f.Set(reflect.MakeSlice(f.Type(), 1, 1))
		}
	}
	known, flags := limit.Keys(reflect.TypeFor[settings](), "koanf"), set.values()
	for key, kind := range known {
		if key == "windows" {
			continue
		}
		value, ok := flags[key]
		if !ok {
			t.Errorf("the setting %s has no flag: add it to flagged and, if its name differs, to flagKeys", key)
		} else if want := limit.Wants(kind, value); want != "" {
			t.Errorf("the flag of %s gives %T; want %s", key, value, want)
		}
	}
	for key := range flags {
		if _, ok := known[key]; !ok {
			t.Errorf("the flag of %s sets nothing: add it to flagKeys", key)
		}
	}
	for key := range known {
		for _, of := range []string{"name.", "set."} {
			if !words.Has(of + key) {
				t.Errorf("there are no words %s%s", of, key)
			}
		}
	}
	// A limit is what a volunteer looks up, so the page has every one of them.
	for key := range limit.Keys(reflect.TypeFor[settings](), "koanf") {
		limits := []string{"_kib_per_s", "_mib", "on_", "in_use", "busy_", "threads", "queue", "deny"}
		if slices.ContainsFunc(limits, func(part string) bool { return strings.Contains(key, part) }) && !strings.Contains(string(page), key) {
			t.Errorf("docs/volunteer.md does not mention the limit %s", key)
		}
	}
}

// TestSettingsThatCountForNothing refuses in a settings file what would be shown as in force and keep nothing away, and numbers from which the rest could not be counted: a day's budget so large paused everything.
func TestSettingsThatCountForNothing(t *testing.T) {
	conf := filepath.Join(t.TempDir(), "peer.toml")
	for text, want := range map[string]string{
		`deny = ["."]`:               "want a domain",
		`deny = ["*"]`:               "want a domain",
		`deny = ["a*b.test"]`:        "want a domain",
		`day_mib = 8796093022208`:    "at most 2147483647",
		`grace_s = 9999999999999`:    "at most 2147483647",
		`deny = ["*.example.org"]`:   "",
		`day_mib = 2147483647`:       "",
		`deny = ["bücher.example"]`:  "",
		`deny = ["[2001:db8::1]"]`:   "",
		`deny = ["192.0.2.7", "xn"]`: "",
	} {
		if err := os.WriteFile(conf, []byte(text+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := load(conf, nil, nil); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}
