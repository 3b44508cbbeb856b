package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strconv"
	"strings"
	"time"

	"shoal/internal/plain"
	"shoal/peer"
	"shoal/peer/limit"
	"shoal/peer/queue"
)

// status is the answer of the control API.
type status struct {
	peer.Status
	Limits   limit.Force `json:"limits"`
	Denied   []limit.Ban `json:"denied,omitempty"`
	Received int64       `json:"socket_received_bytes"` // by all sockets that this peer dialled, packet headers included
	Sent     int64       `json:"socket_sent_bytes"`
	Today    int64       `json:"today_bytes"`
	Month    int64       `json:"month_bytes"`
	Marking  string      `json:"marking,omitempty"` // why DSCP marks do not work here
	Notes    []string    `json:"notes,omitempty"`   // policies that cannot be read, and what this system does not report
}

// Status implements peer.Controls.
func (p *program) Status() any {
	now := time.Now()
	s := status{Status: p.agent.Status(), Limits: p.limits.At(now), Marking: limit.MarksLE(), Notes: p.notes.list()}
	s.Denied = p.limits.Denied(p.set.Deny, cmp.Or(p.set.from["deny"], "your settings"))
	s.Received, s.Sent = p.meter.Totals()
	s.Today, s.Month = p.usage.Used(now)
	return s
}

// Do implements peer.Controls.
func (p *program) Do(order string, args map[string]string) error {
	switch order {
	case "leave":
		p.once.Do(func() { close(p.left) })
		return nil
	case "limit":
		down, up := -1, -1
		for name, to := range map[string]*int{"down": &down, "up": &up} {
			if v, ok := args[name]; ok {
				n, err := strconv.Atoi(v)
				if err != nil || n < 0 {
					return fmt.Errorf("%w: %s %q; want KiB a second, 0 for no limit", errSettings, name, v)
				}
				*to = n
			}
		}
		p.limits.SetSession(down, up)
		f := p.limits.At(time.Now())
		p.meter.SetRates(f.DownKiBPerS.Value, f.UpKiBPerS.Value)
		return nil
	}
	return p.agent.Do(order, args)
}

// Log implements peer.Controls.
func (p *program) Log(w io.Writer, n int, match string) error { return p.journal.Log(w, n, match) }

// client returns a client of the peer that runs in the settings' folder.
func client(s streams, top *cli, data string) (*peer.Client, settings, error) {
	flags := map[string]any{}
	if data != "" {
		flags["data"] = data
	}
	set, err := load(top.Config, s.env, flags)
	if err != nil {
		return nil, set, err
	}
	c, err := peer.NewClient(set.Data)
	return c, set, err
}

type remote struct {
	Data string `help:"Folder of the peer." type:"path" placeholder:"DIR"`
}

func (r *remote) do(ctx context.Context, s streams, top *cli, order string, args map[string]string, said string) error {
	c, _, err := client(s, top, r.Data)
	if err != nil {
		return err
	}
	if err := c.Do(ctx, order, args); err != nil {
		return err
	}
	_, err = fmt.Fprintln(s.out, said)
	return err
}

type pauseCmd struct {
	remote
	For string `arg:"" optional:"" name:"duration" help:"How long, such as 30m or 2h; default: until resume."`
}

func (c *pauseCmd) Run(ctx context.Context, s streams, top *cli) error {
	said := "Paused until: shoal-peer resume"
	args := map[string]string{}
	if c.For != "" {
		args["for"], said = c.For, "Paused for "+c.For+"."
	}
	return c.do(ctx, s, top, "pause", args, said)
}

type resumeCmd struct{ remote }

func (c *resumeCmd) Run(ctx context.Context, s streams, top *cli) error {
	return c.do(ctx, s, top, "resume", nil, "Goes on.")
}

type finishCmd struct{ remote }

func (c *finishCmd) Run(ctx context.Context, s streams, top *cli) error {
	if err := c.do(ctx, s, top, "finish", nil, "Takes nothing new; what runs comes to its end."); err != nil {
		return err
	}
	return c.undelivered(ctx, s, top)
}

type drainCmd struct{ remote }

func (c *drainCmd) Run(ctx context.Context, s streams, top *cli) error {
	if err := c.do(ctx, s, top, "drain", nil, "Gives everything back, then stays idle."); err != nil {
		return err
	}
	return c.undelivered(ctx, s, top)
}

// undelivered warns of tasks whose results cannot be delivered now.
func (r *remote) undelivered(ctx context.Context, s streams, top *cli) error {
	c, _, err := client(s, top, r.Data)
	if err != nil {
		return err
	}
	var st status
	if err := c.Status(ctx, &st); err != nil {
		return err
	}
	n := 0
	for _, t := range st.Running {
		if t.Away {
			n++
		}
	}
	if n > 0 {
		_, err = fmt.Fprintf(s.out, "Not delivered yet, since the archive does not answer: %s. The peer sends what it fetched when the archive answers, or after the next start.\n",
			plain.Count(n, "task"))
	}
	return err
}

type limitCmd struct {
	remote
	Down *int `help:"Download limit, KiB a second; 0: no limit." placeholder:"N"`
	Up   *int `help:"Upload limit, KiB a second; 0: no limit." placeholder:"N"`
}

func (c *limitCmd) Run(ctx context.Context, s streams, top *cli) error {
	cl, _, err := client(s, top, c.Data)
	if err != nil {
		return err
	}
	args := map[string]string{}
	if c.Down != nil {
		args["down"] = strconv.Itoa(*c.Down)
	}
	if c.Up != nil {
		args["up"] = strconv.Itoa(*c.Up)
	}
	if len(args) > 0 {
		if err := cl.Do(ctx, "limit", args); err != nil {
			return err
		}
	}
	var st status
	if err := cl.Status(ctx, &st); err != nil {
		return err
	}
	printLimits(s.out, &st)
	return nil
}

// maxDenied is the number of denied domains and networks that are listed one by one.
const maxDenied = 10

func printLimits(w io.Writer, st *status) {
	line := func(name string, c limit.Cap, unit string) {
		if c.Value == 0 {
			fmt.Fprintf(w, "  %-9s no limit\n", name)
			return
		}
		fmt.Fprintf(w, "  %-9s %d %s  (%s)\n", name, c.Value, unit, c.Source)
	}
	fmt.Fprintln(w, "limits in force")
	line("down", st.Limits.DownKiBPerS, "KiB/s")
	line("up", st.Limits.UpKiBPerS, "KiB/s")
	line("day", st.Limits.DayMiB, fmt.Sprintf("MiB, %d used", st.Today>>20))
	line("month", st.Limits.MonthMiB, fmt.Sprintf("MiB, %d used", st.Month>>20))
	mark := "no mark"
	if st.Limits.DSCPLE {
		mark = "DSCP LE  (" + st.Limits.DSCPSource + ")"
		if st.Marking != "" {
			mark += "; but " + st.Marking
		}
	}
	fmt.Fprintf(w, "  %-9s %s\n", "marking", mark)
	if st.Limits.ProxyAt != "" {
		fmt.Fprintf(w, "  %-9s %s  (%s)\n", "proxy", st.Limits.ProxyAt, st.Limits.ProxySource)
	}
	for i, d := range st.Denied {
		if i == maxDenied {
			fmt.Fprintf(w, "  %-9s %d more; see --json of status\n", "denied", len(st.Denied)-i)
			break
		}
		fmt.Fprintf(w, "  %-9s %s  (%s)\n", "denied", d.What, d.Source)
	}
	paused := cmp.Or(st.Limits.Paused, st.Hold)
	if paused == "" && st.Mode == queue.Paused.String() {
		paused = "until shoal-peer resume  (shoal-peer pause)"
		if !st.Until.IsZero() {
			paused = "until " + st.Until.Local().Format(time.DateTime) + "  (shoal-peer pause)"
		}
	}
	if paused != "" {
		fmt.Fprintf(w, "  %-9s %s\n", "paused", paused)
	}
	if st.Limits.Contact != "" {
		fmt.Fprintf(w, "  %-9s %s\n", "admin", st.Limits.Contact)
	}
	for _, n := range st.Notes {
		fmt.Fprintf(w, "  note      %s\n", n)
	}
}

type statusCmd struct {
	remote
	JSON bool `name:"json" help:"Print one JSON object."`
}

func (c *statusCmd) Run(ctx context.Context, s streams, top *cli) error {
	cl, _, err := client(s, top, c.Data)
	if err != nil {
		return err
	}
	if c.JSON {
		var raw json.RawMessage
		if err := cl.Status(ctx, &raw); err != nil {
			return err
		}
		_, err := fmt.Fprintf(s.out, "%s\n", raw)
		return err
	}
	var st status
	if err := cl.Status(ctx, &st); err != nil {
		return err
	}
	mode := st.Mode
	if !st.Until.IsZero() {
		mode += " until " + st.Until.Local().Format(time.DateTime)
	}
	if st.Hold != "" {
		mode += "; " + st.Hold
	}
	fmt.Fprintf(s.out, "peer      %s\nnetwork   %s\nsince     %s\nmode      %s\nmembers   %d known\n", st.Peer, st.Network, st.Since.Local().Format(time.DateTime), mode, st.Members)
	printOverlay(s.out, &st.Status)
	n := st.Counters
	fmt.Fprintf(s.out, "fetched   %d pages, %d of them unchanged; %d tasks brought up to date, %d failed\n", n.Pages, n.Unchanged, n.Updated, n.Failed)
	fmt.Fprintf(s.out, "traffic   %.1f MiB received, %.1f MiB sent; today %.1f MiB\n", mib(st.Received), mib(st.Sent), mib(st.Today))
	printLimits(s.out, &st)
	fmt.Fprintf(s.out, "running   %d of %d\n", len(st.Running), st.Threads)
	for _, t := range st.Running {
		url := t.URL
		if t.Away {
			url = "its archive does not answer"
		}
		fmt.Fprintf(s.out, "  %s  %d pages, %d to go  %s\n", t.Host, t.Pages, t.Left, url)
	}
	fmt.Fprintf(s.out, "waiting   %d of %d\n", len(st.Waiting), st.Queue)
	for _, t := range st.Waiting {
		fmt.Fprintf(s.out, "  %s  about %d pages\n", t.Host, t.Pages)
	}
	return nil
}

// printOverlay prints the peer's place in the network and how others reach it.
func printOverlay(w io.Writer, st *peer.Status) {
	c := st.Coord
	var at []string
	for _, v := range c.Vec {
		at = append(at, strconv.FormatFloat(v, 'f', 1, 64))
	}
	fmt.Fprintf(w, "place     %s ms, height %.1f ms; a predicted time is wrong by about %.0f%% (error %.2f)\n", strings.Join(at, " "), c.Height, 100*c.Err, c.Err)
	var rings []string
	for i, n := range st.Rings {
		switch {
		case n == 0:
		case i == len(st.Rings)-1:
			rings = append(rings, fmt.Sprintf("%d from %d ms on", n, 1<<i))
		default:
			rings = append(rings, fmt.Sprintf("%d below %d ms", n, 2<<i))
		}
	}
	if len(rings) > 0 {
		fmt.Fprintf(w, "rings     %s\n", strings.Join(rings, ", "))
	}
	way := "directly"
	if len(st.Reach.Relays) > 0 {
		way = "through its home"
	}
	if st.Reach.Direct+st.Reach.Relayed == 0 {
		fmt.Fprintf(w, "reached   by no member now: none is connected; NAT when last seen: %s\n", st.Reach.NAT)
	} else {
		fmt.Fprintf(w, "reached   %s; NAT: %s; %s direct, %d by relay\n", way, st.Reach.NAT, plain.Count(st.Reach.Direct, "connection"), st.Reach.Relayed)
	}
	over := ""
	if st.RatesOver < 60 {
		over = fmt.Sprintf(", over its first %.0f s", st.RatesOver)
	}
	fmt.Fprintf(w, "messages  %.1f a minute, %.0f packets a minute%s\n", st.MessagesMin, st.PacketsMin, over)
}

func mib(n int64) float64 { return float64(n) / (1 << 20) }

type logCmd struct {
	remote
	Lines int    `short:"n" help:"Number of newest lines." default:"50"`
	Match string `help:"Only lines that contain this text." placeholder:"TEXT"`
	JSON  bool   `name:"json" help:"Print JSON lines."`
}

func (c *logCmd) Run(ctx context.Context, s streams, top *cli) error {
	if c.Lines < 1 {
		return fmt.Errorf("%w: --lines %d; want 1 or more", errSettings, c.Lines)
	}
	_, set, err := client(s, top, c.Data)
	if err != nil && !errors.Is(err, peer.ErrNoAgent) { // the record can be read without a running peer
		return err
	}
	j, err := peer.OpenJournal(set.journal(), "")
	if err != nil {
		return err
	}
	defer j.Close()
	var b strings.Builder
	if err := j.Log(&b, c.Lines, c.Match); err != nil {
		return err
	}
	if c.JSON {
		_, err := io.WriteString(s.out, b.String())
		return err
	}
	dec := json.NewDecoder(strings.NewReader(b.String()))
	for {
		var e peer.Entry
		if err := dec.Decode(&e); err != nil {
			if err == io.EOF {
				return nil
			}
			return err
		}
		what := strconv.Itoa(e.Status)
		if e.Status == 0 {
			what = e.Error
		}
		fmt.Fprintf(s.out, "%s  %-3s %8d  %s  for %.12s\n", e.At.Local().Format(time.DateTime), what, e.Bytes, e.URL, e.For)
	}
}

type leaveCmd struct{ remote }

// Run ends the running peer, which hands its tasks over, and deletes the membership.
func (c *leaveCmd) Run(ctx context.Context, s streams, top *cli) error {
	cl, set, err := client(s, top, c.Data)
	switch {
	case errors.Is(err, peer.ErrNoAgent):
	case err != nil:
		return err
	default:
		if err := cl.Do(ctx, "leave", nil); err != nil && !errors.Is(err, peer.ErrNoAgent) {
			return err
		}
	}
	wait := time.Duration(set.GraceS)*time.Second + 20*time.Second
	var lost peer.Undelivered
	for end := time.Now().Add(wait); ; {
		lost, err = peer.Forget(set.Data)
		if err == nil || !errors.Is(err, peer.ErrLocked) || time.Now().After(end) {
			break
		}
		select {
		case <-time.After(200 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("there is no folder %s: no peer ran there; name its folder with --data", set.Data)
	}
	if err != nil {
		return err
	}
	if lost.Tasks > 0 {
		fmt.Fprintf(s.out, "Not delivered, since the archive did not answer: %s, %.1f MiB of pages. Other peers will crawl it again.\n",
			plain.Count(lost.Tasks, "task"), mib(lost.Bytes))
	}
	_, err = fmt.Fprintf(s.out, "This computer has left the network. Its key and the record of what it fetched are still in %s; you may delete that folder.\n", set.Data)
	return err
}
