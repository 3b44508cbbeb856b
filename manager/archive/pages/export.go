package pages

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"shoal/manager/archive/ledger"
	"shoal/manager/archive/schema"
	"shoal/manager/archive/segment"
	"shoal/manager/archive/text"
	"shoal/manager/archive/warc"
)

// Content is what a change is about: the page as it then was.
type Content struct {
	Header []byte
	Body   []byte
	Links  []string
	Text   *text.Text // nil: not extracted yet, or there is none
	sha    [32]byte

	protocol string // as WARC-Protocol has it
	cut      string // as WARC-Truncated has it
}

// content tells whether a change is about a version that can be read.
func (c *Change) content() bool { return c.Event != Gone && c.at != (segment.Location{}) }

// ContentType is the Content-Type that the page came with; several as one list.
func (c Content) ContentType() string { return warc.FieldList(c.Header, "Content-Type") }

// unreadable tells whether what a change is about is not there: it was removed since, by retention or a takedown, or its record is damaged. That is counted and logged:
// those who read the feed must come past it.
func (p *Pages) unreadable(c *Change, err error) bool {
	if errors.Is(err, ErrNotFound) {
		return true
	}
	if !damaged(err) {
		return false
	}
	p.damaged.Add(1)
	p.cfg.Log.Warn("a page is left out, as its record is damaged: shoal archive verify tells what else is", "url", c.URL, "fetched", c.Fetched, "err", err)
	return true
}

// Content reads what a change is about. A page that has been removed since is ErrNotFound.
func (p *Pages) Content(c Change) (out Content, err error) {
	err = p.ledger.View(func(snap ledger.Snapshot) error {
		read, err := p.readPage(snap, c.at, c.original)
		if err != nil {
			return err
		}
		out.Header, out.Body, out.Links, out.protocol, out.cut = read.header, read.body, read.links, read.protocol, read.cut
		out.sha = sha256.Sum256(out.Body)
		out.Text, err = storedText(snap, out.sha[:])
		return err
	})
	if err != nil {
		return Content{}, fmt.Errorf("content of %s: %w", c.URL, err)
	}
	return out, nil
}

// Format is how an export writes.
type Format string

// The formats.
const (
	FormatWARC Format = "warc" // WARC 1.1, gzip per record: created and changed pages
	FormatJSON Format = "json" // one object a line, with text and links; gone pages too
	FormatText Format = "text" // URL, title and text of created and changed pages, divided by blank lines
)

// ErrFormat says that there is no such format.
var ErrFormat = errors.New("archive: no such format")

// ExportOptions say what to export.
type ExportOptions struct {
	Since  string // cursor; empty: from the beginning, see Pages.ChangesOf
	Format Format
	Body   bool // FormatJSON: the page as it came, too
	Limit  int  // changes; 0: all there are
	Filter      // the changes that are wanted
}

// ErrNoBody is returned for an export of main text that is to have pages as they came.
var ErrNoBody = errors.New("archive: text has no pages as they came: ask for json, or for warc, which has them anyway")

// Validate says why an export cannot be as it is asked for, if so.
func (o *ExportOptions) Validate() error {
	if o.Body && o.Format == FormatText {
		return ErrNoBody
	}
	return nil
}

// Line is one line of an export as JSON, and of the change feed over HTTP.
type Line struct {
	Cursor  string    `json:"cursor"` // to go on after this line
	URL     string    `json:"url"`
	Event   string    `json:"event"` // created, changed, gone, withdrawn, verified, unverified
	Near    bool      `json:"near,omitempty"`
	Fetched time.Time `json:"fetched"`
	Status  int       `json:"status,omitempty"`
	Mime    string    `json:"mime,omitempty"`
	Digest  string    `json:"digest,omitempty"`
	Title   string    `json:"title,omitempty"`
	Lang    string    `json:"lang,omitempty"`
	Text    string    `json:"text,omitempty"`
	Links   []string  `json:"links,omitempty"`
	Body    []byte    `json:"body,omitempty"`    // base64
	Removed bool      `json:"removed,omitempty"` // it cannot be read any more, see Pages.Line

	State        string `json:"state,omitempty"`         // provisional, verified or withdrawn
	Deliverer    string `json:"deliverer,omitempty"`     // number of the peer whose delivery this is
	ShowsVisitor bool   `json:"shows_visitor,omitempty"` // the page shows the address of a peer that fetched it
}

// Export writes the changes since a cursor, and gives the cursor from which the next export goes on. On an error it gives the cursor of
// the last change that was written whole.
func (p *Pages) Export(ctx context.Context, w io.Writer, o ExportOptions) (next string, err error) {
	switch o.Format {
	case FormatWARC, FormatJSON, FormatText:
	default:
		return o.Since, fmt.Errorf("%w: %q; there are warc, json and text", ErrFormat, o.Format)
	}
	if err := o.Validate(); err != nil {
		return o.Since, err
	}
	if o.Format == FormatWARC {
		now := p.cfg.Clock().UTC()
		head, err := p.cfg.Pack.Append(nil, &warc.Record{
			Type: warc.Info, ID: warc.NewID(exportSeed("", p.ledger.Cursor(schema.Changes, 0), o.Since, now), 0), Date: now, Body: p.cfg.About,
		})
		if err == nil {
			_, err = w.Write(head)
		}
		if err != nil {
			return o.Since, err
		}
	}
	next = o.Since
	for left := o.Limit; ; {
		n := 500
		if o.Limit > 0 {
			n = min(n, left)
		}
		if n == 0 {
			return next, nil
		}
		changes, after, err := p.ChangesOf(ctx, next, n, o.Filter)
		if err != nil {
			return next, err
		}
		for _, c := range changes {
			if err := p.exportOne(w, c, o); err != nil {
				return next, fmt.Errorf("export: %w", err)
			}
			next = c.Cursor
		}
		if len(changes) < n {
			return after, nil
		}
		left -= len(changes)
	}
}

func (p *Pages) exportOne(w io.Writer, c Change, o ExportOptions) error {
	switch o.Format {
	case FormatWARC:
		return p.exportWARC(w, c)
	case FormatText:
		if !c.content() {
			return nil
		}
		l, err := p.Line(c, true, false)
		if err != nil || l.Removed {
			return err
		}
		_, err = fmt.Fprintf(w, "%s\n%s\n%s\n\n", l.URL, l.Title, l.Text)
		return err
	default:
		l, err := p.Line(c, true, o.Body)
		if err != nil {
			return err
		}
		b, err := json.Marshal(l)
		if err != nil {
			return err
		}
		_, err = w.Write(append(b, '\n'))
		return err
	}
}

// Line makes the JSON form of a change, with text and links, or the page as it came. Text that the worker has not come to yet is
// extracted now. Of what retention or a takedown has removed, or what is damaged, it says so.
func (p *Pages) Line(c Change, withText, withBody bool) (Line, error) {
	l := Line{Cursor: c.Cursor, URL: c.URL, Event: c.Event.String(), Near: c.Near, Fetched: c.Fetched, Status: c.Status, Mime: c.Mime, State: c.State, Deliverer: c.Deliverer, ShowsVisitor: c.ShowsVisitor}
	if c.Digest != 0 {
		l.Digest = fmt.Sprintf("%016x", c.Digest)
	}
	if !c.content() || !withText && !withBody {
		return l, nil
	}
	content, err := p.Content(c)
	if p.unreadable(&c, err) {
		l.Removed = true
		return l, nil
	}
	if err != nil {
		return Line{}, err
	}
	l.Links = content.Links
	if withBody {
		l.Body = content.Body
	}
	if t := content.Text; t != nil {
		l.Title, l.Lang, l.Text = t.Title, t.Lang, t.Body
	} else if t, err := text.Extract(c.URL, content.ContentType(), content.Body); err == nil {
		l.Title, l.Lang, l.Text = t.Title, t.Lang, t.Body
	}
	return l, nil
}

// exportSeed is what the ids of exported records are made from. It tells apart two changes of the same content at the same time; a cursor names its archive.
func exportSeed(url, cursor, what string, at time.Time) [32]byte {
	return sha256.Sum256(fmt.Appendf(nil, "shoal export\n%s\n%s\n%s\n%d", url, cursor, what, at.UnixNano()))
}

// exportWARC writes a page as a response record, with a metadata record for its links.
func (p *Pages) exportWARC(w io.Writer, c Change) error {
	if !c.content() {
		return nil
	}
	page, err := p.Content(c)
	if p.unreadable(&c, err) {
		return nil
	}
	if err != nil {
		return err
	}
	seed := exportSeed(c.URL, c.Cursor, c.Event.String(), c.Fetched)
	id := warc.NewID(seed, 0)
	out, err := p.cfg.Pack.Append(nil, &warc.Record{
		Type: warc.Response, ID: id, Date: c.Fetched, URI: c.URL, Payload: page.sha, Body: page.Body, Truncated: page.cut,
		Protocol: cmp.Or(page.protocol, warc.Protocol(page.Header, c.URL)),
		Head:     warc.Relength(page.Header, c.Status, len(page.Body)), State: c.State, Deliverer: c.Deliverer, ShowsVisitor: c.ShowsVisitor,
	})
	if err == nil && len(page.Links) > 0 {
		pairs := make([]string, 0, 2*len(page.Links))
		for _, l := range page.Links {
			pairs = append(pairs, "outlink", l)
		}
		out, err = p.cfg.Pack.Append(out, &warc.Record{
			Type: warc.Metadata, ID: warc.NewID(seed, 1), Date: c.Fetched, URI: c.URL, Refers: id,
			Body: warc.Fields(pairs...),
		})
	}
	if err == nil {
		_, err = w.Write(out)
	}
	return err
}
