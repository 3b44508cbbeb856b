package plain

import (
	"strconv"
	"strings"

	"github.com/alecthomas/kong"
)

// Defaults makes the help text of each flag name the value used when the flag is absent: the flag's default, or
// another source in others, keyed by the flag's name. It adds nothing for zero values, or if the text or the flag's
// placeholder names the value already.
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
		if strings.Contains(d, " ") {
			d = strconv.Quote(d) // else it reads as a part of the sentence
		}
		return strings.TrimSuffix(text, ".") + "; default " + d + "."
	}
}
