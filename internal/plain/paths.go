package plain

import (
	"errors"
	"reflect"

	"github.com/alecthomas/kong"
)

// errNoPath is what is said of an argument or flag that should name a file or a folder.
var errNoPath = errors.New("no file or folder is named: it is empty")

// Paths refuses an empty name of a file or a folder. Without it the parser takes the present folder for it, as where a script's variable is not set.
func Paths() kong.Option {
	usual := kong.NewRegistry().RegisterDefaults()
	return kong.NamedMapper("path", kong.MapperFunc(func(ctx *kong.DecodeContext, target reflect.Value) error {
		if name, is := ctx.Scan.Peek().Value.(string); is && name == "" && !ctx.Scan.Peek().IsEOL() {
			return errNoPath
		}
		return usual.ForNamedValue("path", target).Decode(ctx, target)
	}))
}
