package archivecmd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"shoal/channel"
	"shoal/manager/archive"
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
	return c.do(ctx, func(a *archive.Archive) error {
		p, err := a.Get(ctx, c.URL, at)
		if err != nil {
			return c.hint(err)
		}
		if c.JSON {
			return json.NewEncoder(io.Out).Encode(gotten{c.URL, p.Fetched.UTC().Format(time.RFC3339), p.Status, p.Mime, len(p.Body), p.State, p.Deliverer, p.ShowsVisitor, p.Body})
		}
		if _, err := io.Out.Write(p.Body); err != nil {
			return err
		}
		_, err = fmt.Fprintf(io.Err, "fetched %s, status %d, %s, %d bytes%s\n", p.Fetched.Format(time.RFC3339), p.Status, orNone(p.Mime), len(p.Body), delivered(p.State, p.Deliverer, p.ShowsVisitor))
		return err
	}, func() error { return c.remote(ctx, io) })
}

func (c *Get) remote(ctx context.Context, to IO) error {
	q := url.Values{"url": {c.URL}}
	if c.At != "" {
		q.Set("at", c.At)
	}
	r, err := c.get(ctx, "/page", q)
	if err != nil {
		return c.hint(err)
	}
	if c.JSON {
		return c.print(to, r)
	}
	n, err := io.Copy(to.Out, r.Body)
	if err = errors.Join(err, r.Body.Close()); err != nil {
		return err
	}
	_, err = fmt.Fprintf(to.Err, "fetched %s, status %s, %s, %d bytes%s\n", r.Header.Get("Shoal-Fetched"), r.Header.Get("Shoal-Status"), r.Header.Get("Content-Type"), n,
		delivered(r.Header.Get("Shoal-State"), r.Header.Get("Shoal-Deliverer"), r.Header.Get("Shoal-Shows-Visitor") == "true"))
	return err
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

// print prints the manager's answer as JSON.
func (c *Get) print(to IO, r *http.Response) error {
	body, err := io.ReadAll(r.Body)
	if err = errors.Join(err, r.Body.Close()); err != nil {
		return fmt.Errorf("the manager's answer broke off: %w", err)
	}
	status, err := strconv.Atoi(r.Header.Get("Shoal-Status"))
	if err != nil {
		return fmt.Errorf("the manager's answer has no status: %w", err)
	}
	return json.NewEncoder(to.Out).Encode(gotten{c.URL, r.Header.Get("Shoal-Fetched"), status, r.Header.Get("Content-Type"), len(body), r.Header.Get("Shoal-State"),
		r.Header.Get("Shoal-Deliverer"), r.Header.Get("Shoal-Shows-Visitor") == "true", body})
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
