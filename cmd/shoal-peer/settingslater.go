package main

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"shoal/internal/release"
	"shoal/internal/release/programs"
	"shoal/internal/version"
	"shoal/peer/limit"
)

// load merges defaults, file, environment and flags, in this order. Unknown keys are errors, unless a later version of this program has run in the data folder: that one
// may have saved settings which this one does not know. This one has to start it all the same, to talk to it, and to take its place if it does not do well.
func load(file string, env []string, flags map[string]any) (settings, error) {
	strict, err := loadBut(file, env, flags, nil)
	passed, wrong := map[string]bool{}, err
	for wrong != nil {
		var w *limit.Wrong
		if !errors.As(wrong, &w) || w.Key == "" {
			return strict, err
		}
		key, _, _ := strings.Cut(w.Key, "[")
		if passed[key] { // it is not the file's
			return strict, err
		}
		passed[key] = true
		var mild settings
		if mild, wrong = loadBut(file, env, flags, passed); wrong == nil && laterRan(mild.Data) {
			mild.passed = slices.Sorted(maps.Keys(passed))
			return mild, nil
		}
	}
	return strict, err
}

// own is the version of this program.
var own = version.String

// laterRan reports whether a later version of this program runs in a data folder, or has run there.
func laterRan(data string) bool {
	st, err := programs.At(data).Load()
	later := func(v string) bool { return release.Newer(v, own()) }
	return err == nil && (st.Current != nil && later(st.Current.Version) || st.Trial != nil && later(st.Trial.Version) ||
		slices.ContainsFunc(st.Refused, func(r programs.Refusal) bool { return r.Fell && later(r.Version) }))
}

// missing says which settings that this version knows were passed over. Commands, and whoever starts another version, can do without them; a peer cannot, since one may be a limit.
func (s *settings) missing() error {
	known := limit.Keys(reflect.TypeFor[settings](), "koanf")
	for _, key := range s.passed {
		if _, is := known[key]; is {
			return fmt.Errorf("%w: %s has a value of a later version of this program, which does not run: set another one", errSettings, key)
		}
	}
	return nil
}
