package markup

import (
	"sync"
	"unicode/utf8"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/japanese"
	"golang.org/x/text/encoding/traditionalchinese"
)

// pairs tells which pairs of an octet beyond ASCII and one of ASCII stand for a character.
type pairs struct {
	leads  func(c byte) bool // whether an octet begins a pair
	stands [1 << 7][1 << 7]bool
}

// pairsOf gives the pairs of an encoding. It asks the library's decoder for them.
func pairsOf(enc encoding.Encoding, leads func(byte) bool) *pairs {
	p := &pairs{leads: leads}
	for lead := range p.stands {
		for trail := range p.stands[lead] {
			out, err := enc.NewDecoder().Bytes([]byte{byte(lead) | 0x80, byte(trail)})
			r, n := utf8.DecodeRune(out)
			p.stands[lead][trail] = err == nil && (r != utf8.RuneError || n < len(out)) && out[len(out)-1] >= utf8.RuneSelf
		}
	}
	return p
}

// The encodings whose decoders in the library take a pair that stands for nothing as one.
var (
	shiftJIS = sync.OnceValue(func() *pairs {
		p := pairsOf(japanese.ShiftJIS, func(c byte) bool { return c > 0x80 && c < 0xa0 || c >= 0xe0 && c <= 0xfc })
		for lead := 0xf0; lead <= 0xf9; lead++ { // characters of one's own, which the library does not know
			for trail := 0x40; trail < 0x7f; trail++ {
				p.stands[lead&0x7f][trail] = true
			}
		}
		return p
	})
	big5 = sync.OnceValue(func() *pairs {
		return pairsOf(traditionalchinese.Big5, func(c byte) bool { return c > 0x80 && c < 0xff })
	})
)

// decode decodes a text. If a pair stands for nothing and its second octet is ASCII, that octet is text of its own (Encoding Standard, sections 11.1.1 and
// 12.3.1): it may end the value of an attribute.
func (p *pairs) decode(enc encoding.Encoding, body []byte) (out []byte, err error) {
	from := 0
	for at := 0; at+1 < len(body); {
		switch lead, trail := body[at], body[at+1]; {
		case !p.leads(lead):
			at++
			continue
		case trail >= utf8.RuneSelf || p.stands[lead&0x7f][trail]:
			at += 2
			continue
		}
		for ; from < at && body[from] < utf8.RuneSelf; from++ {
			out = append(out, body[from])
		}
		if from < at {
			piece, err := enc.NewDecoder().Bytes(body[from:at])
			if err != nil {
				return nil, err
			}
			out = append(out, piece...)
		}
		out = utf8.AppendRune(out, utf8.RuneError)
		at++
		from = at
	}
	piece, err := enc.NewDecoder().Bytes(body[from:])
	if from == 0 {
		return piece, err
	}
	return append(out, piece...), err
}
