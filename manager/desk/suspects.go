package desk

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"shoal/internal/plain"
	"shoal/manager/archive"
	"shoal/manager/conduct"
	"shoal/manager/trust"
)

// Suspect is a member, or several peers of one account, that an operator should look at.
type Suspect struct {
	conduct.Member
	Says string `json:"says"` // what it did, in words
	Mend string `json:"mend"` // what to do
}

// Suspects are the members that an operator should look at, the worst first, and how many more there are. Banned ones are left out: they do nothing any more.
func (d *Desk) Suspects() (out []Suspect, more int, err error) {
	if err := d.Live(); err != nil {
		return nil, 0, err
	}
	banned := bannedBy(d.cfg.Members)
	o := d.m.Overview()
	out = []Suspect{}
	for _, m := range o.Suspects {
		if m.Peer != "" && slices.Contains(banned, m.Peer) || m.Account != "" && slices.Contains(banned, m.Account) {
			continue
		}
		out = append(out, Suspect{m, saysOf(&m, d.cfg.Now()), mendOf(&m)})
	}
	return out, o.AllSuspects - len(o.Suspects), nil
}

// checkTrust tells of an arbiter that sees nothing, of peers that are suspended for what they delivered, and which of them object.
func checkTrust(ctx context.Context, d *Desk) (out []Finding) {
	t := d.m.Overview().Trust
	for _, what := range blindSays(t.Blind) {
		out = append(out, Finding{Level: Warning, What: what, Mend: blindMend})
	}
	for _, what := range undoneSays(t.Undone) {
		out = append(out, Finding{Level: Warning, What: what, Mend: undoneMend})
	}
	n := t.Standings[trust.Suspended]
	if n == 0 {
		return out
	}
	f := Finding{Level: Warning, What: plain.Count(n, "peer") + " suspended for what they delivered; you are to decide.", Waits: true,
		Mend: "shoal trust show --peers names them; then shoal peer evidence PEER, and shoal peer uphold or pardon."}
	switch names, err := d.objectors(ctx); {
	case err != nil:
		f.What += " Whether they object cannot be told: " + plain.Error(err) + "."
	case len(names) > 0:
		verb := "object"
		if len(names) == 1 {
			verb = "objects"
		}
		f.What += fmt.Sprintf(" Of these, %d %s: %s", len(names), verb, strings.Join(names[:min(len(names), othersNamed)], ", "))
		if more := len(names) - othersNamed; more > 0 {
			f.What += fmt.Sprintf(" and %d more", more)
		}
		f.What += "."
	}
	return append(out, f)
}

// objections keeps which of the suspended peers object. Who asks for the pages again and again shall not have all cases read each time.
type objections struct {
	mu    sync.Mutex // guards all below
	names []string
	next  time.Time
}

const objectorsFor = 20 * time.Second // for which they are told before the cases are read again

// objectors are the numbers of the suspended peers that object to a case.
func (d *Desk) objectors(ctx context.Context) ([]string, error) {
	o := &d.objections
	o.mu.Lock()
	defer o.mu.Unlock()
	now := time.Now()
	if now.Before(o.next) {
		return o.names, nil
	}
	said, err := d.m.Objectors(ctx)
	if err != nil {
		return nil, err
	}
	var names []string
	if len(said) > 0 {
		all, err := d.m.TrustPeers(ctx)
		if err != nil {
			return nil, err
		}
		for i := range all {
			if p := &all[i]; p.Standing == trust.Suspended && said[p.Peer] > 0 {
				names = append(names, archive.DelivererName(uint64(p.Peer)))
			}
		}
	}
	o.names, o.next = names, now.Add(objectorsFor)
	return names, nil
}

// suspectLines is how many suspects a check names one by one.
const suspectLines = 10

// checkMembers tells of members that an operator should look at.
func checkMembers(d *Desk) (out []Finding) {
	all, more, err := d.Suspects()
	if err != nil {
		return []Finding{{Level: Warning, What: "What members did cannot be told: " + plain.Error(err)}}
	}
	for _, s := range all[:min(len(all), suspectLines)] {
		out = append(out, Finding{Level: Warning, What: whoOf(&s.Member) + " " + s.Says, Mend: s.Mend})
	}
	if more += len(all) - len(out); more > 0 {
		out = append(out, Finding{Level: Warning, What: fmt.Sprintf("And %s like these.", plain.Count(more, "more member")), Mend: "shoal peer conduct lists them; --join-work and --closed of shoal manager make new identities expensive."})
	}
	return out
}

// whoOf names a suspect.
func whoOf(m *conduct.Member) string {
	switch {
	case m.Peer == "":
		return fmt.Sprintf("%s of account %s", plain.Count(m.Peers, "peer"), m.Account)
	case m.Account != "" && m.Account != m.Peer:
		return fmt.Sprintf("Peer %s of account %s", m.Peer, m.Account)
	}
	return "Peer " + m.Peer
}

// deedWords say what a misdeed is; %s is how often.
var deedWords = []struct {
	deed         conduct.Deed
	one, several string
}{
	{conduct.Forged, "delivered a version of a page that two other accounts contradict", "delivered %d versions of pages that two other accounts contradict"},
	{conduct.Gone, "said of a page that it is gone, which two other accounts saw", "said of %d pages that they are gone, which two other accounts saw"},
	{conduct.Budget, "sent a chunk with more pages than its task allows", "sent %d chunks with more pages than their tasks allow"},
	{conduct.Pace, "sent pages faster than its task allows", "sent pages faster than its tasks allow, %d times"},
	{conduct.Unreadable, "sent a chunk that cannot be read", "sent %d chunks that cannot be read"},
	{conduct.Foreign, "sent a page outside its task's scope", "sent %d pages outside its tasks' scopes"},
	{conduct.Spelling, "sent a URL that is not canonical", "sent %d URLs that are not canonical"},
	{conduct.Digests, "sent a digest that is not its page's", "sent %d digests that are not their pages'"},
	{conduct.Statuses, "told a change that does not fit the page's status", "told %d changes that do not fit the pages' statuses"},
	{conduct.Numbers, "told a count that is not that of what it sent", "told %d counts that are not those of what it sent"},
	{conduct.Unclaimed, "accepted a task and never claimed it", "accepted %d tasks and never claimed them"},
	{conduct.Lapsed, "claimed a task and brought nothing of it in its lease", "claimed %d tasks and brought nothing of them in their leases"},
	{conduct.Empty, "claimed a task and gave it back without a page", "claimed %d tasks and gave them back without a page"},
}

// saysOf says what a suspect did.
func saysOf(m *conduct.Member, now time.Time) string {
	var parts []string
	for _, w := range deedWords {
		switch n := m.Counts[w.deed]; {
		case n == 1:
			parts = append(parts, w.one)
		case n > 1:
			parts = append(parts, fmt.Sprintf(w.several, n))
		}
	}
	text := strings.Join(parts, "; ")
	if len(parts) > 0 {
		text += fmt.Sprintf("; since %s, with %s and %s delivered", plain.Ago(now, m.Since), plain.Count(m.Counts[conduct.Delivered], "task"), plain.Count(m.Counts[conduct.Pages], "page"))
	}
	if slices.Contains(m.Faults, conduct.Attracts) {
		full := "has had as many tasks as one member may have since " + plain.Ago(now, m.Full)
		if text == "" {
			return full + "."
		}
		text = full + "; " + text
	}
	return text + "."
}

// mendOf says what to do about a suspect.
func mendOf(m *conduct.Member) string {
	name := m.Name()
	switch m.Faults[0] {
	case conduct.Attracts:
		return fmt.Sprintf("It may be near to most hosts, or say so. If it does not deliver well: shoal peer ban %s", name)
	case conduct.Swallows, conduct.Stalls:
		return fmt.Sprintf("It gets fewer and fewer tasks by itself. To end it: shoal peer ban %s", name)
	}
	return fmt.Sprintf("shoal peer ban %s, then shoal peer purge %s takes back what it delivered.", name, name)
}
