package crawl

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
)

// traits are what the standard says of an element.
type traits uint8

const (
	isVoid    traits = 1 << iota // it has no content and no end tag
	breaksOut                    // its start tag ends SVG and MathML around it (section 13.2.6.5)
	noFrames                     // no <frameset> may come after it (the standard's "frameset-ok flag")
	ofTable                      // its end tag reaches through SVG and MathML
	holdsText                    // it holds text and no markup
	shown                        // that text is for readers
	looked                       // the crawler looks at its attributes
)

// elements are the known elements by their numbers.
var elements = [...]struct {
	name   string
	traits traits
}{
	{}, {"a", looked}, {"area", isVoid | noFrames | looked}, {"base", isVoid | looked}, {"body", breaksOut | noFrames}, {"br", isVoid | breaksOut | noFrames}, {"font", looked}, {"frame", isVoid | looked}, {"frameset", 0},
	{"iframe", holdsText | noFrames | looked}, {"input", isVoid | looked}, {"link", isVoid | looked}, {"math", 0}, {"meta", isVoid | breaksOut | looked}, {"noframes", holdsText},
	{"p", breaksOut}, {"plaintext", 0}, {"script", 0}, {"svg", 0}, {"table", breaksOut | noFrames | ofTable}, {"template", 0}, {"textarea", holdsText | shown | noFrames}, {"title", holdsText | shown},
	{"xmp", holdsText | shown | noFrames},

	{"style", holdsText}, {"noembed", holdsText},
	{"dd", breaksOut | noFrames}, {"dt", breaksOut | noFrames}, {"li", breaksOut | noFrames}, {"listing", breaksOut | noFrames},
	{"pre", breaksOut | noFrames},
	{"embed", isVoid | breaksOut | noFrames}, {"hr", isVoid | breaksOut | noFrames}, {"img", isVoid | breaksOut | noFrames},
	{"image", isVoid | noFrames}, {"keygen", isVoid | noFrames}, {"wbr", isVoid | noFrames},
	{"applet", noFrames}, {"button", noFrames}, {"marquee", noFrames}, {"object", noFrames}, {"select", noFrames},
	{"b", breaksOut}, {"big", breaksOut}, {"blockquote", breaksOut}, {"center", breaksOut}, {"code", breaksOut}, {"div", breaksOut}, {"dl", breaksOut},
	{"em", breaksOut}, {"h1", breaksOut}, {"h2", breaksOut}, {"h3", breaksOut}, {"h4", breaksOut}, {"h5", breaksOut}, {"h6", breaksOut},
	{"head", breaksOut}, {"i", breaksOut}, {"menu", breaksOut}, {"nobr", breaksOut}, {"ol", breaksOut}, {"ruby", breaksOut}, {"s", breaksOut},
	{"small", breaksOut}, {"span", breaksOut}, {"strong", breaksOut}, {"strike", breaksOut}, {"sub", breaksOut}, {"sup", breaksOut}, {"tt", breaksOut},
	{"u", breaksOut}, {"ul", breaksOut}, {"var", breaksOut},
	{"caption", ofTable}, {"colgroup", ofTable}, {"tbody", ofTable}, {"td", ofTable}, {"tfoot", ofTable}, {"th", ofTable}, {"thead", ofTable}, {"tr", ofTable},
	{"basefont", isVoid}, {"bgsound", isVoid}, {"col", isVoid}, {"param", isVoid}, {"source", isVoid}, {"track", isVoid},
	{"article", 0}, {"aside", 0}, {"footer", 0}, {"form", 0}, {"header", 0}, {"label", 0}, {"main", 0}, {"nav", 0}, {"section", 0},
}

func (e htmlElement) has(t traits) bool { return elements[e].traits&t != 0 }

// elementOf finds an element by the name in a tag.
func elementOf(name []byte) htmlElement {
	for i := slotOf(name); ; i = (i + 1) % slots {
		e := bySlot[i]
		if e == other || equalFold(name, elements[e].name) {
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
