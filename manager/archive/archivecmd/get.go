package archivecmd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strconv"
	"strings"
	"time"

	"shoal/channel"
	"shoal/manager/archive"
	"shoal/manager/archive/pages"
)

// Get prints a stored page.
type Get struct {
	Source `embed:""`
	URL    string `arg:"" help:"Page to print."`
	At     string `help:"As it was then: 2026-05-01, 2026-05-01T12:00:00Z or 20260501120000. Default: as it is." placeholder:"TIME"`
	JSON   bool   `name:"json" help:"As one JSON object, with the content in base64."`
}

// gotten is a page as shoal get --json prints it, with the keys of shoal export.
type gotten struct {
	URL       string `json:"url"`
	Fetched   string `json:"fetched"` // RFC 3339
	Status    int    `json:"status"`
	Mime      string `json:"mime,omitempty"`
	Bytes     int    `json:"bytes"`
	State     string `json:"state,omitempty"`
	Deliverer string `json:"deliverer,omitempty"`
	Shows     bool   `json:"shows_visitor,omitempty"` // the address of the volunteer who fetched it
	Body      []byte `json:"body"`                    // base64
}

// Run prints the page's content; when and how it was fetched goes to Err.
func (c *Get) Run(ctx context.Context, io IO) error {
	at, err := archive.ParseTime(c.At)
	if err != nil {
		return err
	}
	if _, err := channel.Canonical(c.URL); err != nil {
		return err
	}
	var p gotten
	err = c.do(ctx, func(a *archive.Archive) error {
		got, err := a.Get(ctx, c.URL, at)
		if err != nil {
			return c.hint(err)
		}
		p = gotten{c.URL, got.Fetched.UTC().Format(time.RFC3339Nano), got.Status, got.Mime, len(got.Body), got.State, got.Deliverer, got.ShowsVisitor, got.Body}
		return nil
	}, func() (err error) {
		p, err = c.remote(ctx)
		return err
	})
	if err != nil {
		return err
	}
	if c.JSON {
		return json.NewEncoder(io.Out).Encode(p)
	}
	if _, err := io.Out.Write(p.Body); err != nil {
		return err
	}
	_, err = fmt.Fprintf(io.Err, "fetched %s, status %d, %s, %d bytes%s\n", p.Fetched, p.Status, orNone(p.Mime), p.Bytes, delivered(p.State, p.Deliverer, p.Shows))
	return err
}

// remote asks the manager.
func (c *Get) remote(ctx context.Context) (p gotten, err error) {
	q := url.Values{"url": {c.URL}}
	if c.At != "" {
		q.Set("at", c.At)
	}
	r, err := c.get(ctx, "/page", q)
	if err != nil {
		return p, c.hint(err)
	}
	body, err := io.ReadAll(r.Body)
	if err = errors.Join(brokeOff(err), r.Body.Close()); err != nil {
		return p, err
	}
	status, err := strconv.Atoi(r.Header.Get("Shoal-Status"))
	if err != nil {
		return p, fmt.Errorf("the manager's answer has no status: %w", err)
	}
	mime := r.Header.Get(archive.MimeHeader)
	if r.Header[archive.MimeHeader] == nil { // a manager of an older version
		mime = pages.MediaType([]byte("HTTP/1.1 200 \r\nContent-Type: " + r.Header.Get("Content-Type") + "\r\n\r\n"))
	}
	return gotten{c.URL, r.Header.Get("Shoal-Fetched"), status, mime, len(body), r.Header.Get("Shoal-State"), r.Header.Get("Shoal-Deliverer"), r.Header.Get("Shoal-Shows-Visitor") == "true", body}, nil
}

// delivered says how far a page is believed, who delivered it, and whether it shows that.
func delivered(state, by string, shows bool) (text string) {
	if state != "" {
		text = ", " + state
	}
	if by != "" {
		text += ", delivered by " + by
	}
	if shows {
		text += ", shows the address of the volunteer who fetched it"
	}
	return text
}

func (c *Get) hint(err error) error {
	if !errors.Is(err, archive.ErrNotFound) {
		return err
	}
	if !strings.HasSuffix(err.Error(), archive.ErrNotFound.Error()) {
		return fmt.Errorf("%s: %w", c.URL, err) // it should be there
	}
	if c.At != "" {
		return &absent{fmt.Sprintf("%s was not stored by %s: leave --at out for the last visit", c.URL, c.At), err}
	}
	return &absent{c.URL + " is not stored: http and https, and with or without www, are different pages", err}
}

// absent says in its own words that a page is not found.
type absent struct {
	text string
	err  error
}

func (e *absent) Error() string { return e.text }
func (e *absent) Unwrap() error { return e.err }

func orNone(s string) string {
	if s == "" {
		return "no type"
	}
	return s
}
