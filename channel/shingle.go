package channel

import (
	"encoding/binary"
	"math/bits"
)

// Shingler computes the similarity fingerprint of a text: one-permutation MinHash over runs of three words, with one
// bit of each of 64 extremes (Li and König, "b-Bit Minwise Hashing", WWW 2010; Li, Owen, Zhang, "One Permutation
// Hashing", NIPS 2012). Texts that share a part J of their runs agree in (1+J)/2 of the bits. Callers strip the
// markup first. The zero value is ready to use.
type Shingler struct {
	most     [64]uint64 // zero: none yet
	one, two uint64     // the two words before
	words    int
	exact    uint64 // hash of all words in their order
}

const (
	fnvOffset = 14695981039346656037
	fnvPrime  = 1099511628211
)

// Add adds the next piece of text. The end of the piece ends a word.
//
// Add is among the costliest steps of a crawl, so it reads eight octets at a time: it mixes eight octets of a word
// into the hash as FNV-1a mixes one, and looks for the end of the word in all eight at once.
func (s *Shingler) Add(text []byte) {
	const ones = 0x0101010101010101
	h, in := uint64(fnvOffset), false // hash of the word begun so far, and whether there is one
	for len(text) > 0 {
		var x uint64
		if len(text) >= 8 {
			x = binary.LittleEndian.Uint64(text)
		} else {
			var last [8]byte
			copy(last[:], text)
			x = binary.LittleEndian.Uint64(last[:])
		}
		digits, small := x&(0x7f*ones), x|0x20*ones
		letters := small & (0x7f * ones)
		letters = (letters + (0x80-'a')*ones) &^ (letters + (0x7f-'z')*ones)
		digits = (digits + (0x80-'0')*ones) &^ (digits + (0x7f-'9')*ones)
		words := (letters | digits | x) & (0x80 * ones) // the top bit of each octet that belongs to a word; octets beyond ASCII do
		n := bits.TrailingZeros64(^words&(0x80*ones)) >> 3
		if n == 8 {
			h, in = (h^small)*fnvPrime, true
			h ^= h >> 32
			text = text[8:]
			continue
		}
		if n > 0 || in {
			s.word((h ^ small&(1<<(8*n)-1)) * fnvPrime)
			h, in = fnvOffset, false
		}
		next := bits.TrailingZeros64(words>>(8*n)) >> 3 // octets between words; 8: all that remain
		text = text[min(n+next, 8, len(text)):]
	}
	if in {
		s.word(h * fnvPrime)
	}
}

func (s *Shingler) word(h uint64) {
	s.words++
	s.exact = (s.exact ^ h) * fnvPrime
	x := h ^ bits.RotateLeft64(s.one, 21) ^ bits.RotateLeft64(s.two, 42)
	s.one, s.two = h, s.one
	x *= 0x9e3779b97f4a7c15
	x ^= x >> 32
	x *= 0xd6e8feb86659fd93
	x ^= x >> 32
	s.most[x&63] = max(s.most[x&63], x|1<<63) // a maximum serves as well as a minimum, and compiles without a branch
}

// Sum returns the fingerprint of the added text, or zero if it has no words.
func (s *Shingler) Sum() uint64 {
	if s.words == 0 {
		return 0
	}
	// An empty bin takes the value of the next bin that has one, so that short texts compare as well.
	last := uint64(0)
	for i := 63; last == 0; i-- {
		last = s.most[i]
	}
	var sum uint64
	for i := range 64 {
		v := s.most[63-i]
		if v == 0 {
			v = last
		}
		last = v
		sum = sum<<1 | v>>6&1
	}
	return max(sum, 1)
}

// Text returns the number of words added and a hash of them in their order. Callers compare both where texts are
// short, because fingerprints of short texts may agree by chance.
func (s *Shingler) Text() (words int, exact uint64) { return s.words, s.exact }

// NearBits is the number of bits in which two fingerprints may differ if their texts count as nearly the same. Such
// texts share about nine tenths of their runs of words.
const NearBits = 5

// Near reports whether two fingerprints belong to nearly the same text. Zero is near nothing.
func Near(a, b uint64) bool {
	return a != 0 && b != 0 && bits.OnesCount64(a^b) <= NearBits
}
