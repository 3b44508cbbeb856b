package channel

import "math/bits"

// Shingler makes the similarity fingerprint of a text: one-permutation MinHash over runs of three words, one bit of each of 64 minima
// (Li and König, "b-Bit Minwise Hashing", WWW 2010; Li, Owen, Zhang, "One Permutation Hashing", NIPS 2012). Texts that share a part J of
// their runs agree in (1+J)/2 of the bits. Markup is not for it. The zero value is ready.
type Shingler struct {
	min      [64]uint64 // 0: none yet
	one, two uint64     // the words before
	words    int
	exact    uint64 // of all words in their order
}

const (
	fnvOffset = 14695981039346656037
	fnvPrime  = 1099511628211
)

// Add takes the next piece of text. A word ends at its end.
func (s *Shingler) Add(text []byte) {
	var h uint64 // of the word that has begun; 0: none
	for _, c := range text {
		if isWord[c] {
			if h == 0 {
				h = fnvOffset
			}
			h = (h ^ uint64(c|0x20)) * fnvPrime
			continue
		}
		if h != 0 {
			s.word(h)
			h = 0
		}
	}
	if h != 0 {
		s.word(h)
	}
}

var isWord = func() (t [256]bool) {
	for c := range t {
		t[c] = c >= 0x80 || c >= '0' && c <= '9' || c|0x20 >= 'a' && c|0x20 <= 'z'
	}
	return t
}()

func (s *Shingler) word(h uint64) {
	s.words++
	s.exact = (s.exact ^ h) * fnvPrime
	x := h ^ bits.RotateLeft64(s.one, 21) ^ bits.RotateLeft64(s.two, 42)
	s.one, s.two = h, s.one
	x *= 0x9e3779b97f4a7c15
	x ^= x >> 32
	x *= 0xd6e8feb86659fd93
	x ^= x >> 32
	if v := x | 1<<63; s.min[x&63] == 0 || v < s.min[x&63] {
		s.min[x&63] = v
	}
}

// Sum is the fingerprint of what was added; zero for a text without words.
func (s *Shingler) Sum() uint64 {
	if s.words == 0 {
		return 0
	}
	// A bin without a minimum takes that of the next bin that has one, so that short texts compare as well.
	last := uint64(0)
	for i := 63; last == 0; i-- {
		last = s.min[i]
	}
	var sum uint64
	for i := range 64 {
		v := s.min[63-i]
		if v == 0 {
			v = last
		}
		last = v
		sum = sum<<1 | v>>6&1
	}
	return max(sum, 1)
}

// Text tells how many words were added, and a hash of them in their order: fingerprints of short texts are alike by chance.
func (s *Shingler) Text() (words int, exact uint64) { return s.words, s.exact }

// NearBits is how many bits of two fingerprints may differ for their texts to count as nearly the same: about nine tenths of the runs
// of words are shared then.
const NearBits = 5

// Near tells whether two fingerprints are of nearly the same text. Zero is near nothing.
func Near(a, b uint64) bool {
	return a != 0 && b != 0 && bits.OnesCount64(a^b) <= NearBits
}
