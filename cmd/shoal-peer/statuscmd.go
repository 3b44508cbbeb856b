package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"shoal/internal/plain"
	"shoal/peer"
	"shoal/peer/limit"
)

type statusCmd struct {
	remote
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
	printStatus(s.out, &st)
	return nil
}

// printStatus prints what matters to a volunteer first, and the peer's place in the network last.
func printStatus(w io.Writer, st *status) {
	fmt.Fprintf(w, "%s\n", st.Says)
	if st.State == stateUnjoined {
		fmt.Fprintln(w, "Join one at the page, which shoal-peer open opens, or with: shoal-peer join JOIN-STRING")
		return
	}
	if st.State == stateStarting {
		return
	}
	for _, n := range st.Notes {
		if strings.Contains(n, "nothing is fetched") {
			fmt.Fprintf(w, "%s\n", n)
		}
	}
	d := st.Done
	fmt.Fprintf(w, "today     %s\n", worded(d.Today))
	fmt.Fprintf(w, "month     %s, since %s\n", worded(d.Month), d.Begun.Format("2 January"))
	fmt.Fprintf(w, "ever      %s, since %s\n", worded(d.Ever), d.Since.Local().Format("2 January 2006"))
	fmt.Fprintf(w, "speed     %.1f KiB/s down, %.1f KiB/s up, over the last %.0f s\n", st.Speed.Down/1024, st.Speed.Up/1024, st.Speed.OverS)
	n := st.Counters
	fmt.Fprintf(w, "fetched   %s since the start %s, %d of them unchanged; %s brought up to date, %d failed\n", plain.Count(n.Pages, "page"),
		st.Since.Local().Format(time.DateTime), n.Unchanged, plain.Count(n.Updated, "task"), n.Failed)
	if st.Update != nil {
		fmt.Fprintf(w, "update    %s\n", st.Update.Says)
	}
	printBelief(w, st.Standing)
	printLimits(w, st)
	fmt.Fprintf(w, "running   %s\n", ofThreads(len(st.Running), st.Threads))
	for _, t := range st.Running {
		url := t.URL
		if t.Away {
			url = "its archive does not answer"
		}
		fmt.Fprintf(w, "  %s  %s, %d to go  %s\n", t.Host, plain.Count(t.Pages, "page"), t.Left, url)
	}
	fmt.Fprintf(w, "waiting   %d of %d\n", len(st.Waiting), st.Queue)
	for _, t := range st.Waiting {
		fmt.Fprintf(w, "  %s  about %s\n", t.Host, plain.Count(t.Pages, "page"))
	}
	contact := ""
	if st.Contact != "" {
		contact = ", contact " + plain.Printable(st.Contact)
	}
	fmt.Fprintf(w, "for       %s%s\n", company(st), contact)
	if len(st.Networks) > 1 {
		for i := range st.Networks {
			printNetwork(w, &st.Networks[i])
		}
		return
	}
	fmt.Fprintf(w, "peer      %s\nnetwork   %s\nmembers   %d known\n", st.Peer, st.Network, st.Members)
	printOverlay(w, &st.Status)
}

// printBelief prints how far a company's server believes this peer, and what it counts for it.
func printBelief(w io.Writer, st *peer.Standing) {
	printStanding(w, st)
	if st != nil && st.Credit != nil {
		k := *st.Credit
		k.Weeks = nil // shoal-peer contribution has them
		printCredit(w, &k)
	}
}

// printNetwork prints one of several networks.
func printNetwork(w io.Writer, n *networkTold) {
	fmt.Fprintf(w, "\nnetwork   %s  %s: share %s\n", n.Network, company(n.alone()), percent(n.Share))
	fmt.Fprintf(w, "          %s\n", n.Says)
	fmt.Fprintf(w, "today     %s\n", worded(n.Done.Today))
	fmt.Fprintf(w, "running   %s; waiting %d of %d\n", ofThreads(len(n.Running), n.Threads), len(n.Waiting), n.Queue)
	printBelief(w, n.Standing)
	fmt.Fprintf(w, "peer      %s\nmembers   %d known\n", n.Peer, n.Members)
	printOverlay(w, &n.Status)
}

// ofThreads says how many sites are crawled at a time, of how many. There are more for a while after the share has become smaller: what has begun is not cut off.
func ofThreads(running, threads int) string {
	if running > threads {
		return fmt.Sprintf("%d, begun before there were only %d at a time", running, threads)
	}
	return fmt.Sprintf("%d of %d", running, threads)
}

// worded prints what was done in a time.
func worded(t limit.Tally) string {
	return fmt.Sprintf("%s, %d of them unchanged; %.1f MiB received and sent", plain.Count(int(t.Pages), "page"), t.Unchanged, mib(t.Bytes))
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
	} else if !st.Home.Silent.IsZero() {
		fmt.Fprintf(w, "reached   not known: the company's server is connected, and has not answered since %s; NAT when last seen: %s\n", st.Home.Silent.Local().Format(time.TimeOnly), st.Reach.NAT)
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
