package plain

import (
	"strings"
	"testing"

	"github.com/alecthomas/kong"
)

// TestEmptyPaths: an empty name of a file or folder is refused wherever it stands, and one that is left out or given is not.
func TestEmptyPaths(t *testing.T) {
	for line, bad := range map[string]bool{"to": false, "to --out=x": false, "to --key=a --key=b": false, "EMPTY": true, "to --out=": true, "to --out EMPTY": true, "to --data=": true, "to --key=": true} {
		var c struct {
			To   string   `arg:"" type:"path"`
			Out  string   `type:"path"`
			Data string   `type:"path" default:"/d"`
			Key  []string `type:"path"`
		}
		k, err := kong.New(&c, Paths())
		if err != nil {
			t.Fatal(err)
		}
		args := strings.Fields(line)
		for i := range args {
			args[i] = strings.ReplaceAll(args[i], "EMPTY", "")
		}
		_, err = k.Parse(args)
		if (err != nil) != bad || bad && !strings.Contains(err.Error(), errNoPath.Error()) {
			t.Errorf("%q: %v", args, err)
		}
		if !bad && (c.To == "" || c.Data != "/d" || len(c.Key) != strings.Count(line, "key")) {
			t.Errorf("%q is read as %+v", args, c)
		}
	}
}
