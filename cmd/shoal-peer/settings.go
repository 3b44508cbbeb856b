package main

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/knadh/koanf/v2"

	"shoal/internal/wire"
	"shoal/peer"
	"shoal/peer/limit"
	"shoal/peer/queue"
)

// settings are a volunteer's settings. Their names are those of the configuration file, of SHOAL_PEER_* variables
// and, with dashes, of flags.
type settings struct {
	Data     string   `koanf:"data"`
	Account  string   `koanf:"account"`
	Port     int      `koanf:"port"`
	Listen   string   `koanf:"listen"`
	Announce []string `koanf:"announce"`
	QUIC     bool     `koanf:"quic"`
	DHT      bool     `koanf:"dht"`
	Control  string   `koanf:"control"`

	Threads       int `koanf:"threads"`
	Queue         int `koanf:"queue"`
	MinGapMs      int `koanf:"min_gap_ms"`
	CheckpointMin int `koanf:"checkpoint_min"`
	GraceS        int `koanf:"grace_s"`
	DiskMiB       int `koanf:"disk_mib"`
	MinFreeMiB    int `koanf:"min_free_mib"`

	limit.Settings `koanf:",squash"`
	Shares         []string `koanf:"network_shares"`

	LowPriority bool     `koanf:"low_priority"`
	Deny        []string `koanf:"deny"`
	BlockLists  []string `koanf:"block_lists"`
	PolicyURL   string   `koanf:"policy_url"`
	LogLevel    string   `koanf:"log_level"`
	Update      string   `koanf:"update"`

	from   map[string]string // the sources of settings that differ from their defaults, by name
	passed []string          // settings in the file that are passed over, since a later version may have saved them
}

func defaults() settings {
	return settings{
		Data: stateFolder(), Port: wire.DefaultPort, QUIC: true, DHT: true, Threads: 5, Queue: 5, MinGapMs: 1000, CheckpointMin: 10, GraceS: 10, DiskMiB: 1600, MinFreeMiB: 500,
		Settings: limit.DefaultSettings(), LowPriority: true, LogLevel: "info", Update: updateAuto,
	}
}

var errSettings = errors.New("bad setting")

// validate reports the first setting that cannot be as it is.
func (s *settings) validate() error {
	for _, err := range s.wrongs() {
		return err
	}
	return nil
}

const (
	leastGapMs       = 200
	maxCheckpointMin = 365 * 24 * 60 // a year
)

func isAddr(s string) bool {
	_, err := netip.ParseAddr(s)
	return err == nil
}

func loopback(addr string) bool {
	host, port, err := net.SplitHostPort(addr)
	if err != nil || port == "" {
		return false
	}
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.Unmap().IsLoopback()
}

// flagged holds the same settings as flags. Only flags that were given count. Their help texts are the table's.
type flagged struct {
	Data          *string  `help:"${set_data}" type:"path" placeholder:"DIR"`
	Account       *string  `help:"${set_account}" placeholder:"NAME"`
	Port          *int     `help:"${set_port}" placeholder:"N"`
	Listen        *string  `help:"${set_listen}" placeholder:"IP"`
	Announce      []string `help:"${set_announce}" placeholder:"ADDR"`
	QUIC          *bool    `name:"quic" help:"${set_quic}" negatable:""`
	DHT           *bool    `name:"dht" help:"${set_dht}" negatable:""`
	Control       *string  `help:"${set_control}" placeholder:"ADDR"`
	Threads       *int     `help:"${set_threads}" placeholder:"N"`
	Queue         *int     `help:"${set_queue}" placeholder:"N"`
	MinGapMs      *int     `help:"${set_min_gap_ms}" placeholder:"N"`
	CheckpointMin *int     `help:"${set_checkpoint_min}" placeholder:"N"`
	GraceS        *int     `help:"${set_grace_s}" placeholder:"N"`
	DiskMiB       *int     `name:"disk-mib" help:"${set_disk_mib}" placeholder:"N"`
	MinFreeMiB    *int     `name:"min-free-mib" help:"${set_min_free_mib}" placeholder:"N"`
	DownKiBPerS   *int     `name:"down-kib-per-s" help:"${set_down_kib_per_s}" placeholder:"N"`
	UpKiBPerS     *int     `name:"up-kib-per-s" help:"${set_up_kib_per_s}" placeholder:"N"`
	DayMiB        *int     `name:"day-mib" help:"${set_day_mib}" placeholder:"N"`
	MonthMiB      *int     `name:"month-mib" help:"${set_month_mib}" placeholder:"N"`
	Shares        []string `name:"network-shares" help:"${set_network_shares}" placeholder:"NAME=N"`
	OnBattery     *string  `help:"${set_on_battery}" placeholder:"WHAT"`
	OnMetered     *string  `help:"${set_on_metered}" placeholder:"WHAT"`
	InUse         *string  `help:"${set_in_use}" placeholder:"WHAT"`
	FullScreen    *string  `help:"${set_full_screen}" placeholder:"WHAT"`
	BusyPercent   *int     `help:"${set_busy_percent}" placeholder:"N"`
	DSCP          *bool    `name:"dscp-le" help:"${set_dscp_le}" negatable:""`
	LowPriority   *bool    `help:"${set_low_priority}" negatable:""`
	Deny          []string `help:"${set_deny}" placeholder:"DOMAIN"`
	BlockLists    []string `help:"${set_block_lists}" placeholder:"LIST"`
	PolicyURL     *string  `name:"policy-url" help:"${set_policy_url}" placeholder:"URL"`
	LogLevel      *string  `help:"${set_log_level}" placeholder:"LEVEL"`
	Update        *string  `help:"${set_update}" placeholder:"WHAT"`
}

// flagKeys are the names of settings whose flag is not the field's name in lower case.
var flagKeys = map[string]string{"MinGapMs": "min_gap_ms", "CheckpointMin": "checkpoint_min", "GraceS": "grace_s", "DiskMiB": "disk_mib", "MinFreeMiB": "min_free_mib", "DownKiBPerS": "down_kib_per_s",
	"UpKiBPerS": "up_kib_per_s", "DayMiB": "day_mib", "MonthMiB": "month_mib", "DSCP": "dscp_le", "LowPriority": "low_priority", "PolicyURL": "policy_url",
	"LogLevel": "log_level", "OnBattery": "on_battery", "OnMetered": "on_metered", "InUse": "in_use", "BusyPercent": "busy_percent",
	"FullScreen": "full_screen", "Shares": "network_shares", "BlockLists": "block_lists"}

func (f *flagged) values() map[string]any { return given(f) }

// given returns the settings whose flags were given, by their names in the configuration file.
func given(flags any) map[string]any {
	out := map[string]any{}
	v := reflect.ValueOf(flags).Elem()
	for i := range v.NumField() {
		name := v.Type().Field(i).Name
		key := flagKeys[name]
		if key == "" {
			key = strings.ToLower(name)
		}
		switch field := v.Field(i); {
		case field.IsNil():
		case field.Kind() == reflect.Pointer:
			out[key] = field.Elem().Interface()
		default:
			out[key] = field.Interface()
		}
	}
	return out
}

// layer is a koanf.Provider of a map.
type layer map[string]any

func (l layer) ReadBytes() ([]byte, error)    { return nil, errors.New("not bytes") }
func (l layer) Read() (map[string]any, error) { return l, nil }

// loadBut merges defaults, file, environment and flags, in this order. Unknown keys are errors, but for some in the file.
func loadBut(file string, env []string, flags map[string]any, but map[string]bool) (settings, error) {
	s := defaults()
	s.from = map[string]string{}
	known := limit.Keys(reflect.TypeFor[settings](), "koanf")
	k := koanf.New("\x00") // no key contains the separator: nothing is nested but windows, a list
	named := file != ""
	if !named {
		file = configFile()
	}
	text, err := os.ReadFile(file)
	switch {
	case errors.Is(err, fs.ErrNotExist) && !named:
	case err != nil:
		return s, fmt.Errorf("configuration: %w", err)
	default:
		m, err := limit.ParseBut(text, file, known, "koanf", but)
		if err != nil {
			return s, err
		}
		if err := k.Load(layer(m), nil); err != nil {
			return s, fmt.Errorf("configuration: %s: %w", file, err)
		}
		for key := range m {
			s.from[key] = "your settings in " + file
		}
	}
	m, err := fromEnv(env, known, s.from)
	if err != nil {
		return s, err
	}
	for _, layered := range []map[string]any{m, flags} { // of their types already
		if err := k.Load(layer(layered), nil); err != nil {
			return s, fmt.Errorf("configuration: %w", err)
		}
	}
	for key := range flags {
		s.from[key] = "your settings, --" + strings.ReplaceAll(key, "_", "-")
	}
	if err := k.UnmarshalWithConf("", &s, koanf.UnmarshalConf{Tag: "koanf"}); err != nil {
		return s, fmt.Errorf("%w: %w", errSettings, err)
	}
	return s, s.located(s.validate(), file, text)
}

// located says where a wrong setting was set.
func (s *settings) located(err error, file string, text []byte) error {
	var w *limit.Wrong
	if !errors.As(err, &w) {
		return err
	}
	top, _, _ := strings.Cut(w.Key, "[")
	switch from := s.from[top]; from {
	case "your settings in " + file:
		return limit.Located(err, file, text)
	case "":
		return err
	default:
		return &limit.Wrong{Key: w.Key, Text: w.Text, Where: strings.TrimPrefix(from, "your settings, ")}
	}
}

// fromEnv returns the settings that SHOAL_PEER_* variables make, and notes where they are from.
func fromEnv(env []string, known map[string]reflect.Type, from map[string]string) (map[string]any, error) {
	m := map[string]any{}
	for _, e := range env {
		key, value, _ := strings.Cut(e, "=")
		name, ours := strings.CutPrefix(key, "SHOAL_PEER_")
		if !ours || name == "CONFIG" {
			continue
		}
		name = strings.ToLower(name)
		kind, ok := known[name]
		if !ok {
			return nil, fmt.Errorf("%w: %s is not a setting%s", errSettings, key, limit.Nearest(name, known))
		}
		var err error
		if m[name], err = parse(value, kind); err != nil {
			return nil, fmt.Errorf("%w: %s: %w", errSettings, key, err)
		}
		from[name] = "your settings, " + key + " in the environment"
	}
	return m, nil
}

// shown returns the values of settings as help shows them, by the names of their flags.
func shown(v reflect.Value) map[string]string {
	out := map[string]string{}
	for i := range v.NumField() {
		f := v.Type().Field(i)
		switch key := strings.ReplaceAll(f.Tag.Get("koanf"), "_", "-"); {
		case f.Anonymous:
			maps.Copy(out, shown(v.Field(i)))
		case key != "" && f.Type.Kind() != reflect.Slice && f.Type.Kind() != reflect.Bool: // the flag of a switch says what it turns off
			out[key] = fmt.Sprint(v.Field(i).Interface())
		}
	}
	return out
}

func parse(value string, t reflect.Type) (any, error) {
	switch t.Kind() {
	case reflect.String:
		return value, nil
	case reflect.Bool:
		if v, err := strconv.ParseBool(value); err == nil {
			return v, nil
		}
		return nil, fmt.Errorf("want true or false, not %q", value)
	case reflect.Int:
		if v, err := strconv.Atoi(value); err == nil {
			return v, nil
		}
		return nil, fmt.Errorf("want a whole number, not %q", value)
	case reflect.Slice:
		if t.Elem().Kind() == reflect.String {
			if value == "" {
				return []string{}, nil
			}
			return strings.Split(value, ","), nil
		}
	}
	return nil, errors.New("set it in the configuration file")
}

// config is the agent's part of the settings.
func (s *settings) config() peer.Config {
	c := peer.Config{
		Dir: s.Data, Account: s.Account, Announce: s.Announce, QUIC: s.QUIC, DHT: s.DHT, Threads: s.Threads, Queue: s.Queue, Disk: int64(s.DiskMiB) << 20,
		MinGap: time.Duration(s.MinGapMs) * time.Millisecond, Checkpoint: time.Duration(s.CheckpointMin) * time.Minute,
		Grace: max(time.Duration(s.GraceS)*time.Second, time.Millisecond),
	}
	if s.Queue == 0 {
		c.Queue = -1
	}
	for _, ip := range []string{"0.0.0.0", "::"} {
		if s.Listen != "" {
			ip = s.Listen
		}
		family := "ip4"
		if strings.Contains(ip, ":") {
			family = "ip6"
		}
		c.Listen = append(c.Listen, fmt.Sprintf("/%s/%s/tcp/%d", family, ip, s.Port))
		if s.Listen != "" {
			break
		}
	}
	return c
}

// configFile returns the platform's path of the configuration file.
func configFile() string {
	dir, err := os.UserConfigDir()
	if err != nil {
		return ""
	}
	return filepath.Join(dir, "shoal", "peer.toml")
}

// stateFolder returns the platform's folder for what the program stores.
func stateFolder() string {
	if runtime.GOOS == "windows" || runtime.GOOS == "darwin" {
		if dir, err := os.UserConfigDir(); err == nil {
			return filepath.Join(dir, "shoal", "peer")
		}
		return ""
	}
	if dir := os.Getenv("XDG_STATE_HOME"); dir != "" {
		return filepath.Join(dir, "shoal", "peer")
	}
	if home, err := os.UserHomeDir(); err == nil {
		return filepath.Join(home, ".local", "state", "shoal", "peer")
	}
	return ""
}

func (s *settings) journal() string { return filepath.Join(s.Data, "log") }

// Limits of what one peer crawls at the same time, and holds to be crawled: as much as it can tell others of.
const (
	maxThreads = queue.MaxThreads
	maxQueue   = 200
)
