package plain

import (
	"strings"

	"github.com/alecthomas/kong"
)

// Defaults has each help text of a flag say what holds where it is not given: its own default, or what else the program goes by, by the
// flag's name. Nothing is said of zero, false and nothing, nor where the text or the flag's placeholder tells already.
func Defaults(others map[string]string) kong.HelpValueFormatter {
	return func(v *kong.Value) string {
		text := kong.DefaultHelpValueFormatter(v)
		if v.Flag == nil || strings.Contains(strings.ToLower(v.OrigHelp), "default") {
			return text
		}
		d := others[v.Name]
		if v.HasDefault && v.Flag.PlaceHolder != "" {
			d = v.Default
		}
		switch d {
		case "", "0", "0s", "false":
			return text
		}
		return strings.TrimSuffix(text, ".") + "; default " + d + "."
	}
}
