package main

import (
	"slices"
	"strings"
	"sync"
	"time"

	"shoal/internal/plain"
	"shoal/peer/limit"
	"shoal/peer/words"
)

// notes hold what a user should know beside the limits: a policy that cannot be read, information that this system
// does not provide.
type notes struct {
	mu sync.Mutex
	m  map[string]note // by what they are about, in English
}

type note struct{ about, says words.Text }

// in words a note.
func (n note) in(lang string) string { return words.T("note", n.about, n.says).In(lang) }

// matter is what a note is about: a key below "note.", with its values.
func matter(key string, args ...any) words.Text { return words.T("note."+key, args...) }

// set sets a note and reports whether it is new. A text without a key removes it.
func (n *notes) set(about, says words.Text) (news bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	key := about.In(words.English)
	was, had := n.m[key]
	if says.Key == "" {
		delete(n.m, key)
		return had
	}
	if had && was.says.In(words.English) == says.In(words.English) {
		return false
	}
	if n.m == nil {
		n.m = map[string]note{}
	}
	n.m[key] = note{about, says}
	return true
}

// clear removes a note and reports whether there was one.
func (n *notes) clear(about words.Text) (had bool) { return n.set(about, words.Text{}) }

// clearBut removes the notes about things of one kind that are not among some.
func (n *notes) clearBut(kind string, those []words.Text) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for key, x := range n.m {
		same := func(t words.Text) bool { return t.In(words.English) == key }
		if x.about.Key == "note."+kind && !slices.ContainsFunc(those, same) {
			delete(n.m, key)
		}
	}
}

// everyNote wants all of them.
func everyNote(note) bool { return true }

// in returns the notes that are wanted, in a language.
func (n *notes) in(lang string, want func(note) bool) (out []string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, x := range n.m {
		if want(x) {
			out = append(out, x.in(lang))
		}
	}
	slices.Sort(out)
	return out
}

// holds reports whether nothing is fetched because of what a note says.
func (n note) holds() bool { return strings.HasPrefix(n.says.Key, "note.held") }

// machine reports whether a note is about what a row of the page's health tells by itself.
func (n note) machine() bool { return n.says.Key == "note.untold" && n.about.Key != "note.room" }

// notesIn returns the notes of a status in a language.
func (p *program) notesIn(lang string, s *status) []string {
	out := p.notes.in(lang, everyNote)
	if s.clock.Key != "" {
		out = append(out, s.clock.In(lang))
	}
	return out
}

// tells notes information that this system does not provide. The peer does not pause because of it.
func (p *program) tells(what string, err error) bool {
	if err == nil {
		p.notes.clear(matter(what))
		return true
	}
	if p.notes.set(matter(what), words.T("note.untold")) {
		p.log.Info("this system does not tell; the peer does not pause because of it", "what", matter(what).In(words.English), "err", err)
	}
	return false
}

// tellLost notes counts that a damaged file has lost. Their budgets began anew, so it stays until they do that by themselves.
func (p *program) tellLost(now time.Time) {
	tell := func(of words.Text, u *limit.Usage) {
		says := words.Text{}
		if at := u.Lost(now); !at.IsZero() {
			_, month := u.Times(now)
			says = words.T("note.lost", words.Moment(at, now), words.Moment(month.Ends, now), u.Aside())
		}
		p.notes.set(of, says)
	}
	tell(matter("used"), p.usage)
	var shares []words.Text
	for _, n := range p.nets.all() {
		of := matter("share", n.short())
		tell(of, n.usage)
		shares = append(shares, of)
	}
	p.notes.clearBut("share", shares) // of networks that were left
}

// saidBy words an error that names what a note is about already. Passwords and keys of its address are hidden.
func saidBy(name, at string, err error) string {
	return strings.TrimPrefix(limit.Hide(plain.Error(err), at), name+": ")
}
