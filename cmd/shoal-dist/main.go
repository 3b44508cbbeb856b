// Command shoal-dist makes the packages of shoal and shoal-peer: archives, deb, rpm, MSI, OCI images, their checksums and lists of parts. The same sources
// make the same bytes. It needs no network once the Go modules are there, and root nowhere.
//
// It is a program of its own so that the products do not grow by what only packages need.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/alecthomas/kong"

	"shoal/internal/plain"
)

type cli struct {
	Out      string   `help:"Folder for the packages; it is emptied first." type:"path" default:"bin/dist" placeholder:"DIR"`
	Version  string   `help:"Version, as git describe prints it." default:"devel" placeholder:"VERSION"`
	Date     int64    `help:"Time of every file in the packages, in seconds since 1970: the commit's." default:"0" placeholder:"SECONDS"`
	Targets  []string `help:"Systems to build for; default: all." placeholder:"OS/ARCH"`
	Products []string `help:"Programs to pack; default: shoal and shoal-peer." placeholder:"NAME"`
	Key      string   `help:"File with the minisign secret key that signs the checksums; SHOAL_DIST_PASSWORD opens it." type:"path" placeholder:"FILE"`
	Programs string   `help:"Folder of programs for this system that are built already, to pack these; it holds for this system alone." type:"path" placeholder:"DIR"`
	NoMSI    bool     `name:"no-msi" help:"Make no MSI packages, for machines without wixl."`
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

func run(ctx context.Context, args []string, out, errs io.Writer) int {
	var c cli
	exited := -1
	parser, err := kong.New(&c, kong.Name("shoal-dist"), kong.Description("Makes the packages of shoal and shoal-peer."), kong.Writers(out, errs),
		kong.Exit(func(code int) { exited = code }), kong.ValueFormatter(plain.Defaults(nil)))
	if err == nil {
		_, err = parser.Parse(args)
	}
	if exited >= 0 {
		return exited
	}
	if err != nil {
		text, help := plain.Usage("shoal-dist", err)
		fmt.Fprintf(errs, "shoal-dist: %s\nTry: %s\n", text, help)
		return 2
	}
	if err := c.run(ctx, out); err != nil {
		fmt.Fprintf(errs, "shoal-dist: %s\n", plain.Error(err))
		return 1
	}
	return 0
}

func (c *cli) run(ctx context.Context, out io.Writer) error {
	v, err := parseVersion(c.Version)
	if err != nil {
		return err
	}
	wanted, err := chosen(c.Targets)
	if err != nil {
		return err
	}
	list, err := chosenProducts(c.Products)
	if err != nil {
		return err
	}
	if c.Programs != "" && (len(wanted) != 1 || wanted[0] != here) {
		return fmt.Errorf("--programs holds for this system alone: add --targets %s", here.name())
	}
	if !c.NoMSI && slices.ContainsFunc(wanted, func(t target) bool { return t.os == "windows" }) {
		if err := haveMSI(); err != nil {
			return err
		}
	}
	if err := os.RemoveAll(c.Out); err != nil {
		return err
	}
	if err := os.MkdirAll(c.Out, 0o755); err != nil {
		return err
	}
	work, err := os.MkdirTemp("", "shoal-dist-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	d := &dist{version: v, date: time.Unix(c.Date, 0).UTC(), out: c.Out, work: work, log: out, msi: !c.NoMSI, programs: c.Programs}
	if err := d.all(ctx, wanted, list); err != nil {
		return err
	}
	return d.seal(c.Key, os.Getenv("SHOAL_DIST_PASSWORD"))
}

// chosen returns the targets that were named, or all.
func chosen(names []string) (out []target, err error) {
	if len(names) == 0 {
		return targets, nil
	}
	for _, n := range names {
		i := slices.IndexFunc(targets, func(t target) bool { return t.name() == n })
		if i < 0 {
			var known []string
			for _, t := range targets {
				known = append(known, t.name())
			}
			return nil, fmt.Errorf("no packages are made for %s; want some of %s", n, strings.Join(known, ", "))
		}
		out = append(out, targets[i])
	}
	return out, nil
}

func chosenProducts(names []string) (out []product, err error) {
	if len(names) == 0 {
		return products(), nil
	}
	for _, n := range names {
		all := products()
		i := slices.IndexFunc(all, func(p product) bool { return p.name == n })
		if i < 0 {
			return nil, fmt.Errorf("there is no program %s; want shoal or shoal-peer", n)
		}
		out = append(out, all[i])
	}
	return out, nil
}
