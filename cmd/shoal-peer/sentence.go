package main

import (
	"cmp"
	"fmt"
	"net/url"
	"strings"
	"time"

	"shoal/internal/plain"
	"shoal/peer/queue"
)

// The states of a peer, the most urgent first. Each has a sentence.
const (
	statePaused    = "paused"
	stateFinishing = "finishing"
	stateDraining  = "draining"
	stateAway      = "away"    // the company's server cannot be reached
	stateRefused   = "refused" // it answers, and does not let this computer in
	stateSilent    = "silent"  // it is connected, and answers nothing
	stateLooking   = "looking" // it has not been reached yet, or was lost a moment ago
	stateWorking   = "working"
	stateIdle      = "idle"
)

// sentence says what the peer does, and why it does no more, in words for a person who knows nothing of networks.
func sentence(st *status, now time.Time) (state, says string) {
	name := company(st)
	trouble, why := connection(st, name, now)
	also := ""
	if why != "" {
		also = " " + why
	}
	switch {
	case st.Hold != "":
		return statePaused, "Paused: " + st.Hold + "." + also
	case st.Mode == queue.Paused.String() && st.Until.IsZero():
		return statePaused, "Paused because you said so, until: shoal-peer resume." + also
	case st.Mode == queue.Paused.String():
		return statePaused, "Paused because you said so, until " + moment(st.Until, now) + "; shoal-peer resume ends it early." + also
	case st.Mode == queue.Finish.String():
		return stateFinishing, fmt.Sprintf("Finishing, because you said so: %s, and nothing new is taken until shoal-peer resume.%s", running(st), also)
	case st.Mode == queue.Drain.String():
		return stateDraining, "Idle, because you had everything given back; shoal-peer resume ends that." + also
	case trouble != "":
		return trouble, why
	case len(st.Running)+len(st.Waiting) > 0:
		return stateWorking, "Working for " + name + ": " + running(st) + "."
	}
	return stateIdle, "Idle, since there is nothing near you to fetch for " + name + " now."
}

// connection says what is wrong with the way to the company's server, if anything is.
func connection(st *status, name string, now time.Time) (state, says string) {
	h := st.Home
	switch {
	case h.At != "" && h.Silent.IsZero():
		return "", ""
	case h.At != "":
		return stateSilent, fmt.Sprintf("%s has not answered since %s (%s), though the connection stands: the company's server hangs, or the network on the way does. "+
			"This peer keeps what it fetched, and connects again by itself.", name, moment(h.Silent, now), plain.Ago(now, h.Silent))
	case h.Tries == 0 && st.Since.Add(time.Minute).After(h.Since):
		return stateLooking, "Looking for " + name + "."
	case h.Tries == 0:
		return stateLooking, "The connection to " + name + " was lost " + plain.Ago(now, h.Since) + "; it is made again."
	case h.Refused:
		return stateRefused, fmt.Sprintf("%s does not let this computer in since %s: %s. It asks again %s.", name, moment(h.Since, now), strings.TrimSuffix(brief(h.Why), "."), plain.In(now, h.Next))
	}
	says = fmt.Sprintf("Cannot reach %s since %s; tries again %s, and keeps what it fetched until then.", name, moment(h.Since, now), plain.In(now, h.Next))
	if st.Reach.Direct+st.Reach.Relayed == 0 {
		says += " No other member answers either: is this computer connected to the Internet?"
	} else {
		says += " Other members answer, so the trouble is probably on the company's side."
	}
	return stateAway, says
}

// brief shortens the text of an error to what a person reads.
func brief(why string) string {
	text := plain.Printable(strings.Join(strings.Fields(why), " "))
	if len(text) > 300 {
		text = text[:300] + "..."
	}
	return text
}

// company is what the volunteer calls whom the peer works for.
func company(st *status) string {
	if st.Name != "" {
		return plain.Printable(st.Name)
	}
	if u, err := url.Parse(st.Contact); err == nil && u.Host != "" {
		return u.Host
	}
	if st.Contact != "" {
		return plain.Printable(st.Contact)
	}
	return "network " + cmp.Or(st.Network[:min(len(st.Network), 12)], "of no name")
}

// running counts tasks.
func running(st *status) string {
	n, away := len(st.Running), 0
	for _, t := range st.Running {
		if t.Away {
			away++
		}
	}
	s := plain.Count(n, "site") + " being fetched"
	if n == 0 {
		s = "no site being fetched"
	}
	if away > 0 {
		s += fmt.Sprintf(" (%d of them wait for the archive, which does not answer)", away)
	}
	if w := len(st.Waiting); w > 0 {
		s += fmt.Sprintf(", %d waiting", w)
	}
	return s
}

// moment words a time for a person: the hour, and the day if it is not today.
func moment(t, now time.Time) string {
	t, now = t.Local(), now.Local()
	if t.Format(time.DateOnly) == now.Format(time.DateOnly) {
		return t.Format("15:04")
	}
	if t.Year() == now.Year() {
		return t.Format("2 January 15:04")
	}
	return t.Format("2 January 2006 15:04")
}
