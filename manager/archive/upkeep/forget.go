package upkeep

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"

	"google.golang.org/protobuf/encoding/protowire"

	pb "shoal/manager/archive/archivepb"
	"shoal/manager/archive/ledger"
	"shoal/manager/archive/pages"
	"shoal/manager/archive/schema"
	"shoal/manager/archive/segment"
)

// retainCaptures deletes what is beyond count and age, and tells how many captures that are. A chunk may find the payload of what is deleted by its digest at the same
// time, and rest on it. So digests are forgotten first; what was found by them until then is seen when captures are deleted.
func (u *Upkeep) retainCaptures(ctx context.Context, r Retention, dry bool) (int, error) {
	f, b := forgetter{u, r}, u.ledger.Batch()
	count, err := f.beyond(ctx, func(snap ledger.Snapshot, v *sight) (bool, error) {
		content, err := f.contentAt(snap, v)
		if err == nil && content != nil && !dry {
			err = firstOf(b.Delete(content), b.Delete(schema.PayloadKey(schema.Text, content[1:])))
		}
		return true, err
	})
	if err = firstOf(err, b.Flush()); err != nil || count == 0 || dry {
		return count, err
	}
	if err := u.ledger.Others.WaitForAll(ctx); err != nil {
		return 0, err
	}
	b = u.ledger.Batch()
	count, err = f.beyond(ctx, func(snap ledger.Snapshot, v *sight) (bool, error) {
		if content, err := f.contentAt(snap, v); err != nil || content != nil {
			return false, err // it was stored since: the next time
		}
		return true, b.Delete(v.key)
	})
	return count, firstOf(err, b.Flush())
}

// forgetter finds what a retention does not keep.
type forgetter struct {
	*Upkeep
	Retention
}

// beyond calls do for the captures that are beyond count and age, and counts those that it wants counted. Keys of one URL stand together, oldest first, both schemes
// mixed.
func (f *forgetter) beyond(ctx context.Context, do func(snap ledger.Snapshot, v *sight) (bool, error)) (count int, err error) {
	err = f.ledger.View(func(snap ledger.Snapshot) error {
		kept, holds := pages.Kept(snap), f.holders(ctx, snap)
		remove := func(v *sight) error {
			for _, needed := range []func() (bool, error){func() (bool, error) { return kept(v.key) }, func() (bool, error) { return holds(v) }} {
				if is, err := needed(); err != nil || is {
					return err
				}
			}
			is, err := do(snap, v)
			if is {
				count++
			}
			return err
		}
		return eachPage(ctx, snap, func(all []sight) error { return f.forgetOld(all, remove) })
	})
	return count, err
}

// eachPage calls do for all captures of each page, oldest first. do must not keep them.
func eachPage(ctx context.Context, snap ledger.Snapshot, do func(all []sight) error) error {
	url := ""
	var visits [2][]sight // of the URL, by scheme
	done := func() error {
		for n, all := range visits {
			if len(all) > 0 {
				if err := do(all); err != nil {
					return err
				}
			}
			visits[n] = all[:0]
		}
		return nil
	}
	err := snap.Scan([]byte{schema.Capture}, nil, true, func(key, value []byte) (bool, error) {
		surt, _, https := schema.CaptureOf(key)
		if surt != url {
			if err := done(); err != nil {
				return false, err
			}
			url = surt
		}
		n := 0
		if https {
			n = 1
		}
		v, err := sightOf(key, value)
		visits[n] = append(visits[n], v)
		return true, firstOf(err, ctx.Err())
	})
	return firstOf(err, done())
}

// holders tells whether the record of a capture holds the payload of captures of other pages, which readers of WARC files find by its URL and time. It looks for such
// records when it is asked first.
func (f *forgetter) holders(ctx context.Context, snap ledger.Snapshot) func(v *sight) (bool, error) {
	var found records
	return func(v *sight) (bool, error) {
		at, err := f.pages.Locate(snap, v.at)
		if v.original != (segment.Location{}) || errors.Is(err, pages.ErrNotFound) {
			return false, nil
		}
		if err == nil && found == nil {
			found, err = f.heldElsewhere(ctx, snap)
		}
		return found.has(at), err
	}
}

// heldElsewhere finds the records that hold the payloads of captures of other pages.
func (f *forgetter) heldElsewhere(ctx context.Context, snap ledger.Snapshot) (records, error) {
	out := records{}
	own := map[segment.Location]bool{}
	return out, eachPage(ctx, snap, func(all []sight) error {
		clear(own)
		for n := range all {
			own[all[n].at] = true
		}
		for n := range all {
			original := all[n].original
			if original == (segment.Location{}) || own[original] {
				continue
			}
			switch at, err := f.pages.Locate(snap, original); {
			case err == nil:
				out.add(at)
			case !errors.Is(err, pages.ErrNotFound):
				return err
			}
		}
		return nil
	})
}

// contentAt is the key under which the payload of a capture is found by its digest, if that leads to this capture's record; nil: it does not.
func (f *forgetter) contentAt(snap ledger.Snapshot, v *sight) (key []byte, err error) {
	if v.original != (segment.Location{}) {
		return nil, nil
	}
	m, c := new(pb.Capture), new(pb.Content)
	if ok, err := ledger.Get(snap, v.key, m); err != nil || !ok || len(m.Sha256) < 16 {
		return nil, err
	}
	key = schema.PayloadKey(schema.Content, m.Sha256)
	if ok, err := ledger.Get(snap, key, c); err != nil || !ok || schema.Location(c.At) != v.at {
		return nil, err
	}
	return key, nil
}

// sight is what retention looks at of a capture. There are millions, of which few are forgotten.
type sight struct {
	key               []byte
	digest, deliverer uint64
	sha               [8]byte // the beginning
	said, there       bool
	at, original      segment.Location // of its record; and of that which holds the payload, if that is another
}

// sightOf reads a stored pb.Capture, but for what is not looked at: that is ten times as quick.
func sightOf(key, value []byte) (v sight, err error) {
	if len(value) == 0 || value[0] != schema.ValueV1 {
		return v, fmt.Errorf("%w: capture of %d bytes", schema.ErrValue, len(value))
	}
	v.key = bytes.Clone(key)
	status := uint64(0)
	for b := value[1:]; len(b) > 0; {
		num, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return v, fmt.Errorf("%w: capture: %w", schema.ErrValue, protowire.ParseError(n))
		}
		switch field := b[n:]; {
		case num == captureStatus && kind == protowire.VarintType:
			status, _ = protowire.ConsumeVarint(field)
		case num == captureAt && kind == protowire.BytesType:
			v.at = locationOf(field)
		case num == captureOriginal && kind == protowire.BytesType:
			v.original = locationOf(field)
		case num == captureSha && kind == protowire.BytesType:
			sha, _ := protowire.ConsumeBytes(field)
			copy(v.sha[:], sha)
		case num == captureDeliverer && kind == protowire.Fixed64Type:
			v.deliverer, _ = protowire.ConsumeFixed64(field)
		case num == captureSaid && kind == protowire.VarintType:
			said, _ := protowire.ConsumeVarint(field)
			v.said = said != 0
		case num == captureDigest && kind == protowire.Fixed64Type:
			v.digest, _ = protowire.ConsumeFixed64(field)
		}
		m := protowire.ConsumeFieldValue(num, kind, b[n:])
		if m < 0 {
			return v, fmt.Errorf("%w: capture: %w", schema.ErrValue, protowire.ParseError(m))
		}
		b = b[n+m:]
	}
	v.there = status >= 200 && status < 300 || status == http.StatusNotModified // only of a page that is there a server says that nothing has changed
	return v, nil
}

// Fields of pb.Capture.
const (
	captureAt        = 1
	captureStatus    = 2
	captureSha       = 3
	captureOriginal  = 6
	captureDeliverer = 7
	captureSaid      = 8
	captureDigest    = 10
)

// locationOf reads a stored pb.Location that stands in a field.
func locationOf(field []byte) (at segment.Location) {
	b, _ := protowire.ConsumeBytes(field)
	for len(b) > 0 {
		num, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return at
		}
		if kind == protowire.VarintType {
			switch number, _ := protowire.ConsumeVarint(b[n:]); num {
			case 1:
				at.Segment = uint32(number)
			case 2:
				at.Offset = number
			case 3:
				at.Length = uint32(number)
			}
		}
		m := protowire.ConsumeFieldValue(num, kind, b[n:])
		if m < 0 {
			return at
		}
		b = b[n+m:]
	}
	return at
}

// forgetOld removes the captures of one page that are beyond count and age, of all in order of time. The last one stays, and with a capture that is kept what says whose
// version it is: the visit that brought it, and the first one of another peer that fetched the same; and that whose record holds its payload.
func (f *forgetter) forgetOld(all []sight, remove func(v *sight) error) error {
	oldest := f.cfg.Clock().Add(-f.Age)
	old := func(n int) bool {
		_, at, _ := schema.CaptureOf(all[n].key)
		return f.Age > 0 && at.Before(oldest)
	}
	many := f.Captures > 0 && len(all) > f.Captures
	if len(all) < 2 || !many && !old(0) {
		return nil
	}
	bases := basesOf(all)
	keep := make([]bool, len(all))
	for n := range all {
		keep[n] = !many && !old(n)
	}
	if many {
		for _, n := range lastVisits(bases, f.Captures) {
			keep[n] = !old(n)
		}
	}
	keep[len(all)-1] = true
	keepBeneath(all, bases, keep)
	for n := range all {
		if keep[n] {
			continue
		}
		if err := remove(&all[n]); err != nil {
			return err
		}
	}
	return nil
}

// keepBeneath has what kept captures rest on kept, too.
func keepBeneath(all []sight, bases []int, keep []bool) {
	others, holders := vouchers(all, bases), map[segment.Location]int{}
	var todo []int
	for n := range all {
		holders[all[n].at] = n
		if keep[n] {
			todo = append(todo, n)
		}
	}
	also := func(n int, ok bool) {
		if ok && !keep[n] {
			keep[n] = true
			todo = append(todo, n)
		}
	}
	for len(todo) > 0 {
		n := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		also(bases[n], true)
		other, ok := others[bases[n]]
		also(other, ok)
		if all[n].original != (segment.Location{}) {
			holder, ok := holders[all[n].original]
			also(holder, ok)
		}
	}
}

// lastVisits finds the last visits that saw the newest versions, a number of these. A version that came back counts again.
func lastVisits(bases []int, versions int) (out []int) {
	for n := len(bases) - 1; n >= 0 && len(out) < versions; n-- {
		if n == len(bases)-1 || bases[n] != bases[n+1] {
			out = append(out, n)
		}
	}
	return out
}

// vouchers finds, by the capture that brought a version, the first one of another peer that has fetched the same.
func vouchers(all []sight, bases []int) map[int]int {
	out := map[int]int{}
	for n, base := range bases {
		if _, ok := out[base]; !ok && !all[n].said && all[n].deliverer != all[base].deliverer {
			out[base] = n
		}
	}
	return out
}

// basesOf tells of each capture which one first saw the version that it saw, without another one in between. Where a peer only said that the page is unchanged, the
// version is that peer's who delivered it: a purge finds it by that capture. And what is noted of a version is noted there.
func basesOf(all []sight) []int {
	out := make([]int, len(all))
	for n := range all {
		out[n] = n
		switch {
		case n > 0 && all[n].sameVersion(&all[n-1]):
			out[n] = out[n-1]
		case all[n].said: // of a version that came back, as others in between were withdrawn
			for before := n - 1; before >= 0; before-- {
				if all[n].sameVersion(&all[before]) {
					out[n] = out[before]
					break
				}
			}
		}
	}
	return out
}

func (v *sight) sameVersion(w *sight) bool {
	switch {
	case v.there != w.there:
		return false
	case v.digest != 0 && w.digest != 0:
		return v.digest == w.digest
	}
	return v.sha == w.sha
}
