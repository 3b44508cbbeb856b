// Package redact finds a computer's own addresses in what Web hosts answer. Some hosts echo the address of their visitor in a header, a cookie or a
// page; stored as it came, that would tell the world who crawled what, and when.
//
// A Finder replaces addresses in headers and reports whether a body shows one. It knows the spellings that hosts use: text, percent-encoded text,
// dashes or underscores for dots, reversed as in a name server's zone, hexadecimal, decimal, and Base64 of the text. It does not find an address that
// is compressed, encrypted, hashed, or written in a way that is not listed here.
package redact

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// Replacement stands where an address was.
const Replacement = "redacted"

// Finder finds a fixed set of addresses. It may be used from several goroutines at once. A nil Finder finds nothing.
type Finder struct {
	spellings []spelling
	// table holds, by a hash of four bytes, which spellings have these four bytes at one of their first four positions. Every spelling has at
	// least seven bytes, so each occurrence has such a place at a position of the text that is a multiple of four: three quarters of a text are
	// never looked at.
	table [1 << tableBits][]place
}

type spelling struct {
	text string
	word func(byte) bool // a neighbour for which it is part of something longer
}

type place struct {
	spelling, offset int16
}

const (
	tableBits = 12
	stride    = 4
	shortest  = 2*stride - 1
)

// New makes a Finder. Addresses that are not public are left out: everybody has the same ones.
func New(addrs ...netip.Addr) *Finder {
	f := &Finder{}
	for _, a := range addrs {
		a = a.Unmap().WithZone("")
		if !a.IsGlobalUnicast() || a.IsPrivate() {
			continue
		}
		for _, s := range spell(a) {
			if len(s.text) >= shortest {
				f.spellings = append(f.spellings, s)
			}
		}
	}
	for i, s := range f.spellings {
		for o := range stride {
			h := hash(s.text[o : o+stride])
			f.table[h] = append(f.table[h], place{int16(i), int16(o)})
		}
	}
	return f
}

func hash[T string | []byte](four T) uint32 {
	v := uint32(four[0]) | uint32(four[1])<<8 | uint32(four[2])<<16 | uint32(four[3])<<24
	return v * 2654435761 >> (32 - tableBits)
}

func digit(c byte) bool { return c >= '0' && c <= '9' }
func alnum(c byte) bool { return digit(c) || c|0x20 >= 'a' && c|0x20 <= 'z' }

// spell lists the ways in which an address is written.
func spell(a netip.Addr) (out []spelling) {
	add := func(word func(byte) bool, texts ...string) {
		for _, t := range texts {
			if !slices.ContainsFunc(out, func(s spelling) bool { return s.text == t }) {
				out = append(out, spelling{t, word})
			}
		}
	}
	both := func(word func(byte) bool, t string) { add(word, strings.ToLower(t), strings.ToUpper(t)) }
	encoded := func(text string) {
		add(alnum, strings.TrimRight(base64.StdEncoding.EncodeToString([]byte(text)), "="))
	}
	if a.Is4() {
		b := a.As4()
		text := a.String()
		add(digit, text, strings.ReplaceAll(text, ".", "-"), strings.ReplaceAll(text, ".", "_"), strings.ReplaceAll(text, ".", "%2E"), strings.ReplaceAll(text, ".", "%2e"))
		add(digit, netip.AddrFrom4([4]byte{b[3], b[2], b[1], b[0]}).String())
		both(alnum, hex.EncodeToString(b[:]))
		add(alnum, strconv.FormatUint(uint64(binary.BigEndian.Uint32(b[:])), 10))
		encoded(text)
		return out
	}
	for _, text := range []string{a.String(), a.StringExpanded(), plain(a)} {
		for _, colon := range []string{":", "%3A", "%3a", "-"} {
			add(alnum, strings.ReplaceAll(text, ":", colon), strings.ReplaceAll(strings.ToUpper(text), ":", colon))
		}
		encoded(text)
	}
	b := a.As16()
	both(alnum, hex.EncodeToString(b[:]))
	nibbles := strings.Split(hex.EncodeToString(b[:]), "")
	slices.Reverse(nibbles)
	both(alnum, strings.Join(nibbles, "."))
	return out
}

// plain is an IPv6 address without leading zeros and without "::".
func plain(a netip.Addr) string {
	b := a.As16()
	var parts []string
	for i := 0; i < 16; i += 2 {
		parts = append(parts, strconv.FormatUint(uint64(binary.BigEndian.Uint16(b[i:])), 16))
	}
	return strings.Join(parts, ":")
}

// Shows reports whether text shows one of the addresses.
func (f *Finder) Shows(text []byte) bool {
	_, _, ok := f.find(text, 0)
	return ok
}

// Header replaces the addresses in a response's header. It returns the header as it was where it shows none.
func (f *Finder) Header(header []byte) []byte {
	at, end, ok := f.find(header, 0)
	if !ok {
		return header
	}
	var out bytes.Buffer
	from := 0
	for ok {
		out.Write(header[from:at])
		out.WriteString(Replacement)
		from = end
		at, end, ok = f.find(header, from)
	}
	out.Write(header[from:])
	return out.Bytes()
}

// find is the first occurrence that does not begin before from.
func (f *Finder) find(text []byte, from int) (at, end int, ok bool) {
	if f == nil || len(f.spellings) == 0 {
		return 0, 0, false
	}
	at = -1
	for i := from &^ (stride - 1); i+stride <= len(text); i += stride {
		if at >= 0 && i > at+stride { // no earlier occurrence can follow
			break
		}
		for _, p := range f.table[hash(text[i:i+stride])] {
			s := &f.spellings[p.spelling]
			start := i - int(p.offset)
			if start < from || start+len(s.text) > len(text) || string(text[start:start+len(s.text)]) != s.text {
				continue
			}
			stop := start + len(s.text)
			if start > 0 && s.word(text[start-1]) || stop < len(text) && s.word(text[stop]) {
				continue
			}
			if at < 0 || start < at || start == at && stop > end {
				at, end = start, stop
			}
		}
	}
	return at, end, at >= 0
}
