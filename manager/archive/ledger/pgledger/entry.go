package pgledger

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/klauspost/compress/zstd"

	"shoal/manager/archive/ledger"
)

// errEntry says that an entry of the log is not what a commit wrote.
var errEntry = errors.New("archive: an entry of the ledger's log cannot be read")

// What begins an entry, before it is packed. The first version has no Write.Also, and the second one no Write.Number.
const (
	entryV1 = 1
	entryV2 = 2
	entryV3 = 3
)

// maxEntry bounds an entry, unpacked.
const maxEntry = 1 << 30

// packer packs entries. Its methods may be called by several goroutines.
type packer struct {
	to   *zstd.Encoder
	from *zstd.Decoder
}

func newPacker() (p packer, err error) {
	if p.to, err = zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1)); err != nil {
		return p, err
	}
	p.from, err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxEntry))
	return p, err
}

func (p packer) pack(writes []ledger.Write) []byte { return p.to.EncodeAll(encode(writes), nil) }

func (p packer) unpack(body []byte) ([]ledger.Write, error) {
	b, err := p.from.DecodeAll(body, nil)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errEntry, err)
	}
	return decode(b)
}

// encode makes the form of writes in which the log has them: numbers are varints, bytes follow their length.
func encode(writes []ledger.Write) []byte {
	version := byte(entryV2) // for programs that do not know the third, where that says nothing more
	if slices.ContainsFunc(writes, func(w ledger.Write) bool { return w.Number > 0 }) {
		version = entryV3
	}
	b := binary.AppendUvarint([]byte{version}, uint64(len(writes)))
	for i := range writes {
		w := &writes[i]
		b = appendChange(appendChange(b, w.If), w.Also)
		for _, changes := range [][]ledger.Change{w.Early, w.Changes} {
			b = binary.AppendUvarint(b, uint64(len(changes)))
			for _, c := range changes {
				b = appendChange(b, c)
			}
		}
		b = binary.AppendUvarint(b, uint64(len(w.Entries)))
		for _, e := range w.Entries {
			b = appendBytes(append(b, e.Feed), e.Value)
		}
		for _, n := range []uint64{w.Add.Pages, w.Add.Unchanged, w.Add.Chunks, w.Add.Bytes, w.Add.Events, uint64(w.Segment)} {
			b = binary.AppendUvarint(b, n)
		}
		if version >= entryV3 {
			b = binary.AppendUvarint(b, w.Number)
		}
	}
	return b
}

func appendBytes(b, v []byte) []byte { return append(binary.AppendUvarint(b, uint64(len(v))), v...) }

// appendChange tells no value from an empty one by a length that is one more.
func appendChange(b []byte, c ledger.Change) []byte {
	b = appendBytes(b, c.Key)
	if c.Value == nil {
		return binary.AppendUvarint(b, 0)
	}
	return append(binary.AppendUvarint(b, uint64(len(c.Value))+1), c.Value...)
}

// decode reads what encode wrote. Its result refers to b.
func decode(b []byte) ([]ledger.Write, error) {
	d := decoder{b: b}
	version := d.byte()
	if version < entryV1 || version > entryV3 {
		return nil, fmt.Errorf("%w: unknown version", errEntry)
	}
	var out []ledger.Write
	for n := d.count(); n > 0 && !d.bad; n-- {
		w := ledger.Write{If: d.change()}
		if version >= entryV2 {
			w.Also = d.change()
		}
		w.Early, w.Changes = d.changes(), d.changes()
		for n := d.count(); n > 0 && !d.bad; n-- {
			w.Entries = append(w.Entries, ledger.Entry{Feed: d.byte(), Value: d.bytes(d.count())})
		}
		w.Add = ledger.Totals{Pages: d.number(), Unchanged: d.number(), Chunks: d.number(), Bytes: d.number(), Events: d.number()}
		w.Segment = uint32(d.number())
		if version >= entryV3 {
			w.Number = d.number()
		}
		out = append(out, w)
	}
	if d.bad || len(d.b) > 0 {
		return nil, fmt.Errorf("%w: %d bytes", errEntry, len(b))
	}
	return out, nil
}

// decoder reads on until something is wrong.
type decoder struct {
	b   []byte
	bad bool
}

func (d *decoder) number() uint64 {
	n, size := binary.Uvarint(d.b)
	if size <= 0 {
		d.bad, d.b = true, nil
		return 0
	}
	d.b = d.b[size:]
	return n
}

// count reads a number of bytes or of things that have at least one byte each.
func (d *decoder) count() uint64 {
	n := d.number()
	if n > uint64(len(d.b)) {
		d.bad, d.b = true, nil
		return 0
	}
	return n
}

func (d *decoder) byte() byte {
	b := d.bytes(1)
	if d.bad {
		return 0
	}
	return b[0]
}

func (d *decoder) bytes(n uint64) []byte {
	if n > uint64(len(d.b)) {
		d.bad, d.b = true, nil
		return nil
	}
	out := d.b[:n:n]
	d.b = d.b[n:]
	return out
}

func (d *decoder) change() (c ledger.Change) {
	if c.Key = d.bytes(d.count()); len(c.Key) == 0 {
		c.Key = nil
	}
	if n := d.number(); n > 0 {
		if c.Value = d.bytes(n - 1); c.Value == nil {
			c.Value = []byte{}
		}
	}
	return c
}

func (d *decoder) changes() (out []ledger.Change) {
	for n := d.count(); n > 0 && !d.bad; n-- {
		out = append(out, d.change())
	}
	return out
}
