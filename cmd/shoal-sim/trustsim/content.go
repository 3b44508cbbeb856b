package trustsim

import (
	"math/bits"
	"slices"

	"shoal/manager/trust/compare"
)

// A digest of the simulated Web says what it is the digest of: source (3 bits), number of the fetch (29 bits), version (32 bits). The product's packages
// see a number.
type source uint64

const (
	real      source = iota + 1
	lie              // what a liar made: something else altogether
	smallLie         // a sentence changed
	linkedLie        // a small lie with a link for profit
	captcha
	walled // what another region is shown
)

func digestOf(s source, fetch uint64, version uint32) uint64 {
	return uint64(s)<<61 | fetch&(1<<29-1)<<32 | uint64(version)
}

func sourceOf(digest uint64) source { return source(digest >> 61) }

// forged tells whether a digest is of what was never on the Web.
func forged(digest uint64) bool {
	s := sourceOf(digest)
	return s == lie || s == smallLie || s == linkedLie
}

func mix(x uint64) uint64 {
	x ^= x >> 32
	x *= 0xd6e8feb86659fd93
	x ^= x >> 32
	x *= 0xd6e8feb86659fd93
	return x ^ x>>32
}

// base is what all fetches of one content share: not the number of the fetch, except of lies, of which each is another one.
func base(page int, digest uint64) uint64 {
	s, version := sourceOf(digest), uint32(digest)
	switch s {
	case smallLie, linkedLie:
		s = real // most of it is
	case captcha:
		return mix(77)
	case lie:
		return mix(uint64(page)<<32 ^ digest)
	}
	return mix(uint64(page)<<36 ^ uint64(version)<<3 ^ uint64(s))
}

// shingleOf is the fingerprint of a content's text.
func shingleOf(p *page, page int, digest uint64) uint64 {
	b := base(page, digest)
	fetch := mix(digest)
	switch p.kind {
	case wild:
		if sourceOf(digest) != captcha {
			return mix(b^fetch) | 1
		}
	case dynamic:
		if sourceOf(digest) == real {
			b ^= 1<<(fetch&63) | 1<<(fetch>>8&63)
		}
	}
	switch sourceOf(digest) {
	case smallLie, linkedLie:
		b ^= 1<<(fetch>>16&63) | 1<<(fetch>>24&63) | 1<<(fetch>>32&63)
	}
	return b | 1
}

// runs is how many runs of words a simulated text has. Five bits number them.
const runs = 32

// features are what a comparison sees of a content.
func features(p *page, page int, digest uint64) *compare.Features {
	b := base(page, digest)
	f := &compare.Features{Status: 200, Title: mix(b + 1), Words: 300, Exact: b}
	own := 0
	s := sourceOf(digest)
	switch {
	case p.kind == wild && s != captcha:
		own = runs * 3 / 4
	case p.kind == dynamic && s == real:
		own = 2 + bits.OnesCount64(mix(digest)&7)
	}
	if s == smallLie || s == linkedLie {
		own += 3
	}
	f.Text = make([]uint32, runs)
	for i := range f.Text { // in order: the highest five bits count up
		x := mix(b + uint64(i)*0x9e37)
		if i < own {
			x = mix(digest + uint64(i)*0x79b9)
		}
		f.Text[i] = uint32(i)<<27 | uint32(x)>>5
	}
	if own > 0 {
		f.Exact = mix(digest)
	}
	f.Outside, f.Inside = make([]uint32, 0, 4), make([]uint32, 0, 3)
	for i := range 3 {
		f.Outside = append(f.Outside, uint32(mix(uint64(page)+uint64(i)<<40)))
		f.Inside = append(f.Inside, uint32(mix(uint64(page)+uint64(i)<<50)))
	}
	switch s {
	case linkedLie:
		f.Outside = append(f.Outside, uint32(mix(digest+5)))
	case captcha:
		f.Outside, f.Inside = nil, nil
	}
	slices.Sort(f.Outside)
	slices.Sort(f.Inside)
	return f
}
