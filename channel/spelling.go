package channel

import (
	"slices"
	"strings"
)

// Versions before 0.2.0 left "^" in paths as it is, as the URL Standard did until 2025. Their peers send such URLs, and what is stored has them. The
// functions here bring both spellings together.

// Respell gives the canonical form of a URL, or of a directory, that is in canonical form or in that of versions before 0.2.0.
func Respell(url string) string { return inPath(url, "^", "%5E") }

// FormerSpelling gives the form that a canonical URL, or a directory, may have had in versions before 0.2.0. Most have the same.
func FormerSpelling(canonical string) string { return inPath(canonical, "%5E", "^") }

// Spellings gives the forms in which a URL may be stored, the canonical one first.
func Spellings(raw string) ([]string, error) {
	canonical, err := Canonical(raw)
	if err != nil {
		return nil, err
	}
	all := []string{canonical}
	for _, s := range []string{raw, FormerSpelling(canonical)} {
		if Respell(s) == canonical && !slices.Contains(all, s) {
			all = append(all, s)
		}
	}
	return all, nil
}

// Reach is Key in the spelling of today: two scopes that have it in common reach the same, whichever spelling their directories have.
func (s *Scope) Reach() string {
	today := s.spelt(Respell)
	return today.Key()
}

// Spellings gives s, and the scopes that reach the same under another key because their directories are spelt otherwise. Most have none. Who adds a channel looks for all
// of them; what is stored keeps its key.
func (s *Scope) Spellings() []Scope {
	all := []Scope{*s}
	if !slices.ContainsFunc(s.Dirs, func(d string) bool { return strings.Contains(d, "^") || strings.Contains(d, "%5E") }) {
		return all
	}
	for _, spell := range []func(string) string{Respell, FormerSpelling} {
		other := s.spelt(spell)
		if !slices.ContainsFunc(all, func(is Scope) bool { return slices.Equal(is.Dirs, other.Dirs) }) {
			all = append(all, other)
		}
	}
	return all
}

// spelt is s with its directories in another spelling.
func (s *Scope) spelt(spell func(string) string) Scope {
	other := *s
	other.Dirs = slices.Clone(s.Dirs)
	for i, d := range other.Dirs {
		other.Dirs[i] = spell(d)
	}
	return other
}

func inPath(url, from, to string) string {
	end := strings.IndexByte(url, '?')
	if end < 0 {
		end = len(url)
	}
	if !strings.Contains(url[:end], from) {
		return url
	}
	return strings.ReplaceAll(url[:end], from, to) + url[end:]
}
