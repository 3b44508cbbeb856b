package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"shoal/internal/member"
)

// issued are the dates of network documents that this manager has signed.
type issued struct {
	last   time.Time // of the one that is in force
	ahead  time.Time // the latest of all: it is later than last once a clock that was ahead is set right
	failed bool      // the newest one is not in force, and is to be signed again
}

// next is the date of a document that is signed now. Members take a document only if it is newer than the one that they hold, and dates have milliseconds: so it follows
// all that members may hold, of this manager or, held, of another one. A date that is later than the network's time by member.Skew is of a clock that was ahead. Members
// whose clocks are right take no such document, and would not take one that follows it either.
func (i *issued) next(now, network, held time.Time) time.Time {
	next := now
	for _, t := range []time.Time{i.last, i.ahead, held} {
		if t.After(next) && t.Before(network.Add(member.Skew)) {
			next = t
		}
	}
	return next.Truncate(time.Millisecond).Add(time.Millisecond)
}

// signed notes what became of a document.
func (i *issued) signed(at time.Time, err error) {
	if at.After(i.ahead) {
		i.ahead = at
	}
	if i.failed = err != nil; !i.failed {
		i.last = at
	}
}

// due tells whether a document is to be signed before the one that is in force gets old: the newest one failed, or one that a clock which was ahead has signed counts from
// now on. Members take that one, from whoever passes it on, in place of what was signed after it. held is the document that the manager holds; it is later than now where
// somebody has passed such a one to a manager that has started anew since.
func (i *issued) due(now, held time.Time) bool {
	overtaken := func(t time.Time) bool { return t.After(i.last) && t.Before(now.Add(member.Skew)) }
	return i.failed || overtaken(i.ahead) || held.After(now) && overtaken(held)
}

// issuedName is a file of the data folder: the latest date of a network document that was signed there. A clock may have been ahead before a restart.
const issuedName = "document.latest"

// recallIssued reads it. Without it the manager starts all the same.
func recallIssued(st *station) {
	b, err := os.ReadFile(filepath.Join(st.cfg.data, issuedName))
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	if err == nil {
		st.issued.ahead, err = time.Parse(time.RFC3339Nano, strings.TrimSpace(string(b)))
	}
	if err != nil {
		st.cfg.log.Warn("the date of the latest network document cannot be read", "err", err)
	}
}

// keepIssued writes it, before a document of that date is signed. The caller holds publishing.
func keepIssued(st *station, at time.Time) {
	if !at.After(st.issued.ahead) {
		return
	}
	if err := member.WriteFile(filepath.Join(st.cfg.data, issuedName), fmt.Appendln(nil, at.UTC().Format(time.RFC3339Nano))); err != nil { // bans are told all the same
		st.cfg.log.Warn("the date of the network document is not kept", "err", err)
	}
}
