package lease

import (
	"encoding/binary"
	"errors"
	"fmt"

	"shoal/channel"
)

// ErrMalformed is wrapped when stored bytes are no Issue or Fence.
var ErrMalformed = errors.New("lease: malformed record")

// Sizes and versions of the stored forms.
const (
	IssueSize = 1 + 5*8 + 3 + 4
	FenceSize = 1 + 4*8 + 32 + 8 + 2

	issueV1 = 1 // without who failed
	issueV2 = 2
	fenceV1 = 1

	issueV1Size = IssueSize - 4
)

// Append appends the stored form of i.
func (i *Issue) Append(b []byte) []byte {
	b = append(b, issueV2)
	b = binary.BigEndian.AppendUint64(b, uint64(i.Gen))
	b = binary.BigEndian.AppendUint64(b, uint64(i.Live))
	b = binary.BigEndian.AppendUint64(b, uint64(i.Done))
	b = binary.BigEndian.AppendUint64(b, i.seen)
	b = binary.BigEndian.AppendUint64(b, uint64(i.until))
	b = append(b, byte(i.Phase), i.Tries, byte(i.last))
	return binary.BigEndian.AppendUint32(b, i.failed)
}

// ParseIssue reads the stored form of an Issue.
func ParseIssue(b []byte) (Issue, error) {
	if !(len(b) == IssueSize && b[0] == issueV2 || len(b) == issueV1Size && b[0] == issueV1) {
		return Issue{}, fmt.Errorf("%w: issue of %d bytes", ErrMalformed, len(b))
	}
	i := Issue{
		Gen:   channel.Gen(binary.BigEndian.Uint64(b[1:])),
		Live:  channel.Gen(binary.BigEndian.Uint64(b[9:])),
		Done:  channel.Gen(binary.BigEndian.Uint64(b[17:])),
		seen:  binary.BigEndian.Uint64(b[25:]),
		until: int64(binary.BigEndian.Uint64(b[33:])),
		Phase: Phase(b[41]), Tries: b[42], last: Kind(b[43]),
	}
	if b[0] == issueV2 {
		i.failed = binary.BigEndian.Uint32(b[44:])
	}
	if i.Phase > Marked || i.last > Reported || i.Live > i.Gen || i.Done > i.Gen {
		return Issue{}, fmt.Errorf("%w: issue in %v, generations %d, %d, %d", ErrMalformed, i.Phase, i.Gen, i.Live, i.Done)
	}
	return i, nil
}

// Append appends the stored form of f.
func (f *Fence) Append(b []byte) []byte {
	b = append(b, fenceV1)
	b = binary.BigEndian.AppendUint64(b, uint64(f.Gen))
	b = binary.BigEndian.AppendUint64(b, uint64(f.Offered))
	b = binary.BigEndian.AppendUint64(b, uint64(f.Peer))
	b = binary.BigEndian.AppendUint64(b, f.Seq)
	b = append(b, f.Head[:]...)
	b = binary.BigEndian.AppendUint64(b, uint64(f.until))
	return append(b, byte(f.hold), f.brought())
}

// ParseFence reads the stored form of a Fence.
func ParseFence(b []byte) (Fence, error) {
	if len(b) != FenceSize || b[0] != fenceV1 {
		return Fence{}, fmt.Errorf("%w: fence of %d bytes", ErrMalformed, len(b))
	}
	f := Fence{
		Gen:     channel.Gen(binary.BigEndian.Uint64(b[1:])),
		Offered: channel.Gen(binary.BigEndian.Uint64(b[9:])),
		Peer:    Peer(binary.BigEndian.Uint64(b[17:])),
		Seq:     binary.BigEndian.Uint64(b[25:]),
		Head:    [32]byte(b[33:65]),
		until:   int64(binary.BigEndian.Uint64(b[65:])),
		hold:    hold(b[73]), again: b[74]&claimedAgain != 0,
	}
	brought := b[74] &^ claimedAgain
	f.progress, f.stored = brought == chunks, brought != nothing
	if f.hold > done || brought > emptyChunks || (f.hold == free) != (f.Gen == 0) {
		return Fence{}, fmt.Errorf("%w: fence at generation %d, hold %d", ErrMalformed, f.Gen, f.hold)
	}
	return f, nil
}

// What was stored under a fence's generation, as it is written.
const (
	nothing     = iota
	chunks      // some of them brought something
	emptyChunks // none of them did

	claimedAgain = 1 << 7 // a bit beside these: Fence.again
)

func (f *Fence) brought() byte {
	b := byte(nothing)
	switch {
	case f.progress:
		b = chunks
	case f.stored:
		b = emptyChunks
	}
	if f.again {
		b |= claimedAgain
	}
	return b
}
