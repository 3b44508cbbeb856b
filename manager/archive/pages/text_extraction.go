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
)

// Bounds of one step of the worker that extracts text.
const (
	textBatch = 128              // changes
	textPause = time.Second / 2  // between steps, so that many changes share one sync
	textRetry = 10 * time.Second // after a failure
	textYield = 9                // times what it took, a step rests while chunks are stored
	// What cannot be read is tried so often: the first where others can be read meanwhile, the second, an hour, where nothing else is read. A step ends with its first few failures.
	textTries      = 6
	textTriesAlone = 360
	textFails      = 8

	textLate = time.Minute // behind the page feed, from where on it does not rest: the feed is kept until it was read
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

// extractAll makes the texts of some changes. What cannot be read is tried again, and with it all of them; see passOver.
func (p *Pages) extractAll(ctx context.Context, changes []Change) (out []ledger.Change, err error) {
	read, fresh := false, 0
	var failed []failedText
	for _, c := range changes {
		begun := time.Now()
		add, ok, err := p.extract(c)
		if err != nil {
			f := failedText{c, p.failed.add(c), err}
			if !f.enough(read) {
				fresh++
			}
			if fresh == textFails {
				return nil, err
			}
			failed = append(failed, f)
		}
		out, read = append(out, add...), read || ok
		if err := p.yield(ctx, begun, c.When); err != nil {
			return nil, err
		}
	}
	if err := p.passOver(failed, read); err != nil {
		return nil, err
	}
	p.failed = nil
	return out, nil
}

// failedText is a change whose text could not be made, so many times in turn.
type failedText struct {
	Change
	tries int
	err   error
}

// enough tells whether it was tried often enough to leave the text out. read says that others could be read at the same time.
func (f failedText) enough(read bool) bool {
	return f.tries >= textTriesAlone || read && f.tries >= textTries
}

// textFailures is how often in turn the texts of some changes could not be made, by their cursors.
type textFailures map[string]int

// add counts one more.
func (n *textFailures) add(c Change) int {
	if *n == nil {
		*n = textFailures{}
	}
	(*n)[c.Cursor]++
	return (*n)[c.Cursor]
}

// passOver leaves out the texts that could not be made, or tells why they are tried again. One bad place of a disk must not hold up the feed, which is kept until it was
// read; but a disk or a server that does not answer for a while must cost no text.
func (p *Pages) passOver(failed []failedText, read bool) error {
	for _, f := range failed {
		if !f.enough(read) {
			return f.err
		}
	}
	for _, f := range failed {
		p.damaged.Add(1)
		p.cfg.Log.Error("the text of a page is left out, as its record cannot be read: look at the disk or the bucket, and at what shoal archive verify tells", "url", f.URL, "fetched", f.Fetched, "tries", f.tries, "err", f.err)
	}
	return nil
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

// extract makes the stored text of a changed page; nothing if there is one, or nothing to read. A version that is verified now, or no more, was told before. read says that its
// content was read.
func (p *Pages) extract(c Change) (out []ledger.Change, read bool, err error) {
	if c.Event == Gone || c.Event == Verified || c.Event == Unverified || !text.Readable(c.Mime) {
		return nil, false, nil
	}
	content, err := p.Content(c)
	if errors.Is(err, ErrNotFound) || damaged(err) {
		return nil, false, nil // it was removed since, or is damaged: verify tells
	}
	if err != nil || content.Text != nil {
		return nil, err == nil, err
	}
	m := &pb.Text{}
	t, err := text.Extract(c.URL, content.ContentType(), content.Body)
	if err != nil {
		m.None = true
	} else {
		m.Title, m.Lang, m.Body = t.Title, t.Lang, packText(t.Body)
	}
	out, err = ledger.Put(nil, schema.PayloadKey(schema.Text, content.sha[:]), m)
	return out, true, err
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
