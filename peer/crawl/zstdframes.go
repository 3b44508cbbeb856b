package crawl

import (
	"encoding/binary"
	"errors"
	"io"

	"github.com/klauspost/compress/zstd"
)

// zstdBody reads the frames of a zstd stream (RFC 8878) and ignores what follows the last one, as for gzip. The decoder tells four octets that begin no frame from a frame
// that breaks off, but not one to three: these it would take for the beginning of a frame. So the frames are followed on their way to it.
type zstdBody struct {
	z  io.Reader
	in *zstdFrames
}

func (r *zstdBody) Read(b []byte) (int, error) {
	n, err := r.z.Read(b)
	if r.in.whole > 0 && (errors.Is(err, zstd.ErrMagicMismatch) || errors.Is(err, io.ErrUnexpectedEOF) && r.in.next == zstdMagic) {
		err = io.EOF
	}
	return n, err
}

// zstdFrames passes a stream on and knows where in a frame it is.
type zstdFrames struct {
	r     io.Reader
	whole int // frames that have ended

	next    zstdPart
	part    [14]byte // what has come of a part that is read; the longest is a frame's header
	have    int
	skip    int64 // octets of a block, or of a frame that is to be skipped
	summed  bool  // a check follows the last block
	last    bool  // this block is the last one
	skipped bool  // the frame is one to be skipped
}

// zstdPart is what comes next in a stream.
type zstdPart int

const (
	zstdMagic zstdPart = iota
	zstdHeader
	zstdBlock
	zstdContent // of a block, or of a frame that is to be skipped
	zstdCheck
	zstdLost // this is no frame: the decoder says so
)

func (f *zstdFrames) Read(b []byte) (int, error) {
	n, err := f.r.Read(b)
	for p := b[:n]; len(p) > 0 && f.next != zstdLost; {
		if f.next == zstdContent {
			k := min(f.skip, int64(len(p)))
			if p, f.skip = p[k:], f.skip-k; f.skip == 0 {
				f.contentEnds()
			}
			continue
		}
		f.part[f.have] = p[0]
		p, f.have = p[1:], f.have+1
		f.step()
	}
	return n, err
}

// step takes an octet of a part in, and goes on to the next part if this one is complete.
func (f *zstdFrames) step() {
	part := f.part[:f.have]
	switch f.next {
	case zstdMagic:
		if f.have < 4 {
			return
		}
		switch magic := binary.LittleEndian.Uint32(part); {
		case magic == 0xfd2fb528:
			f.begin(zstdHeader, false)
		case magic&^0xf == 0x184d2a50:
			f.begin(zstdHeader, true)
		default:
			f.next = zstdLost
		}
	case zstdHeader:
		f.header(part)
	case zstdBlock:
		if f.have < 3 {
			return
		}
		head := uint32(part[0]) | uint32(part[1])<<8 | uint32(part[2])<<16
		f.last, f.skip = head&1 == 1, int64(head>>3)
		if head>>1&3 == 1 { // one octet, which is repeated
			f.skip = 1
		}
		f.content()
	case zstdCheck:
		if f.have == 4 {
			f.ends()
		}
	}
}

// header takes a frame's header in, which is the longer the more it says.
func (f *zstdFrames) header(part []byte) {
	if f.skipped {
		if len(part) == 4 {
			f.skip = int64(binary.LittleEndian.Uint32(part))
			f.content()
		}
		return
	}
	says := part[0]
	single := says>>5&1 == 1
	long := 1 + []int{0, 1, 2, 4}[says&3] + []int{0, 2, 4, 8}[says>>6]
	switch {
	case !single:
		long++ // the window's size
	case says>>6 == 0:
		long++ // the content's size in one octet
	}
	if len(part) == long {
		f.summed = says>>2&1 == 1
		f.begin(zstdBlock, false)
	}
}

func (f *zstdFrames) begin(next zstdPart, skipped bool) {
	f.next, f.have, f.skipped = next, 0, skipped
}

// content begins what is skipped.
func (f *zstdFrames) content() {
	f.next, f.have = zstdContent, 0
	if f.skip == 0 {
		f.contentEnds()
	}
}

func (f *zstdFrames) contentEnds() {
	switch {
	case f.skipped || f.last && !f.summed:
		f.ends()
	case f.last:
		f.begin(zstdCheck, false)
	default:
		f.begin(zstdBlock, false)
	}
}

func (f *zstdFrames) ends() {
	f.begin(zstdMagic, false)
	f.whole++
}
