// Command shoal runs the search company's side of a volunteer crawling network: the manager with its channel database, the archive and
// their pages, and `shoal up`, which runs a whole network on one machine. Volunteers run shoal-peer.
//
// The commands turn flags into a Config and call a Run; only this package exits the process.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"syscall"

	"github.com/alecthomas/kong"
	"github.com/libp2p/go-libp2p/gologshim"

	"shoal/channel/order"
	"shoal/internal/plain"
	"shoal/internal/version"
	"shoal/internal/wire"
	"shoal/manager/archive/archivecmd"
	"shoal/manager/desk"
	"shoal/recrawl"
)

// streams are what a command may read and write; tests hand in their own.
type streams struct {
	out, err io.Writer
}

type cli struct {
	Up       upCmd       `cmd:"" help:"Run a whole network on this machine: manager with its page, archive and peers."`
	Manager  managerCmd  `cmd:"" help:"Run the manager, with its archive, for peers elsewhere."`
	Managers managersCmd `cmd:"" help:"List the managers that share this network."`
	Channel  channelCmd  `cmd:"" help:"Add, list and change what is crawled."`
	Host     hostCmd     `cmd:"" help:"Block Web hosts, or take them down."`
	Peer     peerCmd     `cmd:"" help:"List, invite and refuse volunteers."`
	Trust    trustCmd    `cmd:"" help:"Show or change how far what volunteers deliver is believed."`
	Strategy strategyCmd `cmd:"" help:"Show, try or change the recrawl strategy."`
	Check    checkCmd    `cmd:"" help:"Say what is wrong with this set-up, and how to mend it."`

	Get     archivecmd.Get     `cmd:"" help:"Print a stored page."`
	Export  archivecmd.Export  `cmd:"" help:"Write what changed since a cursor: WARC, JSON lines or text."`
	Feed    feedCmd            `cmd:"" help:"Follow the change feed."`
	Archive archivecmd.Archive `cmd:"" help:"Verify, compact or repair the archive; say what it holds."`
	Backup  archivecmd.Backup  `cmd:"" help:"Copy a manager's data, be it running or stopped, to a new folder."`
	Restore archivecmd.Restore `cmd:"" help:"Make a data folder from a backup."`

	Migrate migrateCmd `cmd:"" help:"Move the channels and the archive of a manager, running or stopped, to a PostgreSQL server and a bucket, or back."`

	Credit      creditCmd      `cmd:"" help:"Show what volunteers were credited with, or take one off the public board."`
	Certificate certificateCmd `cmd:"" help:"Check a volunteer's certificate of contribution."`

	Release releaseCmd `cmd:"" help:"Sign new versions of the volunteers' program, and roll them out."`
	Key     keyCmd     `cmd:"" help:"Show or back up the keys of a network."`
	Pond    pondCmd    `cmd:"" help:"Run the synthetic Web alone, on loopback."`
	Plan    planCmd    `cmd:"" help:"What a crawling capacity buys, what a freshness needs, and the timetable."`
	Sim     simCmd     `cmd:"" hidden:"" help:"Moved: the experiments are a program of their own, shoal-sim."`
	Version versionCmd `cmd:"" help:"Print the version."`

	Completion completionCmd `cmd:"" help:"Print the completion script of a shell."`
	Man        manCmd        `cmd:"" hidden:"" help:"Print the manual page."`
}

type versionCmd struct {
	JSON bool `name:"json" help:"As JSON."`
}

func (c *versionCmd) Run(s streams) error {
	if c.JSON {
		return json.NewEncoder(s.out).Encode(map[string]string{"version": version.String()})
	}
	_, err := fmt.Fprintln(s.out, "shoal", version.String())
	return err
}

func main() {
	if os.Getenv("GOLOG_LOG_LEVEL") == "" { // libp2p's own log is for those who ask for it
		log.SetOutput(io.Discard) // net/http's, which a host could fill
		gologshim.SetDefaultHandler(slog.DiscardHandler)
	}
	ctx, _ := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM) // to the last: a second one changes no exit status
	os.Exit(run(ctx, os.Args[1:], streams{os.Stdout, os.Stderr}))
}

// run is the program without its process: exit status 0 for success, 1 for a failure, 2 for a command line that says nothing we know.
func run(ctx context.Context, args []string, s streams) int {
	out := plain.NewOutput(s.out)
	s.out = out
	return out.Exit("shoal", command(ctx, args, s), s.err)
}

// command parses a command line and runs what it says.
func command(ctx context.Context, args []string, s streams) int {
	var c cli
	text := &textOut{w: s.out}
	s.out = text
	exited := -1
	parser, err := kong.New(&c,
		kong.Name("shoal"),
		kong.Description("Keeps a copy of the Web fresh with computers that volunteers lend.\n\nStart with: shoal up"),
		kong.Writers(s.out, s.err),
		kong.WithHyphenPrefixedParameters(true),
		plain.Paths(),
		kong.Exit(func(code int) { exited = code }),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, WrapUpperBound: 110}),
		kong.ValueFormatter(plain.Defaults(nil)),
		helpVars(dataFolder()),
		kong.BindTo(ctx, (*context.Context)(nil)),
		kong.Bind(s, text),
		kong.Bind(archivecmd.IO{Out: s.out, Err: s.err, Channels: copyServer}),
	)
	if err != nil {
		fmt.Fprintf(s.err, "shoal: %v\n", err)
		return 1
	}
	if len(args) == 0 {
		args = []string{"--help"}
	}
	k, err := plain.Parse(parser, args)
	if exited >= 0 { // help was asked for and printed
		return exited
	}
	if err != nil {
		text, help := plain.Usage("shoal", err)
		fmt.Fprintf(s.err, "shoal: %s\nTry: %s\n", text, help)
		return 2
	}
	err = k.Run()
	if back := giveBack(dataOfCommand(k)); back != nil {
		fmt.Fprintf(s.err, "shoal: %s\n", plain.Error(back))
	}
	if err != nil && !errors.Is(err, context.Canceled) {
		fmt.Fprintf(s.err, "shoal: %s\n", plain.Error(err))
		return 1
	}
	return 0
}

// dataOfCommand is the data folder that a command was told, or its default; empty: it has none.
func dataOfCommand(k *kong.Context) string {
	for _, f := range k.Flags() {
		if f.Name == "data" && f.Target.Kind() == reflect.String {
			return f.Target.String()
		}
	}
	return ""
}

// helpVars are the words that help texts name.
func helpVars(data string) kong.Vars {
	return kong.Vars{
		"data": data, "port": strconv.Itoa(wire.DefaultPort), "strategies": strings.Join(recrawl.Names(), ", "), "orders": strings.Join(order.Live(), ", "),
		"states": strings.Join(desk.States(), ", "), "sorts": strings.Join(desk.Sorts(), ", "),
	}
}

// dataFolder is where data lies unless told otherwise: $XDG_STATE_HOME/shoal, or what stands for it.
func dataFolder() string {
	if d := os.Getenv("XDG_STATE_HOME"); filepath.IsAbs(d) {
		return filepath.Join(d, "shoal")
	}
	if home, err := os.UserHomeDir(); err == nil {
		return filepath.Join(home, ".local", "state", "shoal")
	}
	return "shoal-data"
}
