package archivecmd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"shoal/manager/archive"
)

// Choice are the flags that choose among captures or changes.
type Choice struct {
	Deliverer       string `help:"Only what this peer or account has delivered; or the deliverer that captures name (d-...)." placeholder:"NAME"`
	Verified        bool   `help:"Only what another account, in another network, saw alike." xor:"state"`
	All             bool   `help:"What was withdrawn, too; and tell when a version is verified, and when it is not any more." xor:"state"`
	WithoutVisitors bool   `help:"Leave out pages that show the address of the volunteer who fetched them."`
}

func (c *Choice) filter() archive.Filter {
	return archive.Filter{Deliverer: c.Deliverer, WithoutVisitors: c.WithoutVisitors, Verified: c.Verified, All: c.All}
}

// Ask puts the choice into the parameters of a request.
func (c *Choice) Ask(q url.Values) {
	if c.Deliverer != "" {
		q.Set("deliverer", c.Deliverer)
	}
	if c.Verified {
		q.Set("verified", "1")
	}
	if c.All {
		q.Set("all", "1")
	}
	if c.WithoutVisitors {
		q.Set("without_visitors", "1")
	}
}

// Export writes what changed since a cursor.
type Export struct {
	Source `embed:""`
	Since  string `help:"Go on after this cursor; it was printed by the export before. Default: from the beginning." placeholder:"CURSOR" xor:"since"`
	Cursor string `help:"Keep the cursor in this file: read before, replaced after." type:"path" placeholder:"FILE" xor:"since"`
	Format string `help:"warc, json (one object a line, with text and links) or text." enum:"warc,json,text" default:"json"`
	Body   bool   `help:"With json: the page as it came too, in base64."`
	Limit  int    `help:"At most so many changes." placeholder:"N"`
	Choice `embed:""`
	Out    string `short:"o" help:"Write to this new file instead of standard output." type:"path" placeholder:"FILE"`
	JSON   bool   `name:"json" help:"Say the next cursor as JSON: on standard output if -o is given, else on standard error."`
}

// Run writes the export; the cursor for the next one goes to Err, and to the cursor file when everything is written.
func (c *Export) Run(ctx context.Context, to IO) (err error) {
	if c.Limit < 0 {
		return fmt.Errorf("--limit %d: want 0 (no limit) or more", c.Limit)
	}
	options := archive.ExportOptions{Format: archive.Format(c.Format), Body: c.Body}
	if err := options.Validate(); err != nil { // before a file is made
		return fmt.Errorf("--body: %w", err)
	}
	since := c.Since
	if c.Cursor != "" {
		b, err := os.ReadFile(c.Cursor)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("read the cursor: %w", err)
		}
		since = strings.TrimSpace(string(b))
	}
	var w = to.Out
	var f *os.File
	if c.Out != "" {
		if f, err = os.OpenFile(c.Out, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o640); err != nil {
			return fmt.Errorf("write the export: %w", err)
		}
		w = f
	}
	next, err := c.export(ctx, w, since)
	if f != nil {
		err = errors.Join(err, f.Sync(), f.Close())
	}
	if err != nil {
		if next != "" && next != since {
			return fmt.Errorf("%w\nwhat was written is whole up to --since %s", err, next)
		}
		return err
	}
	if c.Cursor != "" && next != "" {
		if err := replace(c.Cursor, next+"\n"); err != nil {
			return fmt.Errorf("keep the cursor %s: %w", next, err)
		}
	}
	if c.JSON {
		return json.NewEncoder(c.words(to)).Encode(map[string]string{"next": next})
	}
	_, err = fmt.Fprintf(to.Err, "next: --since %s\n", next)
	return err
}

// words is where the cursor is printed as JSON: standard output, unless the export itself is there.
func (c *Export) words(to IO) io.Writer {
	if c.Out == "" {
		return to.Err
	}
	return to.Out
}

func (c *Export) export(ctx context.Context, w io.Writer, since string) (next string, err error) {
	err = c.do(ctx, func(a *archive.Archive) error {
		next, err = a.Export(ctx, w, archive.ExportOptions{Since: since, Format: archive.Format(c.Format), Body: c.Body, Limit: c.Limit, Filter: c.filter()})
		return err
	}, func() error {
		q := url.Values{"since": {since}, "format": {c.Format}}
		if c.Body {
			q.Set("body", "1")
		}
		if c.Limit > 0 {
			q.Set("limit", fmt.Sprint(c.Limit))
		}
		c.Ask(q)
		r, err := c.get(ctx, "/export", q)
		if err != nil {
			return err
		}
		_, err = io.Copy(w, r.Body)
		next = r.Trailer.Get(archive.CursorHeader)
		return errors.Join(brokeOff(err), r.Body.Close())
	})
	return next, err
}

// replace writes a small file so that there is the old one or the new one.
func replace(name, content string) error {
	f, err := os.CreateTemp(filepath.Dir(name), ".cursor-*")
	if err != nil {
		return err
	}
	_, err = f.WriteString(content)
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = os.Rename(f.Name(), name)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}
