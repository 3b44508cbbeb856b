package trust

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"shoal/channel"
	"shoal/internal/lab/scenario"
	"shoal/manager/trust/compare"
)

// TestScenarios plays the files of testdata: a line that begins with "> " is a step, the lines after it are what follows from it.
func TestScenarios(t *testing.T) { scenario.Play(t, 10, play) }

func play(t *testing.T, script []byte) []byte {
	w := newStage(t, 1)
	return scenario.Steps(script, func(step []string) []string { return w.step(t, step) })
}

// stage is a Machine with the records and the captures that its host would keep. The content of a page is a word.
type stage struct {
	m     *Machine
	rng   *rand.Rand
	now   time.Time
	pages map[channel.ID][]*Page
	host  compare.Host
	word  map[uint64]string // contents by their digest
	audit map[uint64]Case   // open ones, by URL
	cases map[uint64]Case   // before the arbiter
	dated bool
	every time.Duration // between two changes of a page, as is known of it; 0: it never changed
}

func newStage(t testing.TB, seed uint64) *stage {
	cfg := Default()
	cfg.Enforce, cfg.Beside = true, 0
	w := &stage{rng: rand.New(rand.NewPCG(seed, 1)), now: time.Unix(1_800_000_000, 0), pages: map[channel.ID][]*Page{}, word: map[uint64]string{}, audit: map[uint64]Case{}, cases: map[uint64]Case{}}
	m, err := New(cfg, rand.New(rand.NewPCG(seed, 2)))
	if err != nil {
		t.Fatal(err)
	}
	w.m = m
	return w
}

func (w *stage) digest(word string) uint64 {
	d := channel.ContentDigest([]byte(word))
	w.word[d] = word
	return d
}

// content is what is compared of a word: words that begin alike up to a "~" are nearly the same text, a "+" adds a link for profit, a "%" begins a comment that nobody sees.
// "pear#apple" is pear, said to be the text of the page that came as apple.
func content(word string) *compare.Features {
	word, _, _ = strings.Cut(strings.ReplaceAll(word, "%", "#"), "#")
	text, noise, _ := strings.Cut(strings.TrimSuffix(word, "+"), "~")
	f := &compare.Features{Status: 200, Words: 100, Exact: channel.ContentDigest([]byte(text + noise))}
	for i := range 20 {
		x := text
		if i == 0 {
			x += noise
		}
		f.Text = append(f.Text, uint32(channel.ContentDigest([]byte(fmt.Sprint(x, i)))))
	}
	slices.Sort(f.Text)
	if strings.HasSuffix(word, "+") {
		f.Outside = []uint32{7}
	}
	return f
}

func shingle(word string) uint64 {
	word, _, _ = strings.Cut(strings.ReplaceAll(word, "%", "#"), "#")
	text, noise, _ := strings.Cut(strings.TrimSuffix(word, "+"), "~")
	s := channel.ContentDigest([]byte(text))
	if noise != "" {
		s ^= 1 << (noise[0] & 63)
	}
	return s | 1<<63
}

// page n of a channel has this URL.
func url(c channel.ID, n int) uint64 { return uint64(c)*1000 + uint64(n) }

func (w *stage) page(c channel.ID, n int) *Page {
	for len(w.pages[c]) <= n {
		w.pages[c] = append(w.pages[c], &Page{})
	}
	return w.pages[c][n]
}

func (w *stage) step(t *testing.T, f []string) []string {
	t.Helper()
	number := func(s string) int {
		n, err := strconv.Atoi(s)
		if err != nil {
			t.Fatalf("%v: %v", f, err)
		}
		return n
	}
	peer := func(n int) Peer { return Peer(number(f[n])) }
	switch f[0] {
	case "join": // join PEER ACCOUNT PREFIX [vouched]
		w.m.Join(peer(1), Account(number(f[2])), Prefix(number(f[3])))
		if len(f) > 4 {
			w.m.Vouch(peer(1))
		}
		return nil
	case "vouch":
		w.m.Vouch(peer(1))
		return nil
	case "convict":
		w.m.Convict(peer(1))
		return nil
	case "after":
		d, err := time.ParseDuration(f[1])
		if err != nil {
			t.Fatal(err)
		}
		w.now = w.now.Add(d)
		return nil
	case "shadow": // shadow true|false
		c := w.m.Config()
		c.Enforce = f[1] == "false"
		return w.failed(w.m.SetConfig(c))
	case "arbiter": // arbiter on|off
		c := w.m.Config()
		c.Arbiter = f[1] == "on"
		return w.failed(w.m.SetConfig(c))
	case "dated": // the servers say when pages changed: dated PAGE-AGE, or "dated no"
		w.dated = f[1] != "no"
		return nil
	case "changes": // changes EVERY: as is known of pages
		var err error
		if w.every, err = time.ParseDuration(f[1]); err != nil {
			t.Fatal(err)
		}
		return nil
	case "deliver": // deliver PEER CHANNEL WORD...: "=" is "unchanged"; WORD@-1h says when the page changed
		return w.deliver(t, peer(1), channel.ID(number(f[2])), f[3:])
	case "audit": // audit CHECKER CHANNEL PAGE WORD: the checker saw that
		return w.audited(peer(1), channel.ID(number(f[2])), number(f[3]), f[4])
	case "rule": // rule CHANNEL PAGE DELIVERED CHECKED[@AGE] TRUTH[@AGE] [OTHER [OTHER]]; "-" is nothing, TRUTH! still has the validator of the version before
		return w.rule(t, channel.ID(number(f[1])), number(f[2]), f[3:])
	case "withdraw":
		var again []string
		for c, n := range w.each() {
			if w.page(c, n).Withdraw(peer(1)) {
				again = append(again, fmt.Sprintf("crawl channel %d page %d again", c, n))
			}
		}
		return again
	case "uphold":
		return []string{fmt.Sprint(w.m.Uphold(peer(1)))}
	case "pardon":
		acts := w.m.Pardon(peer(1))
		for c, n := range w.each() {
			w.page(c, n).Restore(peer(1))
		}
		return w.say(acts)
	case "may": // may PEER
		return []string{fmt.Sprintf("may take %v, may check %v", w.m.MayTake(peer(1), false), w.m.MayCheck(peer(1)))}
	case "peer":
		i, ok := w.m.Peer(peer(1))
		if !ok {
			return []string{"nobody"}
		}
		return []string{fmt.Sprintf("%v, suspect %v, scores %.3g, %d tasks, %d checks, %d lost", i.Standing, i.Suspect, i.Scores, i.Tasks, i.Checks, i.Lost)}
	case "show": // show CHANNEL
		return w.show(channel.ID(number(f[1])))
	case "restart":
		w.restart(t)
		return nil
	}
	t.Fatalf("unknown step %v", f)
	return nil
}

func (w *stage) failed(err error) []string {
	if err != nil {
		return []string{err.Error()}
	}
	return nil
}

// each goes over all pages in order.
func (w *stage) each() func(func(channel.ID, int) bool) {
	return func(yield func(channel.ID, int) bool) {
		var ids []channel.ID
		for c := range w.pages {
			ids = append(ids, c)
		}
		slices.Sort(ids)
		for _, c := range ids {
			for n := range w.pages[c] {
				if !yield(c, n) {
					return
				}
			}
		}
	}
}

func (w *stage) deliver(t testing.TB, p Peer, c channel.ID, words []string) []string {
	d := &Delivery{Peer: p, Channel: c, Domain: uint64(c) * 7919 << 20, At: w.now}
	for n, word := range words {
		s := Seen{URL: url(c, n), Page: w.page(c, n)}
		word, age, dated := strings.Cut(word, "@")
		if dated {
			old, err := time.ParseDuration(age)
			if err != nil {
				t.Fatal(err)
			}
			s.Modified = w.now.Add(old).Unix()
		}
		if word != "=" {
			s.Digest, s.Shingle = w.digest(word), shingle(word)
			if _, of, less := strings.Cut(word, "#"); less {
				s.Raw, s.Shingle = channel.ContentDigest([]byte(of)), shingle(of)
			}
			if s.Page.Contests(p, s.Digest, s.Shingle, s.Modified) {
				s.Alike = compare.Host{}.Compare(content(w.word[s.Page.Cur.Digest]), content(word)).Verdict == compare.Same
			}
			if s.Page.ReadOtherwise(&s) {
				s.Unlike = compare.OfOneSource.Compare(content(w.word[s.Page.Cur.Digest]), content(word)).Verdict == compare.Conflict
			} else if s.Page.Doubtful(p, s.Digest, s.Shingle) {
				s.Unlike = compare.Unlearnt.Compare(content(w.word[s.Page.Cur.Digest]), content(word)).Verdict == compare.Conflict
			}
		}
		d.Pages = append(d.Pages, s)
	}
	w.m.Handed(p)
	return w.say(w.m.Deliver(w.now, d))
}

func (w *stage) audited(checker Peer, c channel.ID, n int, word string) []string {
	k, ok := w.audit[url(c, n)]
	if !ok {
		return []string{"no such audit"}
	}
	e := w.evidence(k, w.word[w.page(c, n).Cur.Digest], word)
	return w.say(w.m.Answered(w.now, checker, &e))
}

func (w *stage) evidence(k Case, delivered, checked string) Evidence {
	e := Evidence{Case: k, Page: w.page(k.Channel, int(k.URL-uint64(k.Channel)*1000)), Host: &w.host, Delivered: content(delivered), Checked: content(checked), Dated: w.dated}
	if w.every > 0 {
		e.Rate, e.Delay = 1/w.every.Seconds(), w.now.Sub(time.Unix(k.At, 0))
	}
	return e
}

func (w *stage) rule(t testing.TB, c channel.ID, n int, words []string) []string {
	k, ok := w.cases[url(c, n)]
	if !ok {
		return []string{"no such case"}
	}
	truth, unmoved := strings.CutSuffix(words[2], "!")
	modified := func(word string) (string, int64) {
		word, age, dated := strings.Cut(word, "@")
		if !dated {
			return word, 0
		}
		old, err := time.ParseDuration(age)
		if err != nil {
			t.Fatal(err)
		}
		return word, w.now.Add(old).Unix()
	}
	truth, changed := modified(truth)
	checked, said := modified(words[1])
	r := Ruling{Evidence: w.evidence(k, words[0], checked), Modified: changed, Unmoved: unmoved}
	r.Said = said
	if truth != "-" {
		r.Arbiter = content(truth)
	}
	for i, word := range words[3:] {
		r.Others[i] = content(word)
	}
	return w.say(w.m.Ruled(w.now, &r))
}

// say does what the Machine wants of the records, and writes it down.
func (w *stage) say(acts []Act) (lines []string) {
	for _, a := range acts {
		n := int(a.URL - uint64(a.Channel)*1000)
		switch a.Kind {
		case Audit:
			w.audit[a.URL] = a.Case
			lines = append(lines, fmt.Sprintf("audit page %d of channel %d, by peer %d", n, a.Channel, a.Peer))
		case Arbitrate:
			w.cases[a.URL] = a.Case
			lines = append(lines, fmt.Sprintf("arbitrate page %d of channel %d: %v, peer %d against %d", n, a.Channel, a.Reason, a.Case.Accused, a.Case.Accuser))
		case Hold, Accept:
			count := 0
			for _, p := range w.pages[a.Channel] {
				if a.Kind == Hold && p.Hold(a.Peer, a.At) || a.Kind == Accept && p.Accept(a.Peer, a.At) {
					count++
				}
			}
			lines = append(lines, fmt.Sprintf("%v: %d pages of channel %d, by peer %d", a.Kind, count, a.Channel, a.Peer))
		case Charge:
			lines = append(lines, fmt.Sprintf("charge peer %d with %.2f: %v, now %.2f", a.Peer, a.Amount, a.Reason, a.Score))
		case Watch:
			lines = append(lines, fmt.Sprintf("watch channel %d", a.Channel))
		case LookBack:
			lines = append(lines, fmt.Sprintf("look back at %d pages of peer %d", a.N, a.Peer))
		case Suspect, Suspend, WouldSuspend:
			lines = append(lines, fmt.Sprintf("%v peer %d at %.2f", a.Kind, a.Peer, a.Score))
		default:
			lines = append(lines, fmt.Sprintf("%v peer %d", a.Kind, a.Peer))
		}
	}
	return lines
}

func (w *stage) show(c channel.ID) (lines []string) {
	for n, p := range w.pages[c] {
		v := p.Shown()
		if v == nil {
			lines = append(lines, fmt.Sprintf("page %d: nothing; last %v", n, p.Cur.State))
			continue
		}
		line := fmt.Sprintf("page %d: %s, by %d, seen by %d more, %v", n, w.word[v.Digest], v.By, v.Seen(), v.State)
		if v != &p.Cur {
			line += fmt.Sprintf("; behind %s, by %d, %v", w.word[p.Cur.Digest], p.Cur.By, p.Cur.State)
		}
		if p.IsDynamic() {
			line += "; dynamic"
		}
		lines = append(lines, line)
	}
	if w.m.Watched(w.now, c) {
		lines = append(lines, "on watch")
	}
	if w.m.Viewed(c) {
		var fit []Peer
		for n := range w.m.peers {
			if w.m.Sees(w.now, n, c) {
				fit = append(fit, n)
			}
		}
		slices.Sort(fit)
		lines = append(lines, fmt.Sprintf("%d crawls by others: %v", w.m.sites[c].views(), fit))
	}
	return lines
}

// restart gives a new Machine what the old one would have stored.
func (w *stage) restart(t testing.TB) {
	m, err := New(w.m.Config(), rand.New(rand.NewPCG(3, 4)))
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range AllShards() {
		if err := m.Restore(s, w.m.Append(nil, s)); err != nil {
			t.Fatal(err)
		}
	}
	w.m = m
}

// TestActsAreTheCallers has a peer deliver twice: what was to be done after the first task still says so after the second. A program does some of it beside its
// loop, while the Machine goes on.
func TestActsAreTheCallers(t *testing.T) {
	w := newStage(t, 1)
	w.m.Join(1, 1, 1)
	deliver := func(id channel.ID) []Act {
		d := &Delivery{Peer: 1, Channel: id, Domain: uint64(id), At: w.now}
		for n := range uint64(20) {
			d.Pages = append(d.Pages, Seen{URL: n + 1, Page: &Page{}, Digest: n + 1, Shingle: n + 1})
		}
		return w.m.Deliver(w.now, d)
	}
	first := deliver(7)
	was := slices.Clone(first)
	second := deliver(8)
	if len(was) == 0 || len(second) == 0 {
		t.Fatalf("a newcomer's tasks have %d and %d acts", len(was), len(second))
	}
	if !slices.Equal(first, was) {
		t.Errorf("the acts of the first task are %+v after the second, and were %+v", first, was)
	}
}
