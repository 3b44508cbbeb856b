package deptest

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// readingRooms hold the code that reads what strangers publish: pages, headers, robots.txt, sitemaps, feeds.
var readingRooms = []string{"./peer/crawl/...", "./channel/markup", "./channel/sitemap", "./manager/archive/text", "./manager/trust/compare"}

// readers are the modules of others that those rooms link, each with the reason why it may be there. Decision 0030 says what
// is asked of them. An unmaintained module may be there only if strangers' bytes do not reach it, or if they do so
// behind bounds.
var readers = map[string]string{
	"github.com/andybalholm/brotli":           "reads the content encoding br; maintained; peer/crawl/decode.go bounds what comes out",
	"github.com/klauspost/compress":           "reads gzip and zstd; maintained; peer/crawl/decode.go bounds what comes out",
	"github.com/nlnwa/whatwg-url":             "reads URLs; maintained; channel.Canonical bounds their length, recovers and is fuzzed",
	"github.com/bits-and-blooms/bitset":       "sets of characters for whatwg-url; reads nothing",
	"golang.org/x/net":                        "HTML trees; the Go project's",
	"golang.org/x/text":                       "charsets, their names, and IDNA; the Go project's",
	"golang.org/x/sys":                        "system calls; reads nothing",
	"google.golang.org/protobuf":              "the members' messages; maintained",
	"github.com/cespare/xxhash/v2":            "digests; any bytes are the same to it",
	"github.com/hashicorp/serf":               "coordinates, by package channel; reads nothing",
	"github.com/hashicorp/go-metrics":         "linked by serf; reads nothing",
	"github.com/hashicorp/go-immutable-radix": "linked by go-metrics; reads nothing",
	"github.com/hashicorp/golang-lru":         "linked by go-immutable-radix; reads nothing",
	"github.com/markusmobius/go-trafilatura":  "finds main text in the archive, of at most 1 MiB and 50,000 nodes; package text recovers from its panics",
	"github.com/markusmobius/go-htmldate":     "linked by go-trafilatura for dates, which package text disables",
	"github.com/markusmobius/go-dateparser":   "our stand-in internal/nodates; reads nothing",
	"github.com/markusmobius/go-domdistiller": "our stand-in internal/nodistiller; reads nothing",
	"github.com/go-shiori/go-readability":     "our stand-in internal/noreadability; reads nothing",
	"github.com/go-shiori/dom":                "unmaintained; walks trees that golang.org/x/net has parsed; its own parser is not called",
	"github.com/andybalholm/cascadia":         "maintained; selectors that go-trafilatura wrote; no selector of a stranger's",
	"github.com/gogs/chardet":                 "unmaintained; linked by the parser of go-shiori/dom, which is not called: charsets are channel/markup's",
	"github.com/yosssi/gohtml":                "unmaintained; prints trees for the eyes of developers; go-trafilatura calls it nowhere in an extraction",
	"github.com/forPelevin/gomoji":            "unmaintained; finds emoji in short text, a table look-up for each character",
	"github.com/rivo/uniseg":                  "cuts text into characters for gomoji; maintained",
	"github.com/RadhiFadlillah/whatlanggo":    "our stand-in internal/nolanguage; reads nothing",
	"github.com/rs/zerolog":                   "go-trafilatura's log, which package text leaves off",
	"github.com/mattn/go-colorable":           "linked by zerolog; reads nothing",
	"github.com/mattn/go-isatty":              "linked by zerolog; reads nothing",
}

// TestReaders keeps the modules that read strangers' bytes to the table.
func TestReaders(t *testing.T) {
	linked := map[string]bool{}
	for _, system := range systems {
		cmd := exec.Command("go", append([]string{"list", "-deps", "-json=Module"}, readingRooms...)...)
		cmd.Dir = root
		cmd.Env = append(os.Environ(), "GOOS="+system, "CGO_ENABLED=0")
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("go list for %s: %v", system, err)
		}
		for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
			var p struct{ Module *struct{ Path string } }
			if err := dec.Decode(&p); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatal(err)
			}
			if p.Module != nil && p.Module.Path != module {
				linked[p.Module.Path] = true
			}
		}
	}
	for path := range linked {
		if readers[path] == "" {
			t.Errorf("code of %s would read what strangers publish: do without it, or add it to the table with a reason (decision 0030)", path)
		}
	}
	for path := range readers {
		if !linked[path] {
			t.Errorf("no room that reads what strangers publish links %s any more: delete it from the table", path)
		}
	}
}
