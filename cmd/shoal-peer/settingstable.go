package main

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/alecthomas/kong"
	ma "github.com/multiformats/go-multiaddr"

	"shoal/internal/wire"
	"shoal/peer/control"
	"shoal/peer/limit"
	"shoal/peer/words"
)

// setting describes one setting, for flags, file, control API and page alike. Its meaning is in the catalogue of words under "set." and
// its name, its default in defaults, its type in settings.
type setting struct {
	key   string
	group string // on the page
	unit  string // key in the catalogue; empty: none

	// Of a number:
	least, most int    // most 0: as much as any number may be
	zero        string // what 0 means; empty: nothing special
	why         string // why it may not be less

	choices []string // of a text that is one of a few
	list    string   // what a list has, as an example

	takes string // when a change takes effect, if not at once: a key in the catalogue
}

// Groups of settings, in the page's order.
const (
	groupNet      = "net"
	groupComputer = "computer"
	groupSites    = "sites"
	groupExpert   = "expert"
)

// Keys of when a change takes effect.
const (
	takesStart  = "takes.start"  // at the next start of the program
	takesJoin   = "takes.join"   // when a network is joined
	takesFile   = "takes.file"   // it says where to find page and settings, so that only file and flags can set it
	takesReturn = "takes.return" // the agent hands its tasks over and comes back with the setting
)

var pauseOrRun = []string{"pause", "run"}

// table has every setting, in the page's order.
var table = []setting{
	{key: "down_kib_per_s", group: groupNet, unit: "unit.kib_s", zero: "no limit"},
	{key: "up_kib_per_s", group: groupNet, unit: "unit.kib_s", zero: "no limit"},
	{key: "day_mib", group: groupNet, unit: "unit.mib", zero: "no limit"},
	{key: "month_mib", group: groupNet, unit: "unit.mib", zero: "no limit"},
	{key: "windows", group: groupNet},
	{key: "network_shares", group: groupNet, list: "bq3xkd7n2mwa=2"},
	{key: "on_metered", group: groupNet, choices: pauseOrRun},
	{key: "dscp_le", group: groupNet, takes: takesReturn},

	{key: "on_battery", group: groupComputer, choices: pauseOrRun},
	{key: "in_use", group: groupComputer, choices: pauseOrRun},
	{key: "full_screen", group: groupComputer, choices: pauseOrRun},
	{key: "busy_percent", group: groupComputer, unit: "unit.percent", most: 100},
	{key: "threads", group: groupComputer, least: 1, most: maxThreads},
	{key: "queue", group: groupComputer, most: maxQueue},
	{key: "disk_mib", group: groupComputer, unit: "unit.mib", least: 1},
	{key: "min_free_mib", group: groupComputer, unit: "unit.mib", zero: "no limit"},
	{key: "low_priority", group: groupComputer, takes: takesStart},
	{key: "update", group: groupComputer, choices: []string{updateAuto, updateAsk, updateOff}},

	{key: "deny", group: groupSites, list: "example.org"},
	{key: "block_lists", group: groupSites, list: "https://lists.example/hosts.txt"},
	{key: "min_gap_ms", group: groupSites, unit: "unit.ms", least: leastGapMs, why: ": a crawler waits at least that long between two requests"},

	{key: "policy_url", group: groupExpert},
	{key: "account", group: groupExpert, takes: takesJoin},
	{key: "port", group: groupExpert, most: 65535, zero: "any", takes: takesReturn},
	{key: "listen", group: groupExpert, takes: takesReturn},
	{key: "announce", group: groupExpert, list: "/ip4/192.0.2.7/tcp/7785", takes: takesReturn},
	{key: "quic", group: groupExpert, takes: takesReturn},
	{key: "dht", group: groupExpert, takes: takesReturn},
	{key: "checkpoint_min", group: groupExpert, unit: "unit.min", least: 1, most: maxCheckpointMin},
	{key: "grace_s", group: groupExpert, unit: "unit.s"},
	{key: "log_level", group: groupExpert, choices: []string{"debug", "info", "warn", "error"}},
	{key: "control", group: groupExpert, takes: takesFile},
	{key: "data", group: groupExpert, takes: takesFile},
}

// Bounds of the lists.
const (
	maxDeny       = 10_000
	maxBlockLists = 16
	maxText       = 1000 // bytes of one text
)

func settingOf(key string) (setting, bool) {
	i := slices.IndexFunc(table, func(s setting) bool { return s.key == key })
	if i < 0 {
		return setting{}, false
	}
	return table[i], true
}

// meaning returns what a setting is for.
func (d *setting) meaning(lang string) string { return words.T("set." + d.key).In(lang) }

// wants says which numbers are allowed.
func (d *setting) wants() string {
	least := strconv.Itoa(d.least)
	if d.zero != "" {
		least = "0 (" + d.zero + ")"
	}
	switch {
	case d.most > 0:
		return fmt.Sprintf("want %s to %d%s", least, d.most, d.why)
	case d.least > 0:
		return "want at least " + least + d.why
	}
	return "want " + least + " or more"
}

// tooLarge says which numbers are allowed, where one is so large that what it stands for could not be counted.
func (d *setting) tooLarge() string {
	bounded := *d
	if bounded.most == 0 {
		bounded.most, bounded.why = limit.MaxNumber, ""
	}
	return bounded.wants()
}

// check reports what is wrong with one value by what the table says of it.
func (d *setting) check(v reflect.Value) error {
	switch v.Kind() {
	case reflect.Int:
		n := int(v.Int())
		if n < d.least || d.most > 0 && n > d.most {
			return limit.Bad(d.key, "is %d; %s", n, d.wants())
		}
		if n > limit.MaxNumber {
			return limit.Bad(d.key, "is %d; %s", n, d.tooLarge())
		}
	case reflect.String:
		text := v.String()
		if len(d.choices) > 0 && !slices.Contains(d.choices, text) && (text != "" || d.key == "log_level" || d.key == "update") {
			return limit.Bad(d.key, "is %q; want %s", text, anyOf(d.choices))
		}
		if len(text) > maxText {
			return limit.Bad(d.key, "has %d characters; want at most %d", len(text), maxText)
		}
	case reflect.Slice:
		if list, ok := v.Interface().([]string); ok {
			most := maxDeny
			if d.key == "block_lists" {
				most = maxBlockLists
			}
			if len(list) > most {
				return limit.Bad(d.key, "has %d entries; want at most %d", len(list), most)
			}
		}
	}
	return nil
}

// anyOf lists words as a sentence does: "a, b or c".
func anyOf(list []string) string {
	last := len(list) - 1
	return strings.Join(list[:last], ", ") + " or " + list[last]
}

// fields returns the fields of settings by their names in the file.
func (s *settings) fields() map[string]reflect.Value {
	out := map[string]reflect.Value{}
	var walk func(v reflect.Value)
	walk = func(v reflect.Value) {
		for i := range v.NumField() {
			f := v.Type().Field(i)
			if f.Anonymous {
				walk(v.Field(i))
			} else if key := f.Tag.Get("koanf"); key != "" {
				out[key] = v.Field(i)
			}
		}
	}
	walk(reflect.ValueOf(s).Elem())
	return out
}

// wrongs reports each setting that cannot be as it is, in the table's order.
func (s *settings) wrongs() (out []error) {
	fields := s.fields()
	for i := range table {
		d := &table[i]
		err := d.check(fields[d.key])
		if err == nil {
			err = s.special(d.key)
		}
		if err != nil {
			out = append(out, err)
		}
	}
	return out
}

// special checks what is more than a number or a word.
func (s *settings) special(key string) error {
	switch {
	case key == "data" && s.Data == "":
		return limit.Bad("data", "is empty; want a folder, as in --data /home/ada/shoal")
	case key == "listen" && s.Listen != "" && !isAddr(s.Listen):
		return limit.Bad("listen", "is %q; want an IP address of this computer, such as 192.0.2.7", s.Listen)
	case key == "control" && s.Control != "" && !loopback(s.Control):
		return limit.Bad("control", "is %q; want a loopback address with a port, such as %s: other computers must not reach it", s.Control, control.DefaultAddr)
	case key == "announce":
		for i, at := range s.Announce {
			if !isMultiaddr(at) {
				return limit.Bad(fmt.Sprintf("announce[%d]", i+1), "is %q; want a multiaddr with a TCP port, such as /ip4/192.0.2.7/tcp/%d", at, wire.DefaultPort)
			}
		}
	case key == "policy_url" && s.PolicyURL != "":
		return limit.CheckPolicyURL(s.PolicyURL)
	case key == "windows":
		only := limit.Settings{Windows: s.Windows}
		return only.Validate()
	case key == "deny":
		for i, d := range s.Deny {
			if !limit.IsDomain(d) {
				return limit.Bad(fmt.Sprintf("deny[%d]", i+1), "is %q; want a domain such as example.org", d)
			}
		}
	case key == "network_shares":
		for i, share := range s.Shares {
			if _, _, err := parseShare(share); err != nil {
				return limit.Bad(fmt.Sprintf("network_shares[%d]", i+1), "is %q; %v", share, err)
			}
		}
	case key == "block_lists":
		for i, at := range s.BlockLists {
			if err := limit.CheckListName(at); err != nil {
				return limit.Bad(fmt.Sprintf("block_lists[%d]", i+1), "is %q; %s", at, err)
			}
		}
	}
	return nil
}

// isMultiaddr reports whether a peer can announce a text: an address with a TCP port, which QUIC uses too.
func isMultiaddr(s string) bool {
	a, err := ma.NewMultiaddr(s)
	if err != nil {
		return false
	}
	_, err = a.ValueForProtocol(ma.P_TCP)
	return err == nil
}

// meanings are the words of the table for the help texts of flags.
func meanings() kong.Vars {
	out := kong.Vars{}
	for i := range table {
		out["set_"+table[i].key] = table[i].meaning(words.English)
	}
	return out
}
