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

	"shoal/peer/limit"
	"shoal/peer/queue"
)

type limitCmd struct {
	remote
	Down *int `help:"Download limit, KiB a second; 0: no limit." placeholder:"N"`
	Up   *int `help:"Upload limit, KiB a second; 0: no limit." placeholder:"N"`
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
	if c.JSON {
		return json.NewEncoder(s.out).Encode(limitsTold{st.Limits, st.Done, st.Denied, st.Hold, st.Mode, st.Until, st.Marking, st.Notes})
	}
	printLimits(s.out, &st)
	return nil
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
