package pages

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/klauspost/compress/zstd"

	pb "shoal/manager/archive/archivepb"
	"shoal/manager/archive/ledger"
	"shoal/manager/archive/schema"
	"shoal/manager/archive/text"
	"shoal/manager/archive/warc"
)

// Bounds of one step of the worker that extracts text.
const (
	textBatch = 128              // changes
	textPause = time.Second / 2  // between steps, so that many changes share one sync
	textRetry = 10 * time.Second // after a failure
	textYield = 9                // times what it took, a step rests while chunks are stored
	textLate  = time.Minute      // behind the page feed, from where on it does not rest: the feed is kept until it was read
)

// Run counts pages by their states, and extracts the main text of what the page feed tells, as far behind as it must be, until ctx ends.
func (p *Pages) Run(ctx context.Context) {
	var counting sync.WaitGroup
	counting.Go(func() { p.keepCounting(ctx) })
	defer counting.Wait()
	if p.cfg.NoText {
		return
	}
	for ctx.Err() == nil {
		more := p.ledger.Notify()
		n, err := p.ExtractText(ctx)
		wait := textPause
		if err != nil && ctx.Err() == nil {
			p.cfg.Log.Error("text extraction failed, will try again", "err", err)
			wait = textRetry
		}
		if n == textBatch { // more waits
			continue
		}
		if n == 0 && err == nil {
			select {
			case <-more:
			case <-p.lotLost():
			case <-ctx.Done():
			}
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
		}
	}
}

// ExtractText does one step of text extraction and tells how many changes it saw. Run calls it; one at a time.
func (p *Pages) ExtractText(ctx context.Context) (int, error) {
	p.texting.Lock()
	defer p.texting.Unlock()
	if p.ledger.Others.Shared() {
		return p.extractLot(ctx)
	}
	var done pb.Progress
	key := schema.ProgressKey(schema.Texts)
	if err := p.ledger.View(func(snap ledger.Snapshot) error { _, err := ledger.Get(snap, key, &done); return err }); err != nil {
		return 0, err
	}
	changes, next, err := p.Changes(ctx, p.ledger.Cursor(schema.Changes, done.Seq), textBatch)
	if errors.Is(err, ledger.ErrTrimmed) { // while no text was extracted, retention did not wait for it
		changes, next, err = p.Changes(ctx, "", textBatch)
	}
	if err != nil || len(changes) == 0 {
		if err == nil {
			p.text.set(done.Events, time.Time{})
		}
		return 0, err
	}
	p.text.set(done.Events, changes[0].When)
	out, err := p.extractAll(ctx, changes)
	if err != nil {
		return 0, err
	}
	if done.Seq, err = p.ledger.Position(schema.Changes, next); err != nil {
		return 0, err
	}
	done.Events += uint64(len(changes))
	v, err := schema.Encode(&done)
	if err != nil {
		return 0, err
	}
	if err := p.ledger.Change(append(out, ledger.Change{Key: key, Value: v})...); err != nil {
		return 0, err
	}
	p.text.set(done.Events, time.Time{})
	return len(changes), nil
}

// extractAll makes the texts of some changes.
func (p *Pages) extractAll(ctx context.Context, changes []Change) (out []ledger.Change, err error) {
	for _, c := range changes {
		begun := time.Now()
		add, err := p.extract(c)
		if err != nil {
			return nil, err
		}
		out = append(out, add...)
		if err := p.yield(ctx, begun, c.When); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// yield leaves the processor to chunks while there are any: what took t is followed by a rest of textYield times that, or of less, the longer ago the change
// is whose text was made.
func (p *Pages) yield(ctx context.Context, begun, changed time.Time) error {
	early := 1 - p.cfg.Clock().Sub(changed).Seconds()/textLate.Seconds()
	if early > 0 && p.ledger.Busy(time.Second) {
		select {
		case <-time.After(time.Duration(textYield * min(early, 1) * float64(time.Since(begun)))):
		case <-ctx.Done():
		}
	}
	return ctx.Err()
}

// extract makes the stored text of a changed page; nothing if there is one, or nothing to read. A version that is verified now was told before.
func (p *Pages) extract(c Change) ([]ledger.Change, error) {
	if c.Event == Gone || c.Event == Verified || !text.Readable(c.Mime) {
		return nil, nil
	}
	content, err := p.Content(c)
	if errors.Is(err, ErrNotFound) || errors.Is(err, warc.ErrMalformed) {
		return nil, nil // it was removed since, or is damaged: verify tells
	}
	if err != nil || content.Text != nil {
		return nil, err
	}
	m := &pb.Text{}
	t, err := text.Extract(c.URL, content.ContentType(), content.Body)
	if err != nil {
		m.None = true
	} else {
		m.Title, m.Lang, m.Body = t.Title, t.Lang, packText(t.Body)
	}
	v, err := schema.Encode(m)
	if err != nil {
		return nil, err
	}
	return []ledger.Change{{Key: schema.PayloadKey(schema.Text, content.sha[:]), Value: v}}, nil
}

// storedText finds the text of a payload; nil: not extracted yet.
func storedText(snap ledger.Snapshot, sha []byte) (*text.Text, error) {
	if len(sha) < 16 {
		return nil, nil
	}
	var m pb.Text
	ok, err := ledger.Get(snap, schema.PayloadKey(schema.Text, sha), &m)
	if err != nil || !ok {
		return nil, err
	}
	body, err := unpackText(m.Body)
	if err != nil {
		return nil, fmt.Errorf("%w: text: %w", schema.ErrValue, err)
	}
	return &text.Text{Title: m.Title, Lang: m.Lang, Body: body}, nil
}

// textPackers are encoders in use again and again: one is more than a megabyte, and a text mostly a few thousand bytes.
var textPackers = sync.Pool{New: func() any {
	e, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(1<<20), zstd.WithLowerEncoderMem(true))
	if err != nil {
		return nil // the options are right
	}
	return e
}}

func packText(s string) []byte {
	e, ok := textPackers.Get().(*zstd.Encoder)
	if !ok {
		return nil
	}
	defer textPackers.Put(e)
	return e.EncodeAll([]byte(s), nil)
}

func unpackText(b []byte) (string, error) {
	if len(b) == 0 {
		return "", nil
	}
	d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(4*text.MaxOut))
	if err != nil {
		return "", err
	}
	defer d.Close()
	out, err := d.DecodeAll(b, nil)
	return string(out), err
}
