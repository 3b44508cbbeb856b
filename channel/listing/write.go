package listing

import (
	"bufio"
	"encoding/csv"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"

	"shoal/channel"
)

// Writer writes channels in one format. Close ends the list.
type Writer struct {
	f    Format
	w    *bufio.Writer
	csv  *csv.Writer
	json *json.Encoder
}

// NewWriter returns a Writer that writes a list to w.
func NewWriter(w io.Writer, f Format) (*Writer, error) {
	out := &Writer{f: f, w: bufio.NewWriterSize(w, 64<<10)}
	switch f {
	case CSV:
		out.csv = csv.NewWriter(out.w)
		names := make([]string, len(columns))
		for i := range columns {
			names[i] = columns[i].name
		}
		return out, out.csv.Write(names)
	case JSON:
		out.json = json.NewEncoder(out.w)
		out.json.SetEscapeHTML(false)
	case List:
	case OPML:
		_, err := out.w.WriteString(xml.Header + "<opml version=\"2.0\">\n<head><title>Channels of Shoal</title></head>\n<body>\n")
		return out, err
	default:
		return nil, fmt.Errorf("%w %q: lists are written as csv, jsonl, list or opml", ErrFormat, f)
	}
	return out, nil
}

// Write writes a channel.
func (w *Writer) Write(ch *channel.Channel) error {
	r := Of(ch)
	switch w.f {
	case CSV:
		row := make([]string, len(columns))
		for i := range columns {
			row[i] = columns[i].text(&r)
		}
		return w.csv.Write(row)
	case JSON:
		return w.json.Encode(&r)
	case OPML:
		if _, err := w.w.WriteString(`<outline type="link" text="`); err != nil {
			return err
		}
		for _, part := range []string{r.Host, `" htmlUrl="`, r.URL} {
			if part == `" htmlUrl="` {
				if _, err := w.w.WriteString(part); err != nil {
					return err
				}
				continue
			}
			if err := xml.EscapeText(w.w, []byte(part)); err != nil {
				return err
			}
		}
		_, err := w.w.WriteString("\"/>\n")
		return err
	}
	_, err := w.w.WriteString(r.URL + "\n")
	return err
}

// Close writes the end of the list. It does not close the underlying writer.
func (w *Writer) Close() error {
	if w.csv != nil {
		w.csv.Flush()
		if err := w.csv.Error(); err != nil {
			return err
		}
	}
	if w.f == OPML {
		if _, err := w.w.WriteString("</body>\n</opml>\n"); err != nil {
			return err
		}
	}
	return w.w.Flush()
}
