package main

import (
	"net/url"
	"strings"
	"time"

	"shoal/internal/plain"
	"shoal/peer/queue"
	"shoal/peer/words"
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
	stateWebless   = "webless" // the company is reached, and no Web site
	stateWorking   = "working"
	stateIdle      = "idle"
	stateUnjoined  = "unjoined" // it belongs to no network yet
	stateStarting  = "starting" // it is about to start, or comes back with other settings
)

// sentence says what the peer does, and why it does no more, in words for a person who knows nothing of networks.
func sentence(st *status, now time.Time) (state, says string) {
	state, text := told(st, now, "")
	return state, text.In(words.English)
}

// onPage marks the keys of sentences that name a button of the page where the command line's name a command.
const onPage = ".page"

// told returns the sentence for translation. where is onPage or empty.
func told(st *status, now time.Time, where string) (state string, says words.Text) {
	if len(st.Networks) > 1 {
		return toldEach(st.Networks, now, where)
	}
	name := companyText(st)
	trouble, why := connection(st, name, now, where)
	also := func(t words.Text) words.Text {
		if why.Key == "" {
			return t
		}
		return words.T("say.also", t, why)
	}
	switch {
	case st.Hold != "":
		held := st.held
		if held.Key == "" {
			held = words.Raw(st.Hold)
		}
		return statePaused, also(words.T("say.held", held))
	case st.Mode == queue.Paused.String() && st.Until.IsZero():
		return statePaused, also(words.T("say.paused" + where))
	case st.Mode == queue.Paused.String():
		return statePaused, also(words.T("say.paused.until"+where, words.Moment(st.Until, now)))
	case st.Mode == queue.Finish.String() && st.Rests:
		return stateFinishing, also(words.T("say.updating", running(st)))
	case st.Mode == queue.Finish.String():
		return stateFinishing, also(words.T("say.finishing"+where, running(st)))
	case st.Mode == queue.Drain.String():
		return stateDraining, also(words.T("say.draining" + where))
	case trouble != "":
		return trouble, why
	case st.web.Key != "":
		return stateWebless, st.web
	case len(st.Running)+len(st.Waiting) > 0:
		return stateWorking, words.T("say.working", name, running(st))
	case st.noPond:
		return stateWebless, words.T("say.web.pond", name)
	}
	return stateIdle, words.T("say.idle", name)
}

// connection says what is wrong with the way to the company's server, if anything is.
func connection(st *status, name words.Text, now time.Time, where string) (state string, says words.Text) {
	h := st.Home
	switch {
	case h.At != "" && h.Silent.IsZero():
		return "", words.Text{}
	case st.unplugged && !h.Silent.IsZero():
		return stateAway, words.T("say.unplugged", words.Moment(h.Silent, now))
	case st.unplugged:
		return stateAway, words.T("say.unplugged", words.Moment(h.Since, now))
	case h.At != "":
		return stateSilent, words.T("say.silent", name, words.Moment(h.Silent, now), words.Ago(now, h.Silent))
	case h.Tries == 0 && st.Since.Add(time.Minute).After(h.Since):
		return stateLooking, words.T("say.looking", name)
	case h.Tries == 0:
		return stateLooking, words.T("say.lost", name, words.Ago(now, h.Since))
	case h.Outcast:
		return stateRefused, words.T("say.outcast"+where, name, words.Moment(h.Since, now), words.Until(now, h.Next))
	case h.Refused:
		return stateRefused, words.T("say.refused", name, words.Moment(h.Since, now), strings.TrimSuffix(brief(h.Why), "."), words.Until(now, h.Next))
	}
	key := "say.away"
	if st.Reach.Direct+st.Reach.Relayed == 0 {
		key = "say.away.offline"
	}
	return stateAway, words.T(key, name, words.Moment(h.Since, now), words.Until(now, h.Next))
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
func company(st *status) string { return companyText(st).In(words.English) }

func companyText(st *status) words.Text {
	if st.Name != "" {
		return words.Raw(plain.Printable(st.Name))
	}
	if u, err := url.Parse(st.Contact); err == nil && u.Host != "" {
		return words.Raw(u.Host)
	}
	if _, domain, ok := strings.Cut(st.Contact, "@"); ok && domain != "" {
		return words.Raw(plain.Printable(domain))
	}
	if st.Contact != "" {
		return words.Raw(plain.Printable(st.Contact))
	}
	if st.Network == "" {
		return words.T("network.unnamed")
	}
	return words.T("network.of", st.Network[:min(len(st.Network), 12)])
}

// running counts tasks.
func running(st *status) words.Text {
	n, away := len(st.Running), 0
	for _, t := range st.Running {
		if t.Away {
			away++
		}
	}
	s := words.T("run.some", words.Count(n, "count.site"))
	if n == 0 {
		s = words.T("run.none")
	}
	if away > 0 {
		key := "run.away"
		if away == 1 {
			key = "run.away.one"
		}
		s = words.T(key, s, away)
	}
	if w := len(st.Waiting); w > 0 {
		s = words.T("run.waiting", s, w)
	}
	return s
}
