// Package version returns the version of the running build. Protocol versions are numbers on the wire and are not
// part of it.
package version

import (
	"regexp"
	"runtime/debug"
)

// The linker sets stamp: -X shoal/internal/version.stamp=v1.2.3.
var stamp string

// numbers are how a version without a v begins.
var numbers = regexp.MustCompile(`^\d+\.\d+\.\d+`)

// String returns the stamped version, or the module's version or the commit as the Go tool recorded it, or "devel". A release's begins with a v, also
// where its tag does not: peers compare it with the version that was signed.
func String() string {
	if numbers.MatchString(stamp) {
		return "v" + stamp
	}
	if stamp != "" {
		return stamp
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "devel"
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" && len(s.Value) >= 12 {
			return "devel-" + s.Value[:12]
		}
	}
	return "devel"
}
