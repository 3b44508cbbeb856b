package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/term"

	"shoal/internal/plain"
	"shoal/peer"
	"shoal/peer/control"
	"shoal/peer/words"
)

type joinCmd struct {
	JoinString string `arg:"" name:"join-string" help:"The join string from the search company."`
	Yes        bool   `short:"y" help:"Join with the proposed limits without a question: for scripts."`
	NoLimits   bool   `name:"no-limits" help:"Propose no limits of rate and volume."`
	JSON       bool   `name:"json" help:"Print one JSON object; needs --yes."`
	joinFlags
	then string // what to do next
}

// joinFlags are the settings that joining uses.
type joinFlags struct {
	Data      *string `help:"${set_data}" type:"path" placeholder:"DIR"`
	Account   *string `help:"${set_account}" placeholder:"NAME"`
	QUIC      *bool   `name:"quic" help:"${set_quic}" negatable:""`
	DSCP      *bool   `name:"dscp-le" help:"${set_dscp_le}" negatable:""`
	PolicyURL *string `name:"policy-url" help:"${set_policy_url}" placeholder:"URL"`
}

// proposal is a limit that joining proposes to a volunteer who has set none.
type proposal struct {
	Key   string `json:"setting"`
	Value int    `json:"value"`
	what  string
}

// proposed leaves most of a common home's line free: a tenth of 40 Mbit/s down, a tenth of 8 Mbit/s up, and 30 GB a month.
var proposed = []proposal{
	{"down_kib_per_s", 500, "download, KiB a second"},
	{"up_kib_per_s", 100, "upload, KiB a second"},
	{"day_mib", 2000, "received and sent in a day, MiB"},
	{"month_mib", 30000, "received and sent in a month, MiB"},
}

// proposals are those of proposed of which the volunteer has set nothing.
func proposals(set *settings) (out []proposal) {
	own := set.fields()
	for _, p := range proposed {
		if own[p.Key].Int() == 0 && set.from[p.Key] == "" {
			out = append(out, p)
		}
	}
	return out
}

// isProposed reports whether a limit is what joining proposes.
func isProposed(key string, value int) bool {
	return value != 0 && value == proposedFor(key)
}

// proposedFor is what joining proposes for a setting; 0: nothing.
func proposedFor(key string) int {
	for _, p := range proposed {
		if p.Key == key {
			return p.Value
		}
	}
	return 0
}

// joinSaid is what join --json prints.
type joinSaid struct {
	peer.Joined
	Network string     `json:"network"`
	Wrote   []proposal `json:"limits_set,omitempty"`
	File    string     `json:"settings,omitempty"` // where they were written
}

var errNotAsked = errors.New("joining asks for your consent, and there is no terminal to ask at: add --yes to join with the proposed limits, or --yes --no-limits to join without")

func (c *joinCmd) Run(ctx context.Context, s streams, top *cli) error {
	c.then = top.thenRun()
	set, err := load(top.Config, s.env, given(&c.joinFlags))
	if err != nil {
		return err
	}
	if c.JoinString == "" {
		return errors.New("the join string is empty: the search company gives it to you; it begins with shoal-join-")
	}
	at, err := placeFor(&set, c.JoinString) // what is wrong with the string is said before anything is asked
	if err != nil {
		return err
	}
	if !c.Yes && (c.JSON || !asks(s.in)) {
		return errNotAsked
	}
	if at.is {
		return c.again(ctx, s, &set, at.dir)
	}
	offer, err := look(ctx, &set, at.dir, c.JoinString)
	if err != nil {
		return err
	}
	out := saidOf(offer)
	wanted := proposals(&set)
	if c.NoLimits {
		wanted = nil
	}
	agreed := c.Yes
	if !c.JSON {
		explain(s.out, &set, &out.Joined, at.beside, wanted)
	}
	if !agreed {
		agreed, err = consent(ctx, s, len(wanted) > 0, &wanted)
	}
	file := top.settingsFile()
	if err == nil && agreed && len(wanted) > 0 {
		if err = writeLimits(file, wanted); err != nil {
			err = fmt.Errorf("the limits cannot be written to %s: %w; make it writable, name another file with --config, or join with --no-limits", file, err)
		}
	}
	if err == nil && agreed {
		err = offer.Accept()
	}
	if err != nil || !agreed {
		if err == nil {
			_, err = fmt.Fprintln(s.out, "Not joined. Nothing was fetched, and nothing of it is kept but this computer's key in "+at.dir+".")
		}
		return err
	}
	if out.Wrote = wanted; len(wanted) > 0 {
		out.File = file
	}
	if len(at.beside) > 0 && tellJoined(ctx, &set) {
		c.then = "The running peer begins with it now, beside " + strings.Join(at.beside, ", ") + "."
	} else if len(at.beside) == 0 && !top.System && runs(ctx, &set) {
		c.then = "The running peer begins with it now; to see what it does: shoal-peer status"
	}
	return c.report(s, &out)
}

// runs reports whether a peer runs, as one does that waits for its first network.
func runs(ctx context.Context, set *settings) bool {
	cl, err := control.NewClient(set.Data)
	return err == nil && cl.Status(ctx, &status{}) == nil
}

// tellJoined has a peer that runs look for its new network at once. It reports whether one runs.
func tellJoined(ctx context.Context, set *settings) bool {
	cl, err := control.NewClient(set.Data)
	return err == nil && cl.Do(ctx, "joined", nil) == nil
}

// again joins a folder that is a member already: of the same network, perhaps at other addresses. Its volunteer has agreed before.
func (c *joinCmd) again(ctx context.Context, s streams, set *settings, dir string) error {
	offer, err := look(ctx, set, dir, c.JoinString)
	if err != nil {
		return err
	}
	if err := offer.Accept(); err != nil {
		return err
	}
	out := saidOf(offer)
	return c.report(s, &out)
}

func saidOf(o *peer.Offer) joinSaid {
	return joinSaid{Joined: o.Joined, Network: o.Network.String()}
}

func (c *joinCmd) report(s streams, out *joinSaid) error {
	if c.JSON {
		return json.NewEncoder(s.out).Encode(out)
	}
	if out.File != "" {
		fmt.Fprintf(s.out, "The limits are in %s; change them there at any time.\n", out.File)
	}
	_, err := fmt.Fprintf(s.out, "This computer is now member %s\nof network %s.\n%s\n", out.Peer, out.Network, c.then)
	return err
}

// explain says who asks, what the computer will do, and what of it will be used.
func explain(w io.Writer, set *settings, j *peer.Joined, beside []string, wanted []proposal) {
	st := status{}
	st.Name, st.Contact, st.Network = j.Name, j.Contact, j.Network.String()
	contact := ""
	if j.Contact != "" {
		contact = " (contact: " + plain.Printable(j.Contact) + ")"
	}
	fmt.Fprintf(w, "You lend this computer to %s%s.\n\n", company(&st), contact)
	fmt.Fprintf(w, "It will fetch public Web pages near you, at most one a second from each site, and send them to the company. It uses\n")
	fmt.Fprintf(w, "  processor   the lowest priority; at most %s at the same time\n", plain.Count(set.Threads, "site"))
	fmt.Fprintf(w, "  disk        at most %d MiB in %s\n", set.DiskMiB, set.Data)
	fmt.Fprintf(w, "  network     port %d; Web sites and other members see your address\n", set.Port)
	for _, c := range []struct {
		what, unit string
		value      int
		key        string
	}{{"download", "KiB a second", set.DownKiBPerS, "down_kib_per_s"}, {"upload", "KiB a second", set.UpKiBPerS, "up_kib_per_s"}, {"a day", "MiB", set.DayMiB, "day_mib"}, {"a month", "MiB", set.MonthMiB, "month_mib"}} {
		value, from := c.value, set.from[c.key]
		for _, p := range wanted {
			if p.Key == c.key {
				value, from = p.Value, "proposed"
			}
		}
		if value == 0 {
			fmt.Fprintf(w, "  %-11s no limit\n", c.what)
		} else {
			fmt.Fprintf(w, "  %-11s at most %d %s (%s)\n", c.what, value, c.unit, from)
		}
	}
	if len(beside) > 0 {
		fmt.Fprintln(w, words.T("join.beside", strings.Join(beside, ", ")).In(words.English))
	}
	fmt.Fprintf(w, "On battery: %s. On a link paid by volume: %s. Stop at any time: shoal-peer pause, shoal-peer leave.\n\n", set.OnBattery, set.OnMetered)
}

// consent asks until it is answered.
func consent(ctx context.Context, s streams, proposed bool, wanted *[]proposal) (bool, error) {
	question := "Join? [y]es, [n]o: "
	if proposed {
		question = "Join with these limits? [y]es, [n]o, [w]ithout the proposed limits: "
	}
	type answer struct {
		text string
		err  error
	}
	answers := make(chan answer)
	r := bufio.NewReader(io.LimitReader(s.in, 4096))
	for {
		fmt.Fprint(s.out, question)
		go func() {
			text, err := r.ReadString('\n')
			select {
			case answers <- answer{text, err}:
			case <-ctx.Done():
			}
		}()
		var a answer
		select {
		case a = <-answers:
		case <-ctx.Done():
			fmt.Fprintln(s.out)
			return false, nil
		}
		switch strings.ToLower(strings.TrimSpace(a.text)) {
		case "y", "yes":
			return true, nil
		case "n", "no":
			return false, nil
		case "w", "without":
			if proposed {
				*wanted = nil
				return true, nil
			}
		}
		if a.err != nil { // no answer will come
			fmt.Fprintln(s.out)
			return false, errNotAsked
		}
	}
}

// asks reports whether a person can answer.
func asks(in io.Reader) bool {
	f, isFile := in.(*os.File)
	if !isFile {
		return in != nil
	}
	return term.IsTerminal(int(f.Fd()))
}

// settingsFile is the configuration file of this call.
func (c *cli) settingsFile() string {
	if c.Config != "" {
		return c.Config
	}
	return configFile()
}

// writeLimits adds the limits that were agreed to to a settings file, which may not exist yet.
func writeLimits(file string, wanted []proposal) error {
	c := changes{}
	for _, p := range wanted {
		c[p.Key] = noted{p.Value, p.what + "; proposed on joining"}
	}
	return save(file, c)
}
