package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"time"

	"shoal/internal/plain"
	"shoal/manager/desk"
)

const (
	liveEvery = 500 * time.Millisecond // on a terminal, where the line is rewritten
	lineEvery = 5 * time.Second        // otherwise
)

const maxTold = 50 // notices of one run

var digits = regexp.MustCompile(`[0-9]+`)

// show shows what happens until ctx ends, or the returned function is called, which waits for the end of the last line.
func (st *station) show(ctx context.Context, s streams) (end func()) {
	ctx, stop := context.WithCancel(ctx)
	shown := make(chan struct{})
	go func() { defer close(shown); live(ctx, s.err, st.desk.Overview) }()
	return func() { stop(); <-shown }
}

// live shows one line of what happens until ctx ends: rewritten in place on a terminal, a line now and then otherwise.
func live(ctx context.Context, w io.Writer, overview func() desk.Overview) {
	before := overview()
	tty := isTerminal(w)
	every := lineEvery
	if tty {
		every = liveEvery
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	width := 0
	told := map[string]bool{}
	var why reason
	for {
		select {
		case <-ctx.Done():
			if tty && width > 0 {
				fmt.Fprintln(w)
			}
			return
		case <-tick.C:
		}
		o := overview()
		for _, n := range o.Notices {
			same := digits.ReplaceAllString(n, "") // room left differs from one to the next
			if !told[same] && len(told) < maxTold {
				told[same] = true
				fmt.Fprintf(w, "\n%s\n", plain.Error(errors.New(n)))
			}
		}
		if said := why.said(o.Now, o.Held, o.HeldBack); said != "" {
			fmt.Fprintf(w, "\n%s\n", said)
		}
		line := liveLine(before, o)
		if tty {
			fmt.Fprintf(w, "\r%s%s", line, strings.Repeat(" ", max(width-len(line), 0)))
			width = len(line)
		} else {
			fmt.Fprintln(w, line)
		}
	}
}

// reason is what holds the crawl back, as it was last told.
type reason struct {
	told, now string    // kinds
	since     time.Time // of now
}

// reasonFor is for how long a reason must last to be told.
const reasonFor = 10 * time.Second

// said is the sentence to tell: that of a kind which was not the last told and has lasted.
func (r *reason) said(now time.Time, kind, sentence string) string {
	if kind != r.now {
		r.now, r.since = kind, now
	}
	if kind == r.told || kind == "" || now.Sub(r.since) < reasonFor {
		return ""
	}
	r.told = kind
	return sentence
}

func liveLine(before, o desk.Overview) string {
	idle := ""
	if len(o.Managers) < 2 {
		idle = fmt.Sprintf("  idle %d/%d", o.Idle, o.Threads)
	}
	return fmt.Sprintf("%s  channels %d  out %d%s  updates %d (%.0f/min)  pages %d (%.0f/min)  refusals %d  peers %d  fresh %.0f%%%s",
		clock(o.Now.Sub(o.Started)), o.Channels, o.Out, idle, o.Updates-before.Updates, o.UpdatesMin, o.Pages-before.Pages, o.PagesMin, o.Refused-before.Refused, o.Peers, 100*o.Freshness, really(o.Truth))
}

// really is what the pond knows of the freshness.
func really(t *desk.Truth) string {
	if t == nil {
		return ""
	}
	return fmt.Sprintf(" (in truth %.0f%%)", 100*t.Channels)
}

func clock(d time.Duration) string {
	s := int(d.Seconds())
	return fmt.Sprintf("%02d:%02d:%02d", s/3600, s/60%60, s%60)
}

// isTerminal reports whether w is one: a character device, and not the null device.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	st, err := f.Stat()
	if err != nil || st.Mode()&os.ModeCharDevice == 0 {
		return false
	}
	null, err := os.Stat(os.DevNull)
	return err != nil || !os.SameFile(st, null)
}

// summary is what `up --json` prints as the last line of standard output.
type summary struct {
	Peers               int              `json:"peers"`
	Channels            int              `json:"channels"`
	TasksSubmitted      int64            `json:"tasks_submitted"`
	TasksAccepted       int64            `json:"tasks_accepted"`
	TasksRefused        int64            `json:"tasks_refused"`
	TasksLapsed         int64            `json:"tasks_lapsed"`
	TasksOut            int              `json:"tasks_out"`
	AuditsAccepted      int64            `json:"audits_accepted"` // looks at stored pages; they are not among the tasks
	Updates             int64            `json:"updates"`
	PagesFetched        int64            `json:"pages_fetched"`
	PagesArchived       int64            `json:"pages_archived"`
	PagesUnchanged      int64            `json:"pages_unchanged"`
	BytesDown           int64            `json:"bytes_down"`
	WARCFiles           int              `json:"warc_files"`
	Lookups             int64            `json:"lookups"`
	HopsMean            float64          `json:"hops_mean"`
	RTTChosenMS         float64          `json:"rtt_chosen_ms"`
	RTTRandomMS         float64          `json:"rtt_random_ms"`
	RTTNearestMS        *float64         `json:"rtt_nearest_ms,omitempty"` // from the nearest of all peers; in the pond only, where that is known
	Strategy            string           `json:"strategy"`
	IntervalsS          []float64        `json:"intervals_s"`
	Errors              map[string]int64 `json:"errors"`
	FirstPageS          float64          `json:"first_page_s"` // seconds from the start to the first archived page; -1: none
	MaxInFlight         int              `json:"max_in_flight_per_host"`
	Seconds             float64          `json:"seconds"`
	Data                string           `json:"data"`
	*desk.TrueFreshness                  // in the pond only, where it is known
}

// summarise tells what this run has done: counters go on from one run to the next.
func summarise(before, o desk.Overview) summary {
	s := summary{
		Peers: o.Peers, Channels: o.Channels, TasksSubmitted: o.Submitted - before.Submitted, TasksAccepted: o.Accepted - before.Accepted,
		TasksRefused: o.Refused - before.Refused, TasksLapsed: o.Lapsed - before.Lapsed, TasksOut: o.Out, AuditsAccepted: o.Audits - before.Audits, Updates: o.Updates - before.Updates,
		PagesFetched: o.Pages - before.Pages, PagesArchived: o.Archived, PagesUnchanged: o.Unchanged - before.Unchanged, BytesDown: o.BytesDown - before.BytesDown,
		WARCFiles: o.WARCFiles, Lookups: o.Lookups, HopsMean: o.HopsMean, RTTChosenMS: o.RTTChosenMS, RTTRandomMS: o.RTTRandomMS, Strategy: o.Strategy,
		IntervalsS: []float64{}, Errors: map[string]int64{}, FirstPageS: -1, Seconds: o.Now.Sub(o.Started).Seconds(), Data: o.Data,
		TrueFreshness: rounded(o.Truth),
	}
	for kind, n := range o.Errors {
		if n -= before.Errors[kind]; n > 0 {
			s.Errors[kind] = n
		}
	}
	for _, d := range o.Intervals {
		s.IntervalsS = append(s.IntervalsS, d.Duration().Seconds())
	}
	return s
}
