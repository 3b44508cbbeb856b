package schema

import (
	"encoding/binary"
	"fmt"
	"math"
)

// EncodeLinks makes the stored form of a page's links, by URL hash.
func EncodeLinks(urls []uint64) []byte {
	v := append(make([]byte, 0, 1+8*len(urls)), ValueV1)
	for _, u := range urls {
		v = binary.BigEndian.AppendUint64(v, u)
	}
	return v
}

// DecodeLinks appends to out what EncodeLinks wrote.
func DecodeLinks(out []uint64, v []byte) ([]uint64, error) {
	if len(v)%8 != 1 || v[0] != ValueV1 {
		return out, fmt.Errorf("%w: links of %d bytes", ErrValue, len(v))
	}
	for v = v[1:]; len(v) > 0; v = v[8:] {
		out = append(out, binary.BigEndian.Uint64(v))
	}
	return out, nil
}

// EncodeRank makes the stored form of a page's PageRank.
func EncodeRank(r float32) []byte {
	return binary.BigEndian.AppendUint32([]byte{ValueV1}, math.Float32bits(r))
}

// DecodeRank reads what EncodeRank wrote.
func DecodeRank(v []byte) (float32, error) {
	if len(v) != 5 || v[0] != ValueV1 {
		return 0, fmt.Errorf("%w: rank of %d bytes", ErrValue, len(v))
	}
	r := math.Float32frombits(binary.BigEndian.Uint32(v[1:]))
	if !(r > 0 && r <= 1) {
		return 0, fmt.Errorf("%w: rank %v", ErrValue, r)
	}
	return r, nil
}
