package crawl

import "bytes"

// foreign follows SVG and MathML within HTML, as far as that decides where markup is read in another way (HTML, section 13.2.6.5): what
// holds no markup in HTML may hold some there, a self-closing tag is closed, and there are CDATA sections. It knows the elements that are open
// from the outermost <svg> or <math> on; outside of these it counts what is open, since some end tags end a picture that was left open.
type foreign struct {
	stack     []openElement                  // nil: HTML
	open      [len(elements) + unknown]int32 // how many are open outside of SVG and MathML, by countOf
	templates int                            // that are open, on the stack or not
}

// openElement is one on the stack.
type openElement struct {
	name []byte
	is   htmlElement
	kind contentKind
}

// contentKind says how the content of an open element is read.
type contentKind uint8

const (
	ofHTML    contentKind = iota // an element of HTML within SVG or MathML
	ofSVG                        // as SVG
	ofMath                       // as MathML
	asHTML                       // an SVG or MathML element that holds HTML (an "HTML integration point")
	asText                       // the same, but for two elements of MathML (a "MathML text integration point")
	asGraphic                    // <annotation-xml>: as MathML, but for <svg>
)

// unknown are the counts of elements that the crawler does not know, by their names. Two names may share one.
const unknown = 64

// countOf tells which count is of an element.
func countOf(name []byte, is htmlElement) int {
	if is != other {
		return int(is)
	}
	return len(elements) + slotOf(name)%unknown
}

// maxOpen bounds the stack. What is deeper is not followed; no drawing is that deep.
const maxOpen = 100

// inHTML tells whether what comes next is read as HTML.
func (f *foreign) inHTML() bool { return len(f.stack) == 0 }

// cdata tells whether a CDATA section may come next.
func (f *foreign) cdata() bool { return len(f.stack) > 0 && f.stack[len(f.stack)-1].kind != ofHTML }

// enters tells whether a start tag is one of SVG or MathML, and of which. It ends those that it breaks out of. Legacy tells whether <font> has
// an attribute of old, which makes it break out.
func (f *foreign) enters(name []byte, is htmlElement, legacy bool) (contentKind, bool) {
	if len(f.stack) == 0 {
		return ofHTML, false
	}
	switch kind := f.stack[len(f.stack)-1].kind; kind {
	case ofHTML, asHTML:
		return ofHTML, false
	case asText:
		if equalFold(name, "mglyph") || equalFold(name, "malignmark") {
			return ofMath, true
		}
		return ofHTML, false
	case asGraphic:
		if is == elSVG {
			return ofHTML, false
		}
		kind = ofMath
		fallthrough
	default:
		if !is.has(breaksOut) && !(is == elFont && legacy) {
			return kind, true
		}
	}
	f.breakOut()
	return ofHTML, false
}

// breakOut ends SVG and MathML up to what holds HTML.
func (f *foreign) breakOut() {
	for n := len(f.stack); n > 0; n-- {
		if k := f.stack[n-1].kind; k == ofHTML || k == asHTML || k == asText {
			break
		}
		f.cut(n - 1)
	}
}

// cut leaves n elements on the stack.
func (f *foreign) cut(n int) {
	for i := n; i < len(f.stack); i++ {
		if f.stack[i].kind == ofHTML && f.stack[i].is == elTemplate {
			f.templates--
		}
	}
	f.stack = f.stack[:n]
}

// push opens an element of SVG or MathML. Encoding is that of <annotation-xml>.
func (f *foreign) push(name []byte, kind contentKind, encoding []byte) {
	switch {
	case kind == ofSVG && (equalFold(name, "foreignobject") || equalFold(name, "desc") || equalFold(name, "title")):
		kind = asHTML
	case kind == ofMath && len(name) == 2 && (equalFold(name, "mi") || equalFold(name, "mo") || equalFold(name, "mn") || equalFold(name, "ms")), kind == ofMath && equalFold(name, "mtext"):
		kind = asText
	case kind == ofMath && equalFold(name, "annotation-xml"):
		kind = asGraphic
		if bytes.EqualFold(encoding, []byte("text/html")) || bytes.EqualFold(encoding, []byte("application/xhtml+xml")) {
			kind = asHTML
		}
	}
	f.add(openElement{name: name, kind: kind})
}

func (f *foreign) add(o openElement) {
	if len(f.stack) < maxOpen {
		f.stack = append(f.stack, o)
	}
}

// started notes the start tag of an element of HTML.
func (f *foreign) started(name []byte, is htmlElement) {
	switch {
	case is.has(isVoid):
		return
	case len(f.stack) == maxOpen:
		return
	case len(f.stack) > 0:
		f.add(openElement{name: name, is: is})
	case is.has(ofTable) && is != elTable && f.open[elTable] == 0 && f.templates == 0: // a part of no table is none
		return
	default:
		f.open[countOf(name, is)]++
	}
	if is == elTemplate {
		f.templates++
	}
}

// ended takes an end tag.
func (f *foreign) ended(name []byte, is htmlElement) {
	n := len(f.stack)
	if n == 0 {
		f.ends(name, is)
		return
	}
	if (is == elP || is == elBr) && f.stack[n-1].kind != ofHTML {
		f.breakOut()
		n = len(f.stack)
	}
	if is == elTemplate || is.has(ofTable) { // these reach through everything
		for i := n - 1; i >= 0; i-- {
			if f.stack[i].kind == ofHTML && f.stack[i].is == is {
				f.cut(i)
				return
			}
		}
		f.endsAround(name, is)
		return
	}
	pictures, holds := true, false // only elements of SVG and MathML so far; one of them may hold HTML
	for ; n > 0; n-- {
		o := &f.stack[n-1]
		pictures = pictures && o.kind != ofHTML
		if (pictures || o.kind == ofHTML && !holds) && bytes.EqualFold(o.name, name) {
			f.cut(n - 1)
			return
		}
		holds = holds || o.kind == asHTML || o.kind == asText || o.kind == asGraphic
		if holds && !pictures { // HTML does not end what holds it
			return
		}
	}
	if holds {
		return
	}
	f.endsAround(name, is)
}

// endsAround ends all that is open if the end tag is of an element around it. That of the body ends nothing.
func (f *foreign) endsAround(name []byte, is htmlElement) {
	if f.open[countOf(name, is)] > 0 && is != elBody {
		f.cut(0)
		f.ends(name, is)
	}
}

// ends takes the end tag of an element outside of SVG and MathML.
func (f *foreign) ends(name []byte, is htmlElement) {
	n := countOf(name, is)
	if f.open[n] == 0 {
		return
	}
	f.open[n]--
	if is == elTemplate {
		f.templates--
	}
}
