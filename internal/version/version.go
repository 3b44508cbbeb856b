// Package version says which build of Shoal is running. It is not for protocol versions; these are numbers on the wire.
package version

import "runtime/debug"

// stamp is set by the linker: -X shoal/internal/version.stamp=v1.2.3.
var stamp string

// String is the stamped version, else the module's or the commit's as the Go tool recorded it, else "devel".
func String() string {
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
