package deptest

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// spoken are the files of the messages that members exchange. Other .proto files are of what the archive stores.
var spoken = []string{
	"channel/channelpb/channel.proto", "overlay/p2p/overlaypb/overlay.proto", "internal/member/memberpb/member.proto",
	"internal/wire/wirepb/wire.proto", "internal/wire/uplink/uplinkpb/uplink.proto", "internal/release/carry/carrypb/carry.proto",
}

// stored are the .proto files whose messages travel nowhere.
var stored = []string{"manager/archive/archivepb/archive.proto"}

var (
	protoMessage = regexp.MustCompile(`^\s*message (\w+) \{`)
	protoField   = regexp.MustCompile(`^\s*(?:repeated |optional )?[\w.]+ (\w+) = \d+;`)
)

// TestEveryFieldIsBounded compares the fields of all messages with docs/protocol.md: each field that a member can send stands there with what bounds it, and each
// message that members never make is named as one.
func TestEveryFieldIsBounded(t *testing.T) {
	root := filepath.Join("..", "..")
	text, err := os.ReadFile(filepath.Join(root, "docs", "protocol.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, section, ok := strings.Cut(string(text), "\n## Every field that a member can send\n")
	if !ok {
		t.Fatal("docs/protocol.md has no table of every field that a member can send")
	}
	section, _, _ = strings.Cut(section, "\n## ")
	known := map[string]bool{}
	for _, m := range regexp.MustCompile("`([A-Z]\\w*(?:\\.[a-z]\\w*)?)`").FindAllStringSubmatch(section, -1) {
		known[m[1]] = false // until a file has it
	}
	for _, file := range spoken {
		message := ""
		source, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(file)))
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(source)) {
			if m := protoMessage.FindStringSubmatch(line); m != nil {
				message = m[1]
				if _, named := known[message]; named {
					known[message] = true
				}
			}
			m := protoField.FindStringSubmatch(line)
			if m == nil {
				continue
			}
			field := message + "." + m[1]
			_, whole := known[message]
			_, named := known[field]
			if known[field] = true; !whole && !named {
				t.Errorf("%s: nothing says what bounds %s: add it to the table at the end of docs/protocol.md, or name %s below it as a message that members never make", file, field, message)
			}
		}
	}
	for name, there := range known {
		if !there && name != "FENCED" && name != "BEHIND" {
			t.Errorf("docs/protocol.md has a row for %s, which no message has", name)
		}
	}
	all, err := filepath.Glob(filepath.Join(root, "*", "*.proto"))
	for _, deeper := range []string{"*/*/*.proto", "*/*/*/*.proto", "*/*/*/*/*.proto"} {
		more, err := filepath.Glob(filepath.Join(root, filepath.FromSlash(deeper)))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, more...)
	}
	if err != nil || len(all) != len(spoken)+len(stored) {
		t.Errorf("%d .proto files, %d are known here: say of the new one whether members speak it; %v", len(all), len(spoken)+len(stored), err)
	}
}
