package main

import (
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
)

type feedCmd struct {
	target
	Since  string `help:"Go on after this cursor; by default from the beginning." placeholder:"CURSOR" xor:"since"`
	Cursor string `help:"Keep the cursor in this file." type:"path" placeholder:"FILE" xor:"since"`
	Follow bool   `short:"f" help:"Wait for more until interrupted."`
	Text   bool   `help:"With main text and links."`
	Limit  int    `help:"At most so many a request." default:"1000" placeholder:"N"`
}

// Run prints changes as JSON lines. The cursor is kept after what was printed: an indexer that is interrupted sees some again, never too few.
func (c *feedCmd) Run(ctx context.Context, s streams) error {
	if err := atLeast("--limit", c.Limit, 1); err != nil {
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
	return c.with(ctx, false, func(a *api.Client) error {
		for {
			q := url.Values{"cursor": {cursor}, "limit": {fmt.Sprint(c.Limit)}}
			if c.Text {
				q.Set("text", "1")
			}
			if c.Follow {
				q.Set("wait", "50s")
			}
			r, err := a.Open(ctx, http.MethodGet, "/archive/changes", q, nil)
			if err != nil {
				return err
			}
			n, err := io.Copy(s.out, r.Body)
			if err = errors.Join(err, r.Body.Close()); err != nil {
				return err
			}
			cursor = r.Header.Get(archive.CursorHeader)
			if c.Cursor != "" && n > 0 {
				if err := member.WriteFile(c.Cursor, []byte(cursor+"\n")); err != nil {
					return fmt.Errorf("keep the cursor %s: %w", cursor, err)
				}
			}
			if n == 0 && !c.Follow {
				_, err := fmt.Fprintf(s.err, "next: --since %s\n", cursor)
				return err
			}
		}
	})
}
