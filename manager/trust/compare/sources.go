package compare

import (
	"strings"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

// Who adds a program, a frame or a form of another host changes nothing that is read, and has the page all the same.

// loads names the attributes by which an element has another host's content in the page, or sends readers or what they write there. Pictures are left out: whose
// they are differs from fetch to fetch, and they do nothing.
var loads = map[atom.Atom][]string{
	atom.Script: {"src"}, atom.Iframe: {"src", "srcdoc"}, atom.Frame: {"src"}, atom.Embed: {"src"}, atom.Object: {"data"}, atom.Base: {"href"}, atom.Link: {"href"},
	atom.Form: {"action"}, atom.Button: {"formaction"}, atom.Input: {"formaction"}, atom.Meta: {"content"}, atom.Area: {"href"},
}

// sources notes the other hosts of an element.
func (p *reader) sources(t *html.Token) {
	names := loads[t.DataAtom]
	if names == nil || t.DataAtom == atom.Link && !p.styles(t) || t.DataAtom == atom.Meta && !strings.EqualFold(attribute(t, "http-equiv"), "refresh") {
		return
	}
	for _, name := range names {
		switch v := strings.TrimSpace(attribute(t, name)); {
		case v == "":
		case name == "srcdoc":
			p.named(v)
		case t.DataAtom == atom.Meta:
			_, v, _ = strings.Cut(v, "=") // 0; url=...
			p.source(strings.Trim(strings.TrimSpace(v), `"'`))
		default:
			p.source(v)
		}
	}
}

// styles tells whether a <link> loads something, and does not only say where another form of the page is.
func (p *reader) styles(t *html.Token) bool {
	for rel := range strings.FieldsSeq(strings.ToLower(attribute(t, "rel"))) {
		switch rel {
		case "stylesheet", "import", "manifest", "modulepreload":
			return true
		}
	}
	return false
}

func attribute(t *html.Token, name string) string {
	for _, a := range t.Attr {
		if a.Key == name {
			return a.Val
		}
	}
	return ""
}

// source notes where an address leads, if it is not the page's own host. Of one that needs no host, such as "data:", its scheme counts.
func (p *reader) source(address string) {
	u, err := p.base.Parse(address)
	switch {
	case err != nil || len(p.f.Sources) >= maxWords:
	case u.Scheme != "http" && u.Scheme != "https":
		p.f.Sources = append(p.f.Sources, hash(strings.ToLower(u.Scheme)+":"))
	case bare(u.Hostname()) != bare(p.base.Hostname()):
		p.f.Sources = append(p.f.Sources, hash(bare(u.Hostname())))
	}
}

// bare is a host as it is compared.
func bare(host string) string { return strings.TrimPrefix(strings.ToLower(host), "www.") }

// named notes the hosts that a program in the page names.
func (p *reader) named(text string) {
	for {
		_, rest, found := strings.Cut(text, "//")
		if !found {
			return
		}
		n := 0
		for n < len(rest) && (rest[n] == '.' || rest[n] == '-' || rest[n]|0x20 >= 'a' && rest[n]|0x20 <= 'z' || rest[n] >= '0' && rest[n] <= '9') {
			n++
		}
		if strings.Contains(strings.Trim(rest[:n], "."), ".") { // what has no dot is a comment's word, more often
			p.source("//" + rest[:n])
		}
		text = rest[n:]
	}
}
