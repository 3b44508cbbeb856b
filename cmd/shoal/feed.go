package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"strings"

	"shoal/internal/member"
	"shoal/manager/api"
	"shoal/manager/archive"
	"shoal/manager/archive/archivecmd"
)

type feedCmd struct {
	target
	Since             string `help:"Go on after this cursor; by default from the beginning." placeholder:"CURSOR" xor:"since"`
	Cursor            string `help:"Keep the cursor in this file." type:"path" placeholder:"FILE" xor:"since"`
	Follow            bool   `short:"f" help:"Wait for more until interrupted."`
	Text              bool   `help:"With main text and links."`
	archivecmd.Choice `embed:""`
	Limit             int `help:"At most so many in all; 0: no limit." default:"0" placeholder:"N"`
}

// Run prints changes as JSON lines. The cursor is kept after what was printed: an indexer that is interrupted sees some again, never too few.
func (c *feedCmd) Run(ctx context.Context, s streams) error {
	if err := atLeast("--limit", c.Limit, 0); err != nil {
		return err
	}
	cursor := c.Since
	if c.Cursor != "" {
		b, err := os.ReadFile(c.Cursor)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("read the cursor: %w", err)
		}
		cursor = strings.TrimSpace(string(b))
	}
	return c.client(ctx, false, func(a *api.Client) error {
		for left := c.Limit; ; {
			most := feedRequest
			if c.Limit > 0 {
				most = min(left, feedRequest)
			}
			q := url.Values{"cursor": {cursor}, "limit": {fmt.Sprint(most)}}
			if c.Text {
				q.Set("text", "1")
			}
			c.Ask(q)
			if c.Follow {
				q.Set("wait", "50s")
			}
			r, err := a.Open(ctx, http.MethodGet, "/archive/changes", q, nil)
			if err != nil {
				return err
			}
			lines := &countLines{w: s.out}
			n, err := io.Copy(lines, r.Body)
			if err = errors.Join(err, r.Body.Close()); err != nil {
				return err
			}
			was := cursor
			cursor = r.Header.Get(archive.CursorHeader)
			if c.Cursor != "" && (n > 0 || cursor != was) { // filters pass over what is read
				if err := member.WriteFile(c.Cursor, []byte(cursor+"\n")); err != nil {
					return fmt.Errorf("keep the cursor %s: %w", cursor, err)
				}
			}
			left -= lines.n
			if n == 0 && !c.Follow || c.Limit > 0 && left <= 0 {
				_, err := fmt.Fprintf(s.err, "next: --since %s\n", cursor)
				return err
			}
		}
	})
}

const feedRequest = 1000 // changes asked for at a time

// countLines counts the lines that go by.
type countLines struct {
	w io.Writer
	n int
}

func (c *countLines) Write(b []byte) (int, error) {
	c.n += bytes.Count(b, []byte{'\n'})
	return c.w.Write(b)
}
