// Package release decides about new versions of the volunteers' program: which version follows which, which peers take one while it is rolled
// out, whether a peer keeps it or falls back, and when a roll-out must stop.
//
// It is not for whom to believe about a release (package trusted), how it comes (package carry), nor how one program takes another's place
// (package programs).
//
// The package is pure: times and reports come in, decisions go out. Invariants: a peer never goes back to an older version, except to the one that it
// had before; a larger share contains every smaller one; a roll-out that has stopped stays stopped.
package release

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// ErrVersion is returned for what is no version of a release.
var ErrVersion = errors.New("release: not a version of a release")

// MaxVersion bounds the text of a version.
const MaxVersion = 32

// Version is a version of a release: v1.2.3, or v1.2.3-rc.1 before it.
type Version struct {
	Major, Minor, Patch int
	Pre                 string // alpha, beta or rc; empty: none
	PreN                int
}

// Parse reads a version. It refuses those of builds between releases, such as v1.2.3-4-gabcdef: which of two is newer cannot be told.
func Parse(s string) (Version, error) {
	var v Version
	bad := func() (Version, error) {
		return Version{}, fmt.Errorf("%w: %q; one looks like v1.2.3 or v1.2.3-rc.1", ErrVersion, s[:min(len(s), MaxVersion)])
	}
	if len(s) > MaxVersion {
		return bad()
	}
	core, pre, isPre := strings.Cut(strings.TrimPrefix(s, "v"), "-")
	parts := strings.Split(core, ".")
	if len(parts) != 3 {
		return bad()
	}
	for i, to := range []*int{&v.Major, &v.Minor, &v.Patch} {
		n, ok := number(parts[i])
		if !ok {
			return bad()
		}
		*to = n
	}
	if !isPre {
		return v, nil
	}
	name, n, counted := strings.Cut(pre, ".")
	if name != "alpha" && name != "beta" && name != "rc" {
		return bad()
	}
	v.Pre = name
	if counted {
		var ok bool
		if v.PreN, ok = number(n); !ok {
			return bad()
		}
	}
	return v, nil
}

// number reads digits without a leading zero.
func number(s string) (int, bool) {
	if s == "" || len(s) > 6 || s[0] == '0' && len(s) > 1 || strings.Trim(s, "0123456789") != "" {
		return 0, false
	}
	n, err := strconv.Atoi(s)
	return n, err == nil
}

func (v Version) String() string {
	s := fmt.Sprintf("v%d.%d.%d", v.Major, v.Minor, v.Patch)
	if v.Pre == "" {
		return s
	}
	if v.PreN == 0 {
		return s + "-" + v.Pre
	}
	return fmt.Sprintf("%s-%s.%d", s, v.Pre, v.PreN)
}

// Compare is negative if v is older than w, and positive if it is newer.
func (v Version) Compare(w Version) int {
	final := func(x Version) string { return cmp.Or(x.Pre, "~") } // after every word
	return cmp.Or(cmp.Compare(v.Major, w.Major), cmp.Compare(v.Minor, w.Minor), cmp.Compare(v.Patch, w.Patch), cmp.Compare(final(v), final(w)), cmp.Compare(v.PreN, w.PreN))
}

// Newer reports whether version a is newer than b. What is no version of a release is neither newer nor older than anything.
func Newer(a, b string) bool {
	v, err := Parse(a)
	w, err2 := Parse(b)
	return err == nil && err2 == nil && v.Compare(w) > 0
}

// Whole is a share of all peers.
const Whole = 10_000

// In reports whether a peer is among the first share of Whole that get a version. Which ones these are differs from version to version, so that not
// always the same volunteers go first.
func In(version, peer string, share int) bool {
	sum := sha256.Sum256([]byte(version + "\n" + peer))
	return int(binary.BigEndian.Uint64(sum[:8])%Whole) < share
}

// Target is the name under which a release's program for a system and architecture is signed.
func Target(version, system, arch string) string {
	return "shoal-peer/" + version + "/" + system + "-" + arch
}
