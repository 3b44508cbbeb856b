package main

import (
	"strings"
	"time"

	"shoal/peer/limit"
	"shoal/peer/words"
)

// whys are the keys of the reasons that package limit gives.
var whys = map[string]string{"the day's budget is used up": "why.day", "the month's budget is used up": "why.month", "not at this hour": "why.hour", "turned off": "why.off", limit.PolicyUnread: "why.unread"}

// byDefault names who set what nobody has set.
const byDefault = "the default"

// pausedBy returns why the limits pause the peer, and until when where that is known; its key is empty if they do not.
func pausedBy(f *limit.Force, now time.Time) words.Text {
	if f.Paused == "" {
		return words.Text{}
	}
	why := words.Raw(f.Reason.Why)
	if key := whys[f.Reason.Why]; key != "" {
		why = words.T(key)
	}
	text := words.T("source", why, sourceText(f.Reason.Source))
	if f.Until.IsZero() {
		return text
	}
	return words.T("until", text, words.Moment(f.Until, now))
}

// sourceText returns who set a limit, as package limit names it, for translation.
func sourceText(source string) words.Text {
	if who, span, ok := strings.Cut(source, ", window "); ok {
		return words.T("from.window", sourceText(who), span)
	}
	if at, ok := strings.CutPrefix(source, "policy from "); ok {
		return words.T("from.policy", at)
	}
	if at, ok := strings.CutPrefix(source, "your settings in "); ok {
		return words.T("from.you.in", at)
	}
	if at, ok := strings.CutPrefix(source, "your settings, "); ok {
		return words.T("from.you.at", at)
	}
	switch source {
	case "your settings":
		return words.T("from.you")
	case byDefault:
		return words.T("from.default")
	}
	return words.Raw(source)
}
