package crawl

import "shoal/channel/markup"

// htmlElement is an element of HTML that matters to a crawler: it is a link, or it decides how what follows is read.
type htmlElement uint8

// Elements that the crawler treats individually. Other known elements have numbers too, but only their traits matter.
const (
	other htmlElement = iota // any unknown one
	elA
	elArea
	elBase
	elBody
	elBr
	elFont
	elFrame
	elFrameset
	elHead
	elHTML
	elIframe
	elInput
	elLink
	elMath
	elMeta
	elNoframes
	elP
	elPlaintext
	elScript
	elSVG
	elTable
	elTemplate
	elTextarea
	elTitle
	elXMP
	elH1 // to elH6
)

const elH6 = elH1 + 5

// traits are what the standard says of an element.
type traits uint16

const (
	isVoid    traits = 1 << iota // it has no content and no end tag
	breaksOut                    // its start tag ends SVG and MathML around it (section 13.2.6.5)
	noFrames                     // no <frameset> may come after it (the standard's "frameset-ok flag")
	ofTable                      // its end tag reaches through SVG and MathML
	holdsText                    // it holds text and no markup
	shown                        // that text is for readers
	looked                       // the crawler looks at its attributes
	endsP                        // its start tag ends a <p>
	holdsP                       // a <p> around it is not ended from within
)

// elements are the known elements by their numbers.
var elements = [...]struct {
	name   string
	traits traits
}{
	{}, {"a", looked}, {"area", isVoid | noFrames | looked}, {"base", isVoid | looked}, {"body", breaksOut | noFrames}, {"br", isVoid | breaksOut | noFrames}, {"font", looked}, {"frame", isVoid | looked}, {"frameset", 0}, {"head", breaksOut}, {"html", 0},
	{"iframe", holdsText | noFrames | looked}, {"input", isVoid | looked}, {"link", isVoid | looked}, {"math", 0}, {"meta", isVoid | breaksOut | looked}, {"noframes", holdsText},
	{"p", breaksOut | endsP}, {"plaintext", endsP}, {"script", 0}, {"svg", 0}, {"table", breaksOut | noFrames | ofTable}, {"template", 0}, {"textarea", holdsText | shown | noFrames}, {"title", holdsText | shown},
	{"xmp", holdsText | shown | noFrames | endsP},
	{"h1", breaksOut | endsP}, {"h2", breaksOut | endsP}, {"h3", breaksOut | endsP}, {"h4", breaksOut | endsP}, {"h5", breaksOut | endsP}, {"h6", breaksOut | endsP},

	{"style", holdsText}, {"noembed", holdsText},
	{"dd", breaksOut | noFrames | endsP}, {"dt", breaksOut | noFrames | endsP}, {"li", breaksOut | noFrames | endsP}, {"listing", breaksOut | noFrames | endsP},
	{"pre", breaksOut | noFrames | endsP},
	{"embed", isVoid | breaksOut | noFrames}, {"hr", isVoid | breaksOut | noFrames | endsP}, {"img", isVoid | breaksOut | noFrames},
	{"image", isVoid | noFrames}, {"keygen", isVoid | noFrames}, {"wbr", isVoid | noFrames},
	{"applet", noFrames | holdsP}, {"button", noFrames | holdsP}, {"marquee", noFrames | holdsP}, {"object", noFrames | holdsP}, {"select", noFrames},
	{"b", breaksOut}, {"big", breaksOut}, {"blockquote", breaksOut | endsP}, {"center", breaksOut | endsP}, {"code", breaksOut}, {"div", breaksOut | endsP}, {"dl", breaksOut | endsP},
	{"em", breaksOut}, {"i", breaksOut}, {"menu", breaksOut | endsP}, {"nobr", breaksOut}, {"ol", breaksOut | endsP}, {"ruby", breaksOut}, {"s", breaksOut},
	{"small", breaksOut}, {"span", breaksOut}, {"strong", breaksOut}, {"strike", breaksOut}, {"sub", breaksOut}, {"sup", breaksOut}, {"tt", breaksOut},
	{"u", breaksOut}, {"ul", breaksOut | endsP}, {"var", breaksOut},
	{"caption", ofTable}, {"colgroup", ofTable}, {"tbody", ofTable}, {"td", ofTable}, {"tfoot", ofTable}, {"th", ofTable}, {"thead", ofTable}, {"tr", ofTable},
	{"basefont", isVoid}, {"bgsound", isVoid}, {"col", isVoid}, {"param", isVoid}, {"source", isVoid}, {"track", isVoid},
	{"article", endsP}, {"aside", endsP}, {"footer", endsP}, {"form", endsP}, {"header", endsP}, {"label", 0}, {"main", endsP}, {"nav", endsP}, {"section", endsP},
	{"address", endsP}, {"details", endsP}, {"dialog", endsP}, {"dir", endsP}, {"fieldset", endsP}, {"figcaption", endsP}, {"figure", endsP}, {"hgroup", endsP}, {"search", endsP},
	{"summary", endsP}, {"noscript", 0}, {"option", 0}, {"picture", 0}, {"video", 0}, {"audio", 0},
}

func (e htmlElement) has(t traits) bool { return elements[e].traits&t != 0 }

func (e htmlElement) heading() bool { return e >= elH1 && e <= elH6 }

// elementOf finds an element by the name in a tag.
func elementOf(name []byte) htmlElement {
	for i := slotOf(name); ; i = (i + 1) % slots {
		e := bySlot[i]
		if e == other || markup.EqualFold(name, elements[e].name) {
			return e
		}
	}
}

// bySlot is a hash table of elements by name, with linear probing.
var bySlot = func() (at [slots]htmlElement) {
	for e := htmlElement(1); int(e) < len(elements); e++ {
		i := slotOf([]byte(elements[e].name))
		for at[i] != other {
			i = (i + 1) % slots
		}
		at[i] = e
	}
	return at
}()

const slots = 512

// slotOf hashes a name in any case: its length, and its first, middle and last letters.
func slotOf(name []byte) int {
	n := len(name)
	return (n*41 + int(name[0]|0x20)*7 + int(name[n/2]|0x20)*29 + int(name[n-1]|0x20)*113) % slots
}
