package limit

import (
	"net/url"
	"strings"
)

const hidden = "***"

// Shown is the address of a policy or a block list as people are shown it: without what gives access there, which is a password or a query. The path of a file
// is shown as it is.
func Shown(at string) string {
	u, err := url.Parse(at)
	if err != nil || u.Host == "" || u.User == nil && u.RawQuery == "" && u.Fragment == "" {
		return at
	}
	who := ""
	if u.User != nil {
		who = hidden + "@"
		if _, has := u.User.Password(); has {
			who = u.User.Username() + ":" + who
		}
	}
	out := u.Scheme + "://" + who + u.Host + u.EscapedPath()
	if u.RawQuery != "" {
		out += "?" + hidden
	}
	return out
}

// Hide puts the shown form of an address in the place of the address itself, as a text has it. Package net/http hides passwords only.
func Hide(text, at string) string {
	shown := Shown(at)
	u, err := url.Parse(at)
	if shown == at || err != nil {
		return text
	}
	forms := []string{at, u.String()}
	if u.User != nil {
		forms = append(forms, u.Redacted(), strings.Replace(u.String(), u.User.String()+"@", u.User.Username()+":"+hidden+"@", 1))
	}
	for _, form := range forms {
		text = strings.ReplaceAll(text, form, shown)
	}
	return text
}
