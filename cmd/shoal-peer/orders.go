package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"shoal/internal/plain"
	"shoal/peer"
	"shoal/peer/control"
)

type remote struct {
	Data string `help:"Folder of the peer." type:"path" placeholder:"DIR"`
	JSON bool   `name:"json" help:"Print JSON."`
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

type pauseCmd struct {
	remote
	For string `arg:"" optional:"" name:"duration" help:"How long, such as 30m or 2h, or tomorrow for six in the morning of the next day; default: until resume."`
}

func (c *pauseCmd) Run(ctx context.Context, s streams, top *cli) error {
	said := "Paused until: shoal-peer resume"
	args := map[string]string{}
	if c.For != "" {
		args["for"], said = c.For, "Paused for "+c.For+"."
		if c.For == tomorrow {
			said = "Paused until tomorrow at six in the morning."
		}
	}
	return c.do(ctx, s, top, "pause", args, said)
}

type resumeCmd struct{ remote }

// Run ends the volunteer's own pause, and says what else holds the peer.
func (c *resumeCmd) Run(ctx context.Context, s streams, top *cli) error {
	cl, _, err := client(s, top, c.Data)
	if err != nil {
		return err
	}
	if err := cl.Do(ctx, "resume", nil); err != nil {
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

type finishCmd struct{ remote }

func (c *finishCmd) Run(ctx context.Context, s streams, top *cli) error {
	return c.end(ctx, s, top, "finish", "Takes nothing new; what runs comes to its end.")
}

type drainCmd struct{ remote }

func (c *drainCmd) Run(ctx context.Context, s streams, top *cli) error {
	return c.end(ctx, s, top, "drain", "Gives everything back, then stays idle.")
}

// end gives an order that ends tasks, and warns of those whose results cannot be delivered now.
func (r *remote) end(ctx context.Context, s streams, top *cli, order, said string) error {
	c, _, err := client(s, top, r.Data)
	if err != nil {
		return err
	}
	if err := c.Do(ctx, order, nil); err != nil {
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

type leaveCmd struct{ remote }

// Run ends the running peer, which hands its tasks over, and deletes the membership.
func (c *leaveCmd) Run(ctx context.Context, s streams, top *cli) error {
	cl, set, err := client(s, top, c.Data)
	switch {
	case errors.Is(err, control.ErrNoAgent):
	case err != nil:
		return err
	default:
		if err := cl.Do(ctx, "leave", nil); err != nil && !errors.Is(err, control.ErrNoAgent) {
			return err
		}
	}
	wait := time.Duration(set.GraceS)*time.Second + 20*time.Second
	var lost peer.Undelivered
	for end := time.Now().Add(wait); ; {
		lost, err = peer.Forget(set.Data)
		if err == nil || !errors.Is(err, peer.ErrLocked) || time.Now().After(end) {
			break
		}
		select {
		case <-time.After(200 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("there is no folder %s: no peer ran there; name its folder with --data", set.Data)
	}
	if err != nil {
		return err
	}
	said := fmt.Sprintf("This computer has left the network. Its key and the record of what it fetched are still in %s; you may delete that folder.", set.Data)
	if lost.Tasks > 0 {
		said = fmt.Sprintf("Not delivered, since the archive did not answer: %s, %.1f MiB of pages. Other peers will crawl it again.\n%s",
			plain.Count(lost.Tasks, "task"), mib(lost.Bytes), said)
	}
	return c.tell(s, obeyed{Order: "leave", Says: said, Undelivered: lost.Tasks, Bytes: lost.Bytes})
}
