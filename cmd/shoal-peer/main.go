// Command shoal-peer is the volunteer's program. It joins a network and crawls for it, politely and unnoticed.
//
// The commands turn a configuration file, SHOAL_PEER_* variables and flags into settings and call a Run method. Only
// this package exits the process.
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
	"reflect"
	"runtime"
	"slices"
	"syscall"

	"github.com/alecthomas/kong"
	"github.com/libp2p/go-libp2p/gologshim"

	"shoal/internal/plain"
	"shoal/internal/version"
)

// streams are the input and output of a command. Tests pass their own.
type streams struct {
	out, err io.Writer
	env      []string
	in       io.Reader // nil: there is none
}

type cli struct {
	Config string `help:"Configuration file." type:"path" placeholder:"FILE" env:"SHOAL_PEER_CONFIG"`
	System bool   `help:"The peer of the whole computer, which a service runs, rather than your own."`

	Join         joinCmd         `cmd:"" help:"Become a member of a network, or of a further one."`
	Run          runCmd          `cmd:"" help:"Crawl for your networks until interrupted."`
	Open         openCmd         `cmd:"" help:"Open the running peer's page in your browser."`
	Status       statusCmd       `cmd:"" help:"Show what the running peer does."`
	Pause        pauseCmd        `cmd:"" help:"Fetch nothing, for a while or until resume."`
	Resume       resumeCmd       `cmd:"" help:"Go on after pause, finish or drain."`
	Finish       finishCmd       `cmd:"" help:"Take no new tasks; finish the running ones, hand over the waiting ones."`
	Drain        drainCmd        `cmd:"" help:"Give everything back to the network, and stay idle."`
	Limit        limitCmd        `cmd:"" help:"Show the limits in force and who set them, or change them until the peer ends."`
	Settings     settingsCmd     `cmd:"" help:"Show every setting with its meaning, or change some while the peer runs."`
	Log          logCmd          `cmd:"" help:"Show what was fetched, when, and for whom."`
	History      historyCmd      `cmd:"" help:"Show what was received, sent and fetched over an hour, a day or a month."`
	Deny         denyCmd         `cmd:"" help:"Never fetch a domain again, and give back its tasks."`
	Picture      pictureCmd      `cmd:"" help:"Print a picture to share (SVG): pages fetched and since when, and nothing else."`
	Report       reportCmd       `cmd:"" help:"Print a report for the company's support, without secrets, addresses and sites."`
	Object       objectCmd       `cmd:"" help:"Object, once, to a case that the company's server holds against this peer."`
	Contribution contributionCmd `cmd:"" help:"Show how many of your pages others saw too, your rank and team, and what is held against this peer."`
	Profile      profileCmd      `cmd:"" help:"Choose whether the network's public board shows you, by which nickname and in which team."`
	Certificate  certificateCmd  `cmd:"" help:"Get a certificate of contribution that the network signs and that anybody can check."`
	Update       updateCmd       `cmd:"" help:"Show how updates of the program stand, take one now, or refuse it."`
	Leave        leaveCmd        `cmd:"" help:"Hand everything over and leave the network."`
	Service      serviceCmd      `cmd:"" help:"Have the peer run by itself, without a terminal."`
	Tray         trayCmd         `cmd:"" help:"Show the running peer beside the clock: its state, a pause for an hour, its page."`
	Completion   completionCmd   `cmd:"" help:"Print the completion script of a shell."`
	Man          manCmd          `cmd:"" hidden:"" help:"Print the manual page."`
	Version      versionCmd      `cmd:"" help:"Print the version."`
}

type versionCmd struct {
	JSON bool `name:"json" help:"Print one JSON object."`
}

func (c *versionCmd) Run(s streams) error {
	if c.JSON {
		return json.NewEncoder(s.out).Encode(map[string]string{"version": version.String()})
	}
	_, err := fmt.Fprintln(s.out, "shoal-peer", version.String())
	return err
}

func main() {
	runtime.UnlockOSThread()                // the tray's library has locked it while the program started; all other commands are quicker without
	if os.Getenv("GOLOG_LOG_LEVEL") == "" { // libp2p's own log is for those who ask for it
		log.SetOutput(io.Discard) // net/http's, which a host could fill
		gologshim.SetDefaultHandler(slog.DiscardHandler)
	}
	ctx, _ := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM) // held to the end, so that a second signal changes no exit status
	os.Exit(run(ctx, os.Args[1:], streams{os.Stdout, os.Stderr, os.Environ(), os.Stdin}))
}

// run is the program without its process. It returns the exit status: 0 for success, 1 for a failure, 2 for a command
// line that it does not understand.
func run(ctx context.Context, args []string, s streams) int {
	out := plain.NewOutput(s.out)
	s.out = out
	return out.Exit("shoal-peer", command(ctx, args, s), s.err)
}

// command parses a command line and runs what it says.
func command(ctx context.Context, args []string, s streams) int {
	var c cli
	exited := -1
	parser, err := kong.New(&c,
		kong.Name("shoal-peer"),
		kong.Description("Crawls the Web for a search company that you lend your computer to.\n\nStart with: shoal-peer join JOIN-STRING"),
		kong.Writers(s.out, s.err),
		kong.WithHyphenPrefixedParameters(true),
		plain.Paths(),
		kong.Exit(func(code int) { exited = code }),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, WrapUpperBound: 110}),
		meanings(),
		kong.ValueFormatter(plain.Defaults(shown(reflect.ValueOf(defaults())))),
		kong.BindTo(ctx, (*context.Context)(nil)),
		kong.Bind(s, &c),
	)
	if err != nil {
		fmt.Fprintf(s.err, "shoal-peer: %v\n", err)
		return 1
	}
	if len(args) == 0 {
		args = []string{"--help"}
	}
	k, err := plain.Parse(parser, args)
	if i := slices.IndexFunc(args, belowZero); err != nil && i >= 0 && !slices.Contains(args, "--") { // a number below zero is no flag: its command says what it wants
		if again, failed := plain.Parse(parser, append(slices.Delete(slices.Clone(args), i, i+1), "--", args[i])); failed == nil {
			k, err = again, nil
		}
	}
	if exited >= 0 {
		return exited
	}
	if err != nil {
		text, help := plain.Usage("shoal-peer", err)
		fmt.Fprintf(s.err, "shoal-peer: %s\nTry: %s\n", text, help)
		return 2
	}
	if code, done := c.elsewhere(ctx, k.Command(), args, &s); done {
		return code
	}
	k.Bind(s)
	if err := k.Run(); errors.Is(err, errSwap) {
		return swapStatus
	} else if err != nil && !errors.Is(err, context.Canceled) {
		text := plain.Error(err)
		if mend := plain.Mend(err); mend != "" {
			text += "; " + mend
		}
		fmt.Fprintf(s.err, "shoal-peer: %s\n", text)
		return 1
	}
	return 0
}

// belowZero reports whether an argument is a number below zero, or a time such as -5m.
func belowZero(arg string) bool {
	return len(arg) > 1 && arg[0] == '-' && (arg[1] >= '0' && arg[1] <= '9' || arg[1] == '.')
}
