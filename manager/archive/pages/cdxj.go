package pages

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"shoal/channel"
	pb "shoal/manager/archive/archivepb"
	"shoal/manager/archive/ledger"
	"shoal/manager/archive/schema"
	"shoal/manager/archive/warc"
)

// cdxLine is the JSON of a CDXJ line, with the field names that replay tools read.
type cdxLine struct {
	URL      string `json:"url"`
	Mime     string `json:"mime"`
	Status   string `json:"status"`
	Digest   string `json:"digest"`
	Length   string `json:"length"`
	Offset   string `json:"offset"`
	Filename string `json:"filename"`
}

// CDXJ writes the index of captures as CDXJ, sorted: of one URL, of all that begin with it, or of everything if it is empty. limit bounds
// the lines; 0: all.
func (p *Pages) CDXJ(ctx context.Context, w io.Writer, rawURL string, prefix bool, limit int) error {
	key, err := captures(rawURL, prefix)
	if err != nil {
		return err
	}
	err = p.ledger.View(func(snap ledger.Snapshot) error {
		return snap.Scan(key, nil, true, func(key, value []byte) (bool, error) {
			line, err := p.cdxLine(snap, key, value)
			if err != nil || line == nil {
				return true, err
			}
			if _, err := w.Write(line); err != nil {
				return false, err
			}
			limit--
			return limit != 0, ctx.Err()
		})
	})
	if err != nil {
		return fmt.Errorf("write CDX index: %w", err)
	}
	return nil
}

// captures is how the keys of the captures begin: of one URL, of all that begin with it, or of everything if it is empty.
func captures(rawURL string, prefix bool) ([]byte, error) {
	key := []byte{schema.Capture}
	if rawURL == "" {
		return key, nil
	}
	url, err := channel.Canonical(rawURL)
	if err != nil {
		return nil, err
	}
	if key = append(key, SURT(url)...); !prefix {
		key = append(key, 0)
	}
	return key, nil
}

// cdxLine makes one line; nil if its record was removed.
func (p *Pages) cdxLine(snap ledger.Snapshot, key, value []byte) ([]byte, error) {
	m := new(pb.Capture)
	if err := schema.Decode(value, m); err != nil {
		return nil, err
	}
	at, err := p.Locate(snap, schema.Location(m.At))
	if errors.Is(err, ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	place := p.segments.Place(at)
	surt, when, _ := schema.CaptureOf(key)
	l := cdxLine{
		URL: URLOfCapture(key), Mime: m.Mime, Status: fmt.Sprint(m.Status), Digest: warc.Digest([32]byte(schema.Padded(m.Sha256))),
		Length: fmt.Sprint(place.Length), Offset: fmt.Sprint(place.Offset), Filename: place.Name,
	}
	if m.Revisit {
		l.Mime = "warc/revisit"
	}
	b, err := json.Marshal(l)
	if err != nil {
		return nil, err
	}
	return fmt.Appendf(nil, "%s %s %s\n", surt, when.Format("20060102150405"), b), nil
}

// EachURL calls do once for each URL that has a capture and begins with rawURL, until it has looked at most captures (0: at all). A URL that
// was fetched by both schemes may come more than once.
func (p *Pages) EachURL(ctx context.Context, rawURL string, most int, do func(url string)) error {
	key, err := captures(rawURL, true)
	if err != nil {
		return err
	}
	err = p.ledger.View(func(snap ledger.Snapshot) error {
		last := ""
		return snap.Scan(key, nil, false, func(key, _ []byte) (bool, error) {
			if url := URLOfCapture(key); url != last {
				last = url
				do(url)
			}
			most--
			return most != 0, ctx.Err()
		})
	})
	if err != nil {
		return fmt.Errorf("list stored pages below %s: %w", rawURL, err)
	}
	return nil
}
