package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"shoal/internal/plain"
	"shoal/internal/wire"
	"shoal/peer"
	"shoal/peer/control"
)

type remote struct {
	Data string `help:"Folder of the peer." type:"path" placeholder:"DIR"`
	JSON bool   `name:"json" help:"Print JSON."`
}

// only names one network, where this computer crawls for several.
type only struct {
	Network string `help:"This network only, where this computer crawls for several: its company or the beginning of its name." placeholder:"NETWORK"`
}

// args adds the network to those of an order.
func (o *only) args(args map[string]string) map[string]string {
	if o.Network == "" {
		return args
	}
	if args == nil {
		args = map[string]string{}
	}
	args["network"] = o.Network
	return args
}

// obeyed is what an order prints with --json.
type obeyed struct {
	Order       string `json:"order"`
	Says        string `json:"says"`                        // the same as a sentence, for people
	Hold        string `json:"hold,omitempty"`              // why the peer stays paused all the same
	Undelivered int    `json:"tasks_undelivered,omitempty"` // whose results cannot be delivered now
	Bytes       int64  `json:"undelivered_bytes,omitempty"` // of their pages
}

// tell prints what came of an order.
func (r *remote) tell(s streams, o obeyed) error {
	if r.JSON {
		return json.NewEncoder(s.out).Encode(o)
	}
	_, err := fmt.Fprintln(s.out, o.Says)
	return err
}

func (r *remote) do(ctx context.Context, s streams, top *cli, order string, args map[string]string, said string) error {
	c, _, err := client(s, top, r.Data)
	if err != nil {
		return err
	}
	if err := c.Do(ctx, order, args); err != nil {
		return err
	}
	return r.tell(s, obeyed{Order: order, Says: said})
}

// query adds the network to a question.
func (o *only) query() string { return "?" + url.Values{"network": {o.Network}}.Encode() }

type pauseCmd struct {
	remote
	only
	For string `arg:"" optional:"" name:"duration" help:"How long, such as 30m or 2h, or tomorrow for six in the morning of the next day; default: until resume."`
}

func (c *pauseCmd) Run(ctx context.Context, s streams, top *cli) error {
	said := "Paused until: shoal-peer resume"
	args := map[string]string{}
	if c.For != "" {
		args["for"], said = c.For, "Paused for "+c.For+"."
		if c.For == tomorrow {
			said = "Paused until tomorrow at six in the morning."
		} else if _, err := peer.PauseFor(c.For); err != nil { // also while no peer runs
			return err
		}
	}
	return c.do(ctx, s, top, "pause", c.args(args), said)
}

type resumeCmd struct {
	remote
	only
}

// Run ends the volunteer's own pause, and says what else holds the peer.
func (c *resumeCmd) Run(ctx context.Context, s streams, top *cli) error {
	cl, _, err := client(s, top, c.Data)
	if err != nil {
		return err
	}
	if err := cl.Do(ctx, "resume", c.args(nil)); err != nil {
		return err
	}
	var st status
	if err := cl.Status(ctx, &st); err != nil {
		return err
	}
	said := "Goes on."
	if st.Hold != "" {
		said = "Your pause is over, but the peer stays paused: " + st.Hold
	}
	return c.tell(s, obeyed{Order: "resume", Says: said, Hold: st.Hold})
}

type finishCmd struct {
	remote
	only
}

func (c *finishCmd) Run(ctx context.Context, s streams, top *cli) error {
	return c.end(ctx, s, top, "finish", c.args(nil), "Takes nothing new; what runs comes to its end.")
}

type drainCmd struct {
	remote
	only
}

func (c *drainCmd) Run(ctx context.Context, s streams, top *cli) error {
	return c.end(ctx, s, top, "drain", c.args(nil), "Gives everything back, then stays idle.")
}

// end gives an order that ends tasks, and warns of those whose results cannot be delivered now.
func (r *remote) end(ctx context.Context, s streams, top *cli, order string, args map[string]string, said string) error {
	c, _, err := client(s, top, r.Data)
	if err != nil {
		return err
	}
	if err := c.Do(ctx, order, args); err != nil {
		return err
	}
	var st status
	if err := c.Status(ctx, &st); err != nil {
		return err
	}
	n := 0
	for _, t := range st.Running {
		if t.Away {
			n++
		}
	}
	if n > 0 {
		said += fmt.Sprintf("\nNot delivered yet, since the archive does not answer: %s. The peer sends what it fetched when the archive answers, or after the next start.",
			plain.Count(n, "task"))
	}
	return r.tell(s, obeyed{Order: order, Says: said, Undelivered: n})
}

type leaveCmd struct {
	remote
	Network string `arg:"" optional:"" help:"Network to leave, where this computer crawls for several: its company or the beginning of its name, as status shows them."`
	All     bool   `help:"Leave all networks."`
}

// Run ends the running peer of a network, which hands its tasks over, and deletes the membership.
func (c *leaveCmd) Run(ctx context.Context, s streams, top *cli) error {
	cl, set, err := client(s, top, c.Data)
	if err != nil && !errors.Is(err, control.ErrNoAgent) {
		return err
	}
	leaving, beside, wrong := c.which(set.Data)
	if wrong != nil {
		return wrong
	}
	if err == nil {
		for _, m := range leaving {
			if err := cl.Do(ctx, "leave", map[string]string{"network": m.Network.String()}); err != nil && !errors.Is(err, control.ErrNoAgent) {
				return err
			}
		}
	}
	_, kept := wire.LoadKept(set.Data)
	var lost peer.Undelivered
	for _, m := range leaving {
		one, err := unjoin(ctx, m.Dir, time.Duration(set.GraceS)*time.Second+20*time.Second)
		if err != nil {
			return err
		}
		lost.Tasks, lost.Bytes = lost.Tasks+one.Tasks, lost.Bytes+one.Bytes
	}
	said := fmt.Sprintf("This computer has left the network. Its key and the record of what it fetched are still in %s; you may delete that folder.", set.Data)
	if beside == 0 && len(leaving) == 1 && leaving[0].Network == (peer.Membership{}).Network && errors.Is(kept, wire.ErrNotJoined) {
		said = fmt.Sprintf("This computer has joined no network by %s, so there was none to leave. If it crawls from another folder, name that with --data.", set.Data)
	}
	if len(leaving) > 1 {
		said = fmt.Sprintf("This computer has left all networks. Its keys and the record of what it fetched are still in %s; you may delete that folder.", set.Data)
	}
	if beside > 0 {
		others := "the one that is left"
		if beside > 1 {
			others = fmt.Sprintf("the %d that are left", beside)
		}
		said = fmt.Sprintf("This computer has left that network, and goes on for %s. Its key is still in %s.", others, leaving[0].Dir)
	}
	if lost.Tasks > 0 {
		said = fmt.Sprintf("Not delivered, since the archive did not answer: %s, %.1f MiB of pages. Other peers will crawl it again.\n%s",
			plain.Count(lost.Tasks, "task"), mib(lost.Bytes), said)
	}
	return c.tell(s, obeyed{Order: "leave", Says: said, Undelivered: lost.Tasks, Bytes: lost.Bytes})
}

// which finds the networks to leave, and how many stay.
func (c *leaveCmd) which(data string) (leaving []peer.Membership, beside int, err error) {
	all, err := peer.Memberships(data)
	if err != nil && c.Network == "" && !c.All && len(all) > 0 { // it may be the damaged one that is meant
		return nil, 0, err
	}
	if _, root := wire.LoadKept(data); err != nil && len(all) == 0 && (root == nil || errors.Is(root, wire.ErrNotJoined)) {
		return nil, 0, err
	}
	if len(all) == 0 { // or it is damaged, and can be left all the same
		if _, err := os.Stat(data); errors.Is(err, fs.ErrNotExist) {
			return nil, 0, fmt.Errorf("there is no folder %s: no peer ran there; name its folder with --data", data)
		}
		return []peer.Membership{{Dir: data}}, 0, nil // what an earlier leave has left is removed
	}
	if c.All || c.Network == "" && len(all) == 1 {
		return all, 0, nil
	}
	m, err := pick(all, c.Network, "name the one to leave, or --all")
	if err != nil {
		return nil, 0, err
	}
	return []peer.Membership{m}, len(all) - 1, nil
}

// pick finds the network that a person names among the memberships. unnamed is what to do where no name is given.
func pick(all []peer.Membership, name, unnamed string) (found peer.Membership, err error) {
	var have []string
	hits := 0
	for _, m := range all {
		id, company := m.Network.String(), plain.Printable(m.Company)
		have = append(have, strings.TrimSpace(id[:shortName]+" "+company))
		if name != "" && (strings.HasPrefix(id, strings.ToLower(name)) || strings.EqualFold(company, name)) {
			found = m
			hits++
		}
	}
	switch {
	case hits == 1:
		return found, nil
	case name == "":
		return found, &errWhich{"this computer crawls for several networks; " + unnamed, have}
	case hits == 0:
		return found, &errWhich{fmt.Sprintf("no network is called %q", name), have}
	}
	return found, &errWhich{fmt.Sprintf("%q can be several networks", name), have}
}

// recorded returns the name of the network that a person names, as the record of fetches has it. Of one that was left, for which it has some, a part of its name is
// enough, since its company's name is gone.
func recorded(data, name string, in *peer.Journal) (string, error) {
	if name == "" {
		return "", nil
	}
	all, err := peer.Memberships(data)
	if err != nil && len(all) == 0 {
		return "", err
	}
	m, err := pick(all, name, "")
	if err == nil {
		return m.Network.String(), nil
	}
	id := strings.ToLower(name)
	known := slices.ContainsFunc(all, func(m peer.Membership) bool {
		return strings.HasPrefix(m.Network.String(), id) || strings.EqualFold(plain.Printable(m.Company), name)
	})
	if known || in == nil || len(id) < leastName {
		return "", err
	}
	some, failed := in.Log(peer.Want{Newest: 1, For: id})
	if len(some) > 0 {
		return id, nil
	}
	return "", errors.Join(err, failed)
}

// unjoin deletes a membership once its agent has ended.
func unjoin(ctx context.Context, dir string, wait time.Duration) (lost peer.Undelivered, err error) {
	for end := time.Now().Add(wait); ; {
		lost, err = peer.Forget(dir)
		if err == nil || !errors.Is(err, peer.ErrLocked) || time.Now().After(end) {
			return lost, err
		}
		select {
		case <-time.After(200 * time.Millisecond):
		case <-ctx.Done():
			return lost, ctx.Err()
		}
	}
}
