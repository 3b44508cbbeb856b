package desk

import (
	"context"
	"fmt"
	"slices"
	"time"

	"shoal/internal/plain"
)

// Finding is one thing that was checked.
type Finding struct {
	Level string `json:"level"` // ok, warning or error
	What  string `json:"what"`
	Mend  string `json:"mend,omitempty"` // what to do
}

// The levels of a Finding.
const (
	OK      = "ok"
	Warning = "warning"
	Error   = "error"
)

const lagWarn = 10 * time.Minute // text extraction behind that much

// Check tells what is wrong, and how to mend it.
func (d *Desk) Check(ctx context.Context) []Finding {
	var out []Finding
	if d.cfg.Checks != nil {
		out = d.cfg.Checks(ctx)
	}
	if d.m != nil {
		out = append(out, d.checkManager(ctx)...)
	}
	return out
}

// checkManager tells what is wrong with what the manager does.
func (d *Desk) checkManager(ctx context.Context) (out []Finding) {
	o := d.m.Overview()
	for _, n := range o.Notices {
		level := Warning
		if slices.Contains(o.Blocking, n) {
			level = Error
		}
		out = append(out, Finding{level, n, ""})
	}
	if err := d.m.Alive(ctx); err != nil {
		out = append(out, Finding{Error, "The manager's loop does not answer.", "Look into its log; restart it if this lasts."})
	}
	switch {
	case o.Channels == 0:
		out = append(out, Finding{Warning, "There are no channels.", "Add some: shoal channel add https://example.org/"})
	case o.Peers == 0:
		out = append(out, Finding{Warning, "No peer has joined: nothing is crawled.", "Give volunteers the join string: shoal peer invite"})
	default:
		out = append(out, Finding{OK, fmt.Sprintf("%s, %s, %s out", plain.Count(o.Channels, "channel"), plain.Count(o.Peers, "peer"), plain.Count(o.Out, "task")), ""})
	}
	switch a := &o.Archive; {
	case a.Failures > 0:
		out = append(out, Finding{Error, fmt.Sprintf("The archive failed to write %d times since its start.", a.Failures), "Look at the disk and into the log; then shoal archive verify."})
	case a.TextDelay > lagWarn:
		out = append(out, Finding{Warning, fmt.Sprintf("Text extraction is %s behind (%d pages).", plain.Span(a.TextDelay), a.TextLag), "It catches up by itself when less is crawled; a faster processor helps."})
	default:
		out = append(out, Finding{OK, fmt.Sprintf("archive: %d pages in %d WARC files, %d pages wait for their text", a.Pages, a.Files, a.TextLag), ""})
	}
	return out
}
