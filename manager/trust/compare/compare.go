// Package compare says whether two fetches of one page, made within minutes, saw the same page. The verdict is Same, Dynamic (they differ as every two
// fetches of such a page differ) or Conflict (one of them saw something else, or says so).
//
// Status, final URL, title, main text, outlinks and what the page loads from other hosts are compared. How much text two honest fetches of a page share differs between hosts, so a Host
// learns it: from pairs of which one fetch is the arbiter's, and from no others, since a liar would teach it to look away; and of several such pairs what all of them show.
//
// Two fetches of a page that stays the same have the same words in the same order, or, of what is no page to be read, such as a feed or a PDF, the same bytes. Of long texts
// only a sample tells how much two share; that they are not the same is told by all of them.
//
// The package is pure, and it judges nobody: who lied is package trust's to say. It does not compare a page with versions of other days.
package compare

import "slices"

// Verdict is what a comparison finds.
type Verdict uint8

// The verdicts.
const (
	Same     Verdict = iota + 1 // alike in all that a reader and a search engine see
	Dynamic                     // differ no more than two honest fetches of this host do
	Conflict                    // differ more
)

func (v Verdict) String() string {
	return [...]string{"none", "same", "dynamic", "conflict"}[min(v, Conflict)]
}

// Differ is a set of the ways in which two fetches differ.
type Differ uint8

// The ways.
const (
	Status Differ = 1 << iota
	Final
	Title
	Text
	Inside  // links to the page's own host
	Outside // hosts that are linked to
	Figures // numbers of the main text
	Sources // hosts from which the page loads, or to which it leads by itself
)

// Features are what is compared of a fetch. All sets are sorted.
type Features struct {
	Status  int
	Final   uint64   // hash of the final URL; 0: that of the page itself
	Title   uint64   // hash of the title's words
	Exact   uint64   // hash of the main text's words in their order; of what is neither HTML nor plain text, of its bytes
	Words   int      // of the main text; of a picture or the like there are none
	Rest    int      // bytes of the body beyond those that are read
	Short   bool     // the body's end did not come
	Blocks  []uint64 // digests of the whole blocks, where the bytes count
	Text    []uint32 // the least hashes of the main text's runs of words, at most MaxText
	Inside  []uint32 // hashes of links to the same host, without their queries' values; at most MaxLinks
	Outside []uint32 // hashes of the hosts that are linked to; at most MaxLinks
	Figures []uint32 // hashes of numbers with the word before them; at most MaxLinks
	Sources []uint32 // hashes of other hosts from which programs, frames and styles come, which programs in the page name, and to which forms and the page itself lead; at most MaxLinks
}

// Limits of Features.
const (
	MaxText  = 512
	MaxLinks = 512
)

// Host is what is learnt of a host: how much two honest fetches of its pages share. The zero Host has learnt nothing. It takes 7 bytes.
type Host struct {
	Alike   uint8 // text that honest pairs share, in 255ths; 0: not learnt, all of it
	Links   uint8 // inside links likewise
	Others  uint8 // linked hosts likewise
	Length  uint8 // of the shorter text to the longer, likewise
	Loose   Differ
	Learnt  uint8 // pairs that taught
	Unloose uint8 // pairs since that were alike in all
}

// Result is a Verdict with its grounds.
type Result struct {
	Verdict Verdict
	Differ  Differ
	Alike   float32 // share of text in common
	// OnlyA and OnlyB count hosts that only one side links to: what a forger for profit adds.
	OnlyA, OnlyB int
	// Begun says that one is no more than the beginning of the other one, whose end did not come: neither vouches for the other.
	Begun bool
}

// Unlearnt is for dynamic pages of a host that has learnt nothing yet: their text was nearly the same by channel.Near, and the rest must be the same.
var Unlearnt = Host{Alike: 204, Length: 242}

// OfOneSource is for texts of one page as it came, read by two programs: a menu more or less, a number in it.
var OfOneSource = Host{Alike: 245, Length: 247, Loose: Title | Figures}

// Margins below what was learnt. They were measured on the pairs of the tests.
const (
	textMargin  = .08
	linksMargin = .15
	// lengthMargin is small: what changes from fetch to fetch mostly keeps its length.
	lengthMargin = .03
	leastAlike   = .3 // no host may teach that less text in common is alike
	restMargin   = maxBody / 8
)

// Compare compares two fetches of a page of the host.
func (h Host) Compare(a, b *Features) Result {
	if a.Status == b.Status && a.Final == b.Final && begins(a, b) {
		return Result{Verdict: Dynamic, Differ: Text, Alike: 1, Begun: true}
	}
	r := Result{Verdict: Same, Alike: alike(a, b)}
	same := a.Exact == b.Exact && a.Words == b.Words && (a.Rest == b.Rest || (a.Short || b.Short) && min(a.Rest, b.Rest) > 0)
	both := overlap(a.Outside, b.Outside)
	r.OnlyA, r.OnlyB = len(a.Outside)-both, len(b.Outside)-both
	length := float32(min(a.Words, b.Words)) / float32(max(a.Words, b.Words, 1))
	if a.Words == b.Words {
		length = 1
	}
	links, others := shared(a.Inside, b.Inside), shared(a.Outside, b.Outside)
	note := func(d Differ, differs bool) {
		if differs {
			r.Differ |= d
		}
	}
	note(Status, a.Status != b.Status)
	note(Final, a.Final != b.Final)
	note(Title, a.Title != b.Title)
	note(Text, !same)
	note(Inside, links < 1)
	note(Outside, others < 1)
	note(Figures, !slices.Equal(a.Figures, b.Figures))
	note(Sources, !slices.Equal(a.Sources, b.Sources))
	if r.Differ == 0 {
		return r
	}
	r.Verdict = Dynamic
	switch {
	case r.Differ&^(h.Loose|Text|Inside|Outside) != 0, // a way in which honest fetches of this host do not differ
		r.Differ&Text != 0 && (h.Alike == 0 || r.Alike < least(h.Alike, textMargin) || max(a.Rest, b.Rest)-min(a.Rest, b.Rest) > restMargin),
		r.Differ&Text != 0 && length < least(h.Length, lengthMargin),
		r.Differ&Inside != 0 && links < least(h.Links, linksMargin),
		r.Differ&Outside != 0 && others < least(h.Others, linksMargin):
		r.Verdict = Conflict
	}
	return r
}

// begins tells whether one of two fetches, of which the bytes count, is the beginning of the other one, as on a line that is too slow for a large file: who has such a line lies
// no more than others. It vouches for nothing. At least leastBegun bytes must have come; less than one block at the end is not compared.
func begins(a, b *Features) bool {
	if b.Short && !a.Short {
		a, b = b, a
	}
	n := len(a.Blocks)
	if b.Short {
		n = min(n, len(b.Blocks))
	}
	return a.Short && n*blockSize >= leastBegun && n <= len(b.Blocks) && slices.Equal(a.Blocks[:n], b.Blocks[:n]) && (a.Exact != b.Exact || a.Rest != b.Rest)
}

// alike is the share of text that two fetches have in common.
func alike(a, b *Features) float32 {
	switch {
	case a.Exact == b.Exact && a.Words == b.Words:
		return 1
	case a.Words+b.Words == 0: // bytes that are not the same have nothing in common
		return 0
	}
	return shared(a.Text, b.Text)
}

// least is the share that is enough, of what was learnt.
func least(learnt uint8, margin float32) float32 {
	if learnt == 0 {
		return 1
	}
	return max(float32(learnt)/255-margin, leastAlike)
}

// Learn takes in a fetch that is believed, the arbiter's, with one or several others of the same moment, of which not all may be honest. What it learns is what all of these
// pairs show: one that somebody has made up teaches nothing which the others do not.
func (h *Host) Learn(truth *Features, others ...*Features) {
	all := Result{Differ: ^Differ(0)}
	var length, links, outside float32
	same := false
	for _, f := range others {
		if f.Status != truth.Status || f.Final != truth.Final || truth.Status/100 != 2 {
			return // an error page, or another page: no matter of taste
		}
		r := h.Compare(truth, f)
		same = same || r.Differ == 0
		all.Differ &= r.Differ
		all.Alike = max(all.Alike, r.Alike)
		length = max(length, float32(min(f.Words, truth.Words))/float32(max(f.Words, truth.Words, 1)))
		links, outside = max(links, shared(f.Inside, truth.Inside)), max(outside, shared(f.Outside, truth.Outside))
	}
	if same {
		if h.Unloose++; h.Unloose >= forgetAfter {
			*h = Host{} // the host has become quiet
		}
		return
	}
	if all.Alike < leastAlike {
		return
	}
	h.Unloose, h.Learnt = 0, min(h.Learnt, 254)+1
	h.Alike, h.Length = lower(h.Alike, all.Alike), lower(h.Length, length)
	h.Links, h.Others = lower(h.Links, links), lower(h.Others, outside)
	h.Loose |= all.Differ & (Title | Figures | Sources)
}

// forgetAfter is how many pairs in turn that are alike in all make a host forget what it learnt.
const forgetAfter = 40

// lower moves what was learnt down to a share at once, and up to it slowly.
func lower(learnt uint8, share float32) uint8 {
	s := uint8(max(share*255, 1))
	if learnt == 0 || s < learnt {
		return s
	}
	return learnt + (s-learnt)/16
}

// shared is the part that two sorted sets have in common (Jaccard). Sets of the least hashes of larger ones estimate the same of those.
func shared(a, b []uint32) float32 {
	if len(a) == 0 && len(b) == 0 {
		return 1
	}
	top := ^uint32(0) // a full set is a sample: compare where both have looked
	for _, s := range [][]uint32{a, b} {
		if len(s) == MaxText {
			top = min(top, s[MaxText-1])
		}
	}
	a, b = upTo(a, top), upTo(b, top)
	n := overlap(a, b)
	return float32(n) / float32(max(len(a)+len(b)-n, 1))
}

func upTo(a []uint32, top uint32) []uint32 {
	n, found := slices.BinarySearch(a, top)
	if found {
		n++
	}
	return a[:n]
}

// overlap counts what two sorted sets have in common.
func overlap(a, b []uint32) (n int) {
	for i, j := 0, 0; i < len(a) && j < len(b); {
		switch {
		case a[i] < b[j]:
			i++
		case a[i] > b[j]:
			j++
		default:
			n, i, j = n+1, i+1, j+1
		}
	}
	return n
}
