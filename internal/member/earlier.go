package member

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// fileEarlier has the delegations under which this manager worked before, one a line, and until when: a time in seconds, or 0 as long as it has not worked
// under a newer one.
const fileEarlier = "earlier"

// Earlier is a delegation under which a manager worked before. What was signed under it may be shown for a while.
type Earlier struct {
	Delegation []byte    // sealed
	Until      time.Time // when the manager began to work under a newer one; zero: it has not
}

// RenewalLife is for how long after a manager last worked under a delegation a certificate that it signed then can be renewed.
const RenewalLife = CertificateLife + DefaultGrace

// maxEarlier bounds the delegations that are remembered. Of more, the oldest are forgotten.
const maxEarlier = 8

// Earlier are the delegations under which this manager worked before, the oldest first, without those whose keys may be in others' hands.
func (k *Keys) Earlier() []Earlier {
	return slices.DeleteFunc(slices.Clone(k.earlier), func(e Earlier) bool {
		d, err := ReadDelegation(e.Delegation)
		return err != nil || d.Serial <= k.Stolen
	})
}

// Begin says that a manager works under these keys from now on. What it worked under before is good for a while from then: a key that was rotated is used
// until the manager starts anew, which may be long after.
func (k *Keys) Begin(now time.Time) error {
	if k.Previous != nil && !slices.ContainsFunc(k.earlier, func(e Earlier) bool { return bytes.Equal(e.Delegation, k.Previous) }) {
		k.earlier = append(k.earlier, Earlier{Delegation: k.Previous}) // version 0.1.0 kept no more than that
	}
	var kept []Earlier
	for _, e := range k.earlier {
		if e.Until.IsZero() || e.Until.After(now) {
			e.Until = now
		}
		if bytes.Equal(e.Delegation, k.Authority.Sealed()) || now.Sub(e.Until) >= RenewalLife && !bytes.Equal(e.Delegation, k.Previous) {
			continue
		}
		kept = append(kept, e)
	}
	return k.keepEarlier(kept)
}

// noteEarlier remembers a delegation before a newer one takes its place; nil: what there was before counts no more.
func (k *Keys) noteEarlier(sealed []byte) error {
	if sealed == nil {
		k.earlier = nil
		return k.remove(fileEarlier)
	}
	return k.keepEarlier(append(slices.Clone(k.earlier), Earlier{Delegation: sealed}))
}

func (k *Keys) keepEarlier(list []Earlier) error {
	list = list[max(len(list)-maxEarlier, 0):]
	same := func(a, b Earlier) bool { return bytes.Equal(a.Delegation, b.Delegation) && a.Until.Equal(b.Until) }
	if slices.EqualFunc(list, k.earlier, same) {
		return nil
	}
	var lines []string
	for _, e := range list {
		until := int64(0)
		if !e.Until.IsZero() {
			until = e.Until.Unix()
		}
		lines = append(lines, fmt.Sprintf("%d %s", until, encodeText(kindPrev, e.Delegation)))
	}
	k.earlier = list // counts for this run also where it cannot be written
	return k.write(fileEarlier, lines...)
}

func (k *Keys) takeEarlier(s string) error {
	for line := range strings.Lines(s) {
		at, text, _ := strings.Cut(strings.TrimSpace(line), " ")
		seconds, err := strconv.ParseInt(at, 10, 64)
		if err != nil {
			return fmt.Errorf("%w: move it away: members that were off for a day or two may have to join anew then", ErrMalformed)
		}
		e := Earlier{}
		if seconds != 0 {
			e.Until = time.Unix(seconds, 0)
		}
		if e.Delegation, err = decodeText(kindPrev, text); err != nil {
			return err
		}
		k.earlier = append(k.earlier, e)
	}
	return nil
}
