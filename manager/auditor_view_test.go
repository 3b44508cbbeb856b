package manager

import (
	"context"
	"testing"
	"time"

	"shoal/channel"
	"shoal/manager/archive"
	"shoal/manager/archive/evidence"
	"shoal/manager/trust"
)

// texts is an arbiter that sees one page, as a channel wants it.
type texts struct{ html, text string }

func (x texts) Vantages() int { return 1 }

func (x texts) Fetch(_ context.Context, url string, _ int, gap time.Duration, as channel.Settings) (channel.Page, time.Duration, error) {
	if as.TextOnly {
		return textPage(url, "text/plain; charset=utf-8", x.text), gap, nil
	}
	return textPage(url, "text/html", x.html), gap, nil
}

func textPage(url, kind, body string) channel.Page {
	return channel.Page{URL: url, Status: 200, Header: []byte("HTTP/1.1 200 OK\r\nContent-Type: " + kind + "\r\n\r\n"), Body: []byte(body)}
}

// channelsOf is a database of channels with the same settings.
type channelsOf struct {
	Store
	settings channel.Settings
}

func (s channelsOf) Channel(_ context.Context, id channel.ID) (channel.Channel, error) {
	return channel.Channel{ID: id, Settings: s.settings}, nil
}

// TestArbiterSeesWhatTheChannelKeeps has the arbiter look at a page of which peers send the text only: it is like what the honest one sent, and so that one wins. The page
// as it comes is like neither side's, and would convict nobody.
func TestArbiterSeesWhatTheChannelKeeps(t *testing.T) {
	au, _, _ := judging(t)
	const url = "http://site-1.example/"
	au.cfg.Arbiter = texts{html: "<title>News</title><p>The harbour is closed.</p>", text: "News\nThe harbour is closed.\n"}
	au.cfg.Store = channelsOf{settings: channel.Settings{TextOnly: true}}
	of := func(body string) *archive.EvidenceFetch {
		p := textPage(url, "text/plain; charset=utf-8", body)
		return evidence.Of(&archive.Capture{URL: p.URL, Status: p.Status, Header: p.Header, Body: p.Body})
	}
	d := &dispute{wanted: wanted{url: url, c: trust.Case{Channel: 7}}, number: 1}
	d.ruling.Delivered, d.ruling.Checked = of("News\nThe harbour is forged.\n").Features(), of("News\nThe harbour is closed.\n").Features()
	seen := au.view(t.Context(), d, &visit{})
	if seen == nil || !alike(seen.Features(), d.ruling.Checked) || alike(seen.Features(), d.ruling.Delivered) {
		t.Errorf("the arbiter has seen %+v", seen)
	}
}
