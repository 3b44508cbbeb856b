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

// TestHugeSettingsAreRefused has each number be more than can be counted, in a request of the page, and in an order for rates. What is refused names the most that is
// allowed, as a policy's refusal does.
func TestHugeSettingsAreRefused(t *testing.T) {
	for i := range table {
		d := &table[i]
		set := defaults()
		if set.fields()[d.key].Kind() != reflect.Int {
			continue
		}
		_, bad := typed(map[string]any{d.key: 8796093022208.0})
		if len(bad.Errors) != 1 || !strings.HasPrefix(bad.Errors[0].Text, "is 8796093022208; want ") || !strings.Contains(bad.Errors[0].Text, " to ") {
			t.Errorf("%s in a request: %+v", d.key, bad.Errors)
		}
		set.fields()[d.key].SetInt(limit.MaxNumber + 1)
		if err := set.validate(); err == nil || !strings.Contains(err.Error(), d.key+" is 2147483648; want ") || !strings.Contains(err.Error(), " to ") {
			t.Errorf("%s: %v", d.key, err)
		}
	}
	p := limited(t, defaults())
	for _, rate := range []string{"999999999999", "-1", "many"} {
		if err := p.setRates(nil, map[string]string{"down": rate}); err == nil || !strings.Contains(err.Error(), "0 (no limit) to 2147483647") {
			t.Errorf("a rate of %s: %v", rate, err)
		}
	}
}

// TestDenyListsNameDomains holds lists to what a policy may name: an entry that is no domain would stand there and deny nothing.
func TestDenyListsNameDomains(t *testing.T) {
	for entry, right := range map[string]bool{"example.org": true, "*.example.org": true, "https://example.org/x": true, "192.0.2.7": true, "bücher.example": true, ".": false, "*": false, "*.*": false, "": false, "a b": false, "https://": false} {
		set := defaults()
		set.Deny = []string{entry}
		pol := limit.Policy{DenyDomains: set.Deny}
		if own, theirs := set.validate(), pol.Validate(); (own == nil) != right || (theirs == nil) != right {
			t.Errorf("%q: own list %v, policy %v", entry, own, theirs)
		}
	}
}
