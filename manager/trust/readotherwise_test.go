package trust

import "testing"

// TestReadOtherwise tells what peers read otherwise from what they saw otherwise, also beside versions of which an earlier manager kept the digest of what came alone.
func TestReadOtherwise(t *testing.T) {
	const text, near, far = 1 << 40, 1<<40 + 1, 0xffff
	for name, c := range map[string]struct {
		v    Version
		s    Seen
		want bool
	}{
		"the same":                {Version{Digest: 5, Raw: 7, Shingle: text, State: Verified}, Seen{Digest: 5, Raw: 7, Shingle: text}, false},
		"a little other":          {Version{Digest: 5, Raw: 7, Shingle: text, State: Verified}, Seen{Digest: 6, Raw: 7, Shingle: near}, true},
		"quite other":             {Version{Digest: 5, Raw: 7, Shingle: text, State: Verified}, Seen{Digest: 6, Raw: 7, Shingle: far}, false},
		"another page":            {Version{Digest: 5, Raw: 7, Shingle: text, State: Verified}, Seen{Digest: 6, Raw: 8, Shingle: near}, false},
		"of an earlier manager":   {Version{Digest: 7, Shingle: text, State: Verified}, Seen{Digest: 6, Raw: 7, Shingle: near}, true},
		"whole, both":             {Version{Digest: 5, Shingle: text, State: Verified}, Seen{Digest: 6, Shingle: near}, false},
		"unchanged, without more": {Version{Digest: 5, Raw: 7, Shingle: text, State: Verified}, Seen{}, false},
		"no version":              {Version{}, Seen{Digest: 6, Raw: 7, Shingle: near}, false},
	} {
		if got := c.v.readOtherwise(&c.s); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
