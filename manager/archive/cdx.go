package archive

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"

	"github.com/dgraph-io/badger/v4"

	"shoal/channel"
	pb "shoal/manager/archive/archivepb"
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
func (a *Archive) CDXJ(ctx context.Context, w io.Writer, rawURL string, prefix bool, limit int) error {
	key := []byte{keyCapture}
	if rawURL != "" {
		url, err := channel.Canonical(rawURL)
		if err != nil {
			return err
		}
		if key = append(key, SURT(url)...); !prefix {
			key = append(key, 0)
		}
	}
	err := a.db.View(func(txn *badger.Txn) error {
		return scan(txn, key, nil, true, func(key []byte, item *badger.Item) (bool, error) {
			line, err := a.cdxLine(txn, key, item)
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

// cdxLine makes one line; nil if its record was removed.
func (a *Archive) cdxLine(txn *badger.Txn, key []byte, item *badger.Item) ([]byte, error) {
	m := new(pb.Capture)
	if err := item.Value(func(b []byte) error { return decode(b, m) }); err != nil {
		return nil, err
	}
	at, err := a.where(txn, m.At)
	if err != nil {
		return nil, nil
	}
	surt := string(key[1 : len(key)-10])
	l := cdxLine{
		URL: urlOfCapture(key), Mime: m.Mime, Status: fmt.Sprint(m.Status), Digest: warc.Digest([32]byte(padded(m.Sha256))),
		Length: fmt.Sprint(at.Length), Offset: fmt.Sprint(at.Offset), Filename: a.stats.fileName(at.File),
	}
	if m.Revisit {
		l.Mime = "warc/revisit"
	}
	b, err := json.Marshal(l)
	if err != nil {
		return nil, err
	}
	return fmt.Appendf(nil, "%s %s %s\n", surt, timeOfCapture(key).Format("20060102150405"), b), nil
}

// padded makes a stored hash 32 bytes long, whatever it was.
func padded(b []byte) []byte { return append(bytes.Clone(b), make([]byte, 32)...)[:32] }
