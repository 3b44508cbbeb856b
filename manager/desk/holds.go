package desk

import (
	"fmt"

	"shoal/internal/plain"
	"shoal/manager"
)

// busyPart is the part of the threads that may be idle while they all count as busy: some are always between two tasks.
const busyPart = 20

// holdsBack says in a sentence what keeps the network from doing more: why threads are idle, or that there are too few. The word names its kind, so that who
// tells it over and over sees when it is another; numbers differ from one moment to the next. Both are empty where nothing at all can be crawled, of which
// standstill or a notice tells.
func holdsBack(o *manager.Overview) (kind, sentence string) {
	h := &o.Holds
	waiting := h.Stale - h.Under
	if o.Channels == 0 || o.Threads == 0 || len(o.Blocking) > 0 && waiting <= h.Halted {
		return "", ""
	}
	if o.Idle*busyPart <= o.Threads {
		if waiting <= 0 {
			return "matched", fmt.Sprintf("All %d threads work, and no channel waits that is missing or probably stale.", o.Threads)
		}
		return "capacity", fmt.Sprintf("All %d threads work, and %s for one: more peers would keep more of them fresh.", o.Threads, wait(waiting))
	}
	idle := fmt.Sprintf("%d of %d threads are idle: ", o.Idle, o.Threads)
	if h.Stale == 0 {
		return "fresh", idle + "no channel is missing, or more probably stale than fresh" + early(h) + "."
	}
	if waiting <= 0 {
		return "under way", idle + plain.Count(h.Stale, "channel") + " missing or probably stale, and all of these are being crawled."
	}
	n, kind, why := mostHeld(h)
	of := fmt.Sprintf("of %s missing or probably stale and not being crawled, ", plain.Count(waiting, "channel"))
	return kind, idle + of + fmt.Sprintf("%d %s.", n, why)
}

// mostHeld is what holds most channels back.
func mostHeld(h *manager.Holds) (n int, kind, why string) {
	for _, x := range []struct {
		n         int
		kind, why string
	}{
		{h.Soon, "interval", fmt.Sprintf("wait for the minimum interval between two crawls, %s (shoal strategy set --min-interval)", plain.Span(h.MinInterval))},
		{h.Capped, "cap", fmt.Sprintf("are crawled as often as the cap allows, %g times for each change (shoal strategy set --cap)", h.Cap)},
		{h.Polite, "politeness", "wait for their hosts, which are being visited or left alone between two visits"},
		{h.Denied, "refusals", "were refused by the peers near their hosts, and are offered again in a while"},
		{h.Failed, "failures", "failed, and are tried again in a while (shoal channel list --state failing)"},
		{h.Lost, "nothing came", "had a task of which nothing came, and are handed out again in a while (What happened, on the channel's page)"},
		{h.Block, "blocks", "are on blocked hosts (shoal host list --blocked)"},
		{h.Strict, "strategy", "wait for the intervals to which this strategy keeps, whatever is stale"},
		{h.Ending, "end", "would not end before this run does, which has a time (--for), so that they are not begun"},
		{h.Free, "placing", "wait for a free thread near their hosts"},
		{h.Halted, "notice", "are with a manager that hands nothing out now, as its notice says"},
	} {
		if x.n > n {
			n, kind, why = x.n, x.kind, x.why
		}
	}
	return n, kind, why
}

// early says how many channels the limits keep from being crawled as soon as they might have changed.
func early(h *manager.Holds) string {
	if h.Early == 0 {
		return ""
	}
	limits := "the minimum interval between two crawls, " + plain.Span(h.MinInterval)
	if h.Cap > 0 {
		limits += fmt.Sprintf(", or the cap of %g crawls for each change", h.Cap)
	}
	return fmt.Sprintf("; %s for %s", wait(h.Early), limits)
}

// wait is so many channels with their verb.
func wait(n int) string {
	if n == 1 {
		return "1 channel waits"
	}
	return plain.Count(n, "channel") + " wait"
}

// ofAll makes how many channels a manager has, how many of them are due and how many tasks are out what all managers have together.
func ofAll(d *Desk, o *manager.Overview) {
	if d.cfg.Managers == nil {
		return
	}
	all, _ := d.cfg.Managers()
	for i := range all {
		if f := &all[i].Figures; !all[i].Here {
			o.Channels, o.Out, o.Due = o.Channels+f.Channels, o.Out+f.Out, o.Due+f.Due
		}
	}
}

// allChannels is how many channels a running manager has, together with the others that share the network.
func allChannels(d *Desk) int {
	o := d.m.Overview()
	ofAll(d, &o)
	return o.Channels
}
