package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"shoal/internal/plain"
	"shoal/peer"
	"shoal/peer/limit"
)

// maxInput bounds what a command reads from standard input.
const maxInput = 1 << 20

// readAll reads a file, or standard input where it is called "-".
func readAll(in io.Reader, file string) ([]byte, error) {
	if file != "-" {
		return os.ReadFile(file)
	}
	if in == nil {
		return nil, errors.New("there is no standard input to read")
	}
	return io.ReadAll(io.LimitReader(in, maxInput))
}

type openCmd struct {
	remote
	Print bool `help:"Print the link instead of opening a browser. It is good once, and for a minute."`
}

// linkTold is what open --json prints. It opens nothing.
type linkTold struct {
	Link string `json:"link"`
}

// Run opens the page in the user's browser.
func (c *openCmd) Run(ctx context.Context, s streams, top *cli) error {
	cl, set, err := client(s, top, c.Data)
	if err != nil {
		return err
	}
	link, err := cl.Link(ctx)
	if err != nil {
		return err
	}
	if c.JSON {
		return json.NewEncoder(s.out).Encode(linkTold{link})
	}
	if !c.Print {
		if err := browse(ctx, set.Data, link); err == nil {
			_, err = fmt.Fprintln(s.out, "The page opens in your browser. If it does not: shoal-peer open --print prints a link.")
			return err
		}
		fmt.Fprintln(s.out, "No browser could be started. Open this link yourself within a minute; it is good once:")
	}
	_, err = fmt.Fprintln(s.out, link)
	return err
}

type historyCmd struct {
	remote
	Span string `arg:"" optional:"" enum:"hour,day,month" default:"day" help:"hour, day or month; default day."`
}

// Run shows what was received, sent and fetched over time.
func (c *historyCmd) Run(ctx context.Context, s streams, top *cli) error {
	cl, _, err := client(s, top, c.Data)
	if err != nil {
		return err
	}
	var raw json.RawMessage
	if err := cl.Get(ctx, "/v1/history?span="+url.QueryEscape(c.Span), &raw); err != nil {
		return err
	}
	if c.JSON {
		_, err := fmt.Fprintf(s.out, "%s\n", raw)
		return err
	}
	var p limit.Past
	if err := json.Unmarshal(raw, &p); err != nil {
		return err
	}
	printPast(s.out, &p)
	return nil
}

// historyRows is about how many lines a history has at a terminal.
const historyRows = 24

// printPast prints a history, a line for each of a few equal times.
func printPast(w io.Writer, p *limit.Past) {
	step := max(len(p.Down)/historyRows, 1)
	layout := "15:04"
	if p.Span == "month" {
		layout = "2006-01-02 15:04"
	}
	fmt.Fprintf(w, "%-16s  %12s  %12s  %8s   (recorded since %s)\n", "from", "down MiB", "up MiB", "pages", p.Since.Local().Format(time.DateTime))
	for i := 0; i < len(p.Down); i += step {
		var down, up, pages int64
		for k := i; k < min(i+step, len(p.Down)); k++ {
			down, up, pages = down+p.Down[k], up+p.Up[k], pages+p.Pages[k]
		}
		at := p.From.Add(time.Duration(float64(i) * p.BucketS * float64(time.Second)))
		fmt.Fprintf(w, "%-16s  %12.1f  %12.1f  %8d\n", at.Local().Format(layout), mib(down), mib(up), pages)
	}
}

type denyCmd struct {
	remote
	Domain string `arg:"" help:"Domain that this computer is never to fetch again, with everything below it."`
	Allow  bool   `help:"Take the domain off the list instead."`
}

// Run puts a domain on the list of denied ones, and gives back its tasks.
func (c *denyCmd) Run(ctx context.Context, s streams, top *cli) error {
	cl, _, err := client(s, top, c.Data)
	if err != nil {
		return err
	}
	args := map[string]string{"domain": c.Domain}
	if c.Allow {
		args["allow"] = "yes"
	}
	var t deniedTold
	if err := cl.Call(ctx, http.MethodPost, "/v1/do/deny", args, &t); err != nil {
		return err
	}
	if c.JSON {
		return json.NewEncoder(s.out).Encode(t)
	}
	if c.Allow {
		said := t.Domain + " is not on your list any more."
		switch {
		case t.Above != "":
			said = fmt.Sprintf("%s is not on your list itself, but %s is, with everything below it; nothing was changed.", t.Domain, t.Above)
		case t.Unlisted:
			said = t.Domain + " was not on your list; nothing was changed."
		}
		_, err = fmt.Fprintln(s.out, said)
		return err
	}
	what := t.Domain + " and everything below it"
	if isAddr(t.Domain) {
		what = t.Domain
	}
	said := fmt.Sprintf("%s is not fetched any more; %s given back.", what, plain.Count(t.Tasks, "task"))
	if t.Suffix {
		said += fmt.Sprintf("\nThat is no single site: it keeps every site away whose name ends in .%s. To take it back: shoal-peer deny --allow %s", t.Domain, t.Domain)
	}
	_, err = fmt.Fprintln(s.out, said)
	return err
}

type pictureCmd struct {
	remote
	Lang string `help:"Language: en or de." enum:"en,de" default:"en" placeholder:"LANG"`
}

// Run prints a picture to share.
func (c *pictureCmd) Run(ctx context.Context, s streams, top *cli) error {
	cl, _, err := client(s, top, c.Data)
	if err != nil {
		return err
	}
	text, err := cl.Text(ctx, "/v1/picture?lang="+c.Lang)
	if err != nil {
		return err
	}
	if c.JSON {
		return json.NewEncoder(s.out).Encode(map[string]string{"svg": text})
	}
	_, err = fmt.Fprint(s.out, text)
	return err
}

type reportCmd struct{ remote }

// Run prints a report for the company's support.
func (c *reportCmd) Run(ctx context.Context, s streams, top *cli) error {
	cl, _, err := client(s, top, c.Data)
	if err != nil {
		return err
	}
	if c.JSON {
		var raw json.RawMessage
		if err := cl.Get(ctx, "/v1/health", &raw); err != nil {
			return err
		}
		_, err := fmt.Fprintf(s.out, "%s\n", raw)
		return err
	}
	text, err := cl.Text(ctx, "/v1/report")
	if err != nil {
		return err
	}
	_, err = fmt.Fprint(s.out, text)
	return err
}

// printSites prints totals by site.
func printSites(w io.Writer, list []peer.Site, all int) {
	for _, x := range list {
		failed := ""
		if x.Failed > 0 {
			failed = fmt.Sprintf(", %d without an answer", x.Failed)
		}
		fmt.Fprintf(w, "%8d pages  %9.1f MiB  %s  %s%s\n", x.Pages, mib(x.Bytes), x.Last.Local().Format("2006-01-02 15:04"), plain.Printable(x.Site), failed)
	}
	if all > len(list) {
		fmt.Fprintf(w, "%s; see --lines\n", strings.Replace(plain.Count(all-len(list), "site"), "site", "more site", 1))
	}
}
