package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"shoal/internal/plain"
	"shoal/peer/control"
	"shoal/peer/limit"
	"shoal/peer/queue"
)

type limitCmd struct {
	remote
	only
	Down *int `help:"Download limit, KiB a second; 0: no limit." placeholder:"N"`
	Up   *int `help:"Upload limit, KiB a second; 0: no limit." placeholder:"N"`

	Share *int `help:"With --network: its weight among the networks, such as 2 for twice a usual share; kept in the settings." placeholder:"N"`
}

// limitsTold is what limit --json prints: the part of status that is about limits.
type limitsTold struct {
	Limits  limit.Force `json:"limits"`
	Done    limit.Done  `json:"done"`
	Denied  []limit.Ban `json:"denied,omitempty"`
	Hold    string      `json:"hold,omitempty"`
	Mode    string      `json:"mode"`
	Until   time.Time   `json:"until,omitzero"`
	Marking string      `json:"marking,omitempty"`
	Notes   []string    `json:"notes,omitempty"`
}

func (c *limitCmd) Run(ctx context.Context, s streams, top *cli) error {
	cl, _, err := client(s, top, c.Data)
	if err != nil {
		return err
	}
	args := c.args(map[string]string{})
	if c.Share != nil {
		if err := c.share(ctx, cl); err != nil {
			return err
		}
	}
	if c.Down != nil {
		args["down"] = strconv.Itoa(*c.Down)
	}
	if c.Up != nil {
		args["up"] = strconv.Itoa(*c.Up)
	}
	if c.Down != nil || c.Up != nil {
		if err := cl.Do(ctx, "limit", args); err != nil {
			return err
		}
	}
	var st status
	if err := cl.Status(ctx, &st); err != nil {
		return err
	}
	if c.Network != "" {
		n, err := pickTold(&st, c.Network)
		if err != nil {
			return err
		}
		return c.printOne(s.out, n)
	}
	if c.JSON {
		return json.NewEncoder(s.out).Encode(limitsTold{st.Limits, st.Done, st.Denied, st.Hold, st.Mode, st.Until, st.Marking, st.Notes})
	}
	printLimits(s.out, &st)
	return nil
}

// share saves a network's weight.
func (c *limitCmd) share(ctx context.Context, cl *control.Client) error {
	if c.Network == "" {
		return fmt.Errorf("%w: --share is a network's; name it with --network", errSettings)
	}
	return cl.Do(ctx, "share", map[string]string{"network": c.Network, "weight": strconv.Itoa(*c.Share)})
}

// networkLimits is what limit --network --json prints.
type networkLimits struct {
	Network     string     `json:"network"`
	Name        string     `json:"network_name,omitempty"`
	Share       float64    `json:"share"`
	Weight      int        `json:"weight"`
	Threads     int        `json:"threads"`
	Queue       int        `json:"queue"`
	DownKiBPerS int        `json:"down_kib_per_s"`
	UpKiBPerS   int        `json:"up_kib_per_s"`
	DayMiB      int        `json:"day_mib"`
	MonthMiB    int        `json:"month_mib"`
	Done        limit.Done `json:"done"`
	Hold        string     `json:"hold,omitempty"`
}

// printOne prints one network's part of the limits.
func (c *limitCmd) printOne(w io.Writer, n *networkTold) error {
	if c.JSON {
		return json.NewEncoder(w).Encode(networkLimits{n.Network, n.Name, n.Share, n.Weight, n.Threads, n.Queue, n.DownKiBPerS, n.UpKiBPerS, n.DayMiB, n.MonthMiB, n.Done, n.Hold})
	}
	amount := func(n int, unit, more string) string {
		if n == 0 {
			return "no limit"
		}
		return fmt.Sprintf("%d %s%s", n, unit, more)
	}
	fmt.Fprintf(w, "%s  %s\n", n.Network[:shortName], company(n.alone()))
	fmt.Fprintf(w, "  %-9s %s (weight %d); what another network leaves unused is there for it too: of the speed at once, of a budget when its time has passed\n", "share", percent(n.Share), n.Weight)
	fmt.Fprintf(w, "  %-9s %s at a time, %d waiting\n", "sites", strconv.Itoa(n.Threads), n.Queue)
	fmt.Fprintf(w, "  %-9s %s\n", "down", amount(n.DownKiBPerS, "KiB/s", " now"))
	fmt.Fprintf(w, "  %-9s %s\n", "up", amount(n.UpKiBPerS, "KiB/s", " now"))
	fmt.Fprintf(w, "  %-9s %s\n", "day", amount(n.DayMiB, "MiB", fmt.Sprintf(", %d used", n.Done.Today.Bytes>>20)))
	fmt.Fprintf(w, "  %-9s %s\n", "month", amount(n.MonthMiB, "MiB", fmt.Sprintf(", %d used", n.Done.Month.Bytes>>20)))
	if n.Hold != "" {
		fmt.Fprintf(w, "  %-9s %s\n", "paused", n.Hold)
	}
	return nil
}

// pickTold finds a network in a status.
func pickTold(st *status, name string) (*networkTold, error) {
	var have []string
	var found *networkTold
	for i := range st.Networks {
		n := &st.Networks[i]
		have = append(have, n.Network[:shortName]+" "+company(n.alone()))
		if strings.HasPrefix(n.Network, strings.ToLower(name)) || strings.EqualFold(plain.Printable(n.Name), name) {
			if found != nil {
				return nil, &errWhich{fmt.Sprintf("%q can be several networks", name), have}
			}
			found = n
		}
	}
	if found == nil {
		return nil, &errWhich{fmt.Sprintf("no network is called %q", name), have}
	}
	return found, nil
}

// maxDenied is the number of denied domains and networks that are listed one by one.
const maxDenied = 10

func printLimits(w io.Writer, st *status) {
	fmt.Fprintln(w, "limits in force")
	printCap(w, "down", st.Limits.DownKiBPerS, "KiB/s", "")
	printCap(w, "up", st.Limits.UpKiBPerS, "KiB/s", "")
	printCap(w, "day", st.Limits.DayMiB, "MiB", fmt.Sprintf(", %d used", st.Today>>20))
	printCap(w, "month", st.Limits.MonthMiB, "MiB", fmt.Sprintf(", %d used", st.Month>>20))
	for _, x := range st.Limits.Schedule {
		printWindow(w, x)
	}
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
	paused := st.Limits.Paused
	if paused != "" && !st.Limits.Until.IsZero() {
		paused += ", until " + st.Limits.Until.Local().Format(time.DateTime)
	}
	paused = cmp.Or(paused, st.Hold)
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

// printCap prints a limit, who set it, and the volunteer's own where it does not hold.
func printCap(w io.Writer, name string, c limit.Cap, unit, used string) {
	if c.Value == 0 {
		fmt.Fprintf(w, "  %-9s no limit\n", name)
		return
	}
	fmt.Fprintf(w, "  %-9s %d %s%s  (%s)\n", name, c.Value, unit, used, c.Source)
	if o := c.Overruled; o != nil {
		wish := fmt.Sprintf("%d %s", o.Value, unit)
		if o.Value == 0 {
			wish = "no limit"
		}
		fmt.Fprintf(w, "  %-9s you set %s (%s); the policy is stricter and holds\n", "", wish, o.Source)
	}
}

// printWindow prints a window of the week.
func printWindow(w io.Writer, x limit.Scheduled) {
	var what []string
	if x.Pause {
		what = append(what, "paused")
	}
	if x.DownKiBPerS > 0 {
		what = append(what, fmt.Sprintf("down %d KiB/s", x.DownKiBPerS))
	}
	if x.UpKiBPerS > 0 {
		what = append(what, fmt.Sprintf("up %d KiB/s", x.UpKiBPerS))
	}
	if len(what) == 0 {
		what = append(what, "no other limits")
	}
	now := ""
	if x.Now {
		now = "; now"
	}
	fmt.Fprintf(w, "  %-9s %s: %s%s  (%s)\n", "schedule", x.Span(), strings.Join(what, ", "), now, x.Source)
}
