package crawl

import (
	"bytes"

	"shoal/channel/markup"
)

// foreign follows SVG and MathML in HTML (HTML, section 13.2.6.5). Markup is read differently there: <style> and others may hold markup,
// self-closing tags close, and there are CDATA sections. foreign keeps a stack of the elements that are open from the outermost <svg> or
// <math> on. Outside of them it only counts open elements, since their end tags also end a picture that was left open.
type foreign struct {
	stack     []openElement                  // nil: HTML
	open      [len(elements) + unknown]int32 // open elements outside of SVG and MathML, by countOf
	templates int                            // that are open, on the stack or not
}

// openElement is an element on the stack.
type openElement struct {
	name []byte
	is   htmlElement
	kind contentKind
}

// contentKind says how to read the content of an open element.
type contentKind uint8

const (
	ofHTML    contentKind = iota // an HTML element inside SVG or MathML
	ofSVG                        // an SVG element
	ofMath                       // a MathML element
	asHTML                       // an SVG or MathML element that holds HTML (an "HTML integration point")
	asText                       // the same, except for two elements of MathML (a "MathML text integration point")
	asGraphic                    // <annotation-xml>: holds MathML, and HTML from <svg> on
)

// unknown is the number of counts for elements that the crawler does not know. Two names may share a count.
const unknown = 64

// countOf gives the number of an element's count.
func countOf(name []byte, is htmlElement) int {
	if is != other {
		return int(is)
	}
	return len(elements) + slotOf(name)%unknown
}

// maxOpen bounds the stack. Deeper elements are not followed; no drawing is that deep.
const maxOpen = 100

// inHTML reports whether no SVG or MathML is open.
func (f *foreign) inHTML() bool { return len(f.stack) == 0 }

// cdata reports whether a CDATA section may come next.
func (f *foreign) cdata() bool { return len(f.stack) > 0 && f.stack[len(f.stack)-1].kind != ofHTML }

// enters reports whether a start tag is of SVG or MathML, and which. If the tag is of HTML and cannot be inside them, enters ends them. Legacy
// says that a <font> has color, face or size: only such a <font> ends them.
func (f *foreign) enters(name []byte, is htmlElement, legacy bool) (contentKind, bool) {
	if len(f.stack) == 0 {
		return ofHTML, false
	}
	switch kind := f.stack[len(f.stack)-1].kind; kind {
	case ofHTML, asHTML:
		return ofHTML, false
	case asText:
		if markup.EqualFold(name, "mglyph") || markup.EqualFold(name, "malignmark") {
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

// breakOut ends SVG and MathML elements up to one that holds HTML.
func (f *foreign) breakOut() {
	for n := len(f.stack); n > 0; n-- {
		if k := f.stack[n-1].kind; k == ofHTML || k == asHTML || k == asText {
			break
		}
		f.cut(n - 1)
	}
}

// cut removes all but n elements from the stack.
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
	case kind == ofSVG && (markup.EqualFold(name, "foreignobject") || markup.EqualFold(name, "desc") || markup.EqualFold(name, "title")):
		kind = asHTML
	case kind == ofMath && len(name) == 2 && (markup.EqualFold(name, "mi") || markup.EqualFold(name, "mo") || markup.EqualFold(name, "mn") || markup.EqualFold(name, "ms")), kind == ofMath && markup.EqualFold(name, "mtext"):
		kind = asText
	case kind == ofMath && markup.EqualFold(name, "annotation-xml"):
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

// started notes the start tag of an HTML element.
func (f *foreign) started(name []byte, is htmlElement) {
	switch {
	case is.has(isVoid):
		return
	case len(f.stack) == maxOpen:
		return
	case len(f.stack) > 0:
		f.startedWithin(name, is)
		return
	case is.has(ofTable) && is != elTable && f.open[elTable] == 0 && f.templates == 0: // parts of tables count only in tables
		return
	default:
		f.open[countOf(name, is)]++
	}
	if is == elTemplate {
		f.templates++
	}
}

// startedWithin does so inside an SVG or MathML element that holds HTML.
func (f *foreign) startedWithin(name []byte, is htmlElement) {
	switch {
	case is == elHTML, is == elHead, is == elBody, is == elFrameset: // there is one already, or there can be none here
		return
	case is.has(ofTable) && is != elTable && !f.backToTable():
		return
	case is.has(endsP):
		f.endP()
	}
	if len(f.stack) == 0 {
		f.open[countOf(name, is)]++
		return
	}
	f.add(openElement{name: name, is: is})
	if is == elTemplate {
		f.templates++
	}
}

// backToTable ends SVG and MathML elements inside the innermost table, whose next part begins. It reports whether there is one.
func (f *foreign) backToTable() bool {
	picture := 0 // the outermost element of SVG or MathML so far
	for i := len(f.stack) - 1; i >= 0; i-- {
		switch o := &f.stack[i]; {
		case o.kind != ofHTML:
			picture = i
		case o.is == elTemplate:
			return true
		case o.is == elTable:
			if picture > i {
				f.cut(picture)
			}
			return true
		}
	}
	if f.open[elTable] == 0 || f.templates > 0 {
		return false
	}
	f.cut(0)
	return true
}

// endP ends a <p> that is open.
func (f *foreign) endP() {
	for i := len(f.stack) - 1; i >= 0; i-- {
		o := &f.stack[i]
		if o.kind != ofHTML || o.is.has(holdsP) || o.is.has(ofTable) || o.is == elTemplate {
			return
		}
		if o.is == elP {
			f.cut(i)
			return
		}
	}
}

// ended handles an end tag.
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
	if is == elTemplate || is.has(ofTable) { // their end tags reach through everything
		for i := n - 1; i >= 0; i-- {
			if f.stack[i].kind == ofHTML && f.stack[i].is == is {
				f.cut(i)
				return
			}
		}
		f.endsAround(name, is)
		return
	}
	pictures, holds := true, false // all elements so far are of SVG or MathML; one of the elements so far holds HTML
	for ; n > 0; n-- {
		o := &f.stack[n-1]
		pictures = pictures && o.kind != ofHTML
		if (pictures || o.kind == ofHTML && !holds) && (bytes.EqualFold(o.name, name) || is.heading() && o.is.heading()) {
			f.cut(n - 1)
			return
		}
		holds = holds || o.kind == asHTML || o.kind == asText || o.kind == asGraphic
		if holds && !pictures { // an end tag in HTML does not end the element that holds the HTML
			return
		}
	}
	if holds {
		return
	}
	f.endsAround(name, is)
}

// endsAround handles an end tag that fits no element on the stack. If such an element is open around, it ends everything on the stack. Those of
// head, body and the whole document end nothing.
func (f *foreign) endsAround(name []byte, is htmlElement) {
	if is != elBody && is != elHead && is != elHTML && f.open[f.countOfOpen(name, is)] > 0 {
		f.cut(0)
		f.ends(name, is)
	}
}

// ends handles an end tag outside of SVG and MathML.
func (f *foreign) ends(name []byte, is htmlElement) {
	n := f.countOfOpen(name, is)
	if f.open[n] == 0 {
		return
	}
	f.open[n]--
	if is == elTemplate {
		f.templates--
	}
}

// countOfOpen gives the number of the count that an end tag lowers. That of a heading ends a heading of any rank.
func (f *foreign) countOfOpen(name []byte, is htmlElement) int {
	n := countOf(name, is)
	if f.open[n] == 0 && is.heading() {
		for h := elH1; h <= elH6; h++ {
			if f.open[h] > 0 {
				return int(h)
			}
		}
	}
	return n
}
