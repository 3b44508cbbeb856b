package member

import (
	"testing"
	"time"
)

// TestDocumentOfAClockThatWasAhead has a verifier take a document by a clock that is ten minutes ahead, as it is. Once the clock is right, it takes the one that was signed next,
// and an older one that is passed on undoes no ban.
func TestDocumentOfAClockThatWasAhead(t *testing.T) {
	root := NewRoot(seed(1))
	a := authority(t, root, 10, func(d *Delegation) { d.NotAfter = t0.Add(7 * 24 * time.Hour) })
	const off = 10 * time.Minute
	at := func(after time.Duration, names ...string) []byte {
		d := Document{Delegations: [][]byte{a.Sealed()}, MinSerial: 10, Issued: t0.Add(after)}
		for _, n := range names {
			d.Banned = append(d.Banned, BanOf(n))
		}
		return document(t, a, d)
	}
	learner := func() (*Verifier, func(what string, now time.Duration, sealed []byte, changes bool)) {
		v := NewVerifier(root.ID())
		learn := func(what string, now time.Duration, sealed []byte, changes bool) {
			t.Helper()
			if _, changed, err := v.Learn(t0.Add(now), sealed); err != nil || changed != changes {
				t.Errorf("%s: changed %v, %v", what, changed, err)
			}
		}
		learn("by a clock that is ahead", off, at(off, "eve"), true)
		if v.Ahead(t0.Add(off)) || !v.Ahead(t0) {
			t.Error("which document is ahead")
		}
		return v, learn
	}
	bans := func(v *Verifier, what string, eve, mallory bool) {
		t.Helper()
		if v.Banned("eve", "") != eve || v.Banned("mallory", "") != mallory {
			t.Errorf("%s: bans eve %v, mallory %v", what, v.Banned("eve", ""), v.Banned("mallory", ""))
		}
	}

	v, learn := learner()
	learn("the one that was signed next", time.Second, at(time.Second, "eve", "mallory"), true)
	bans(v, "the one that was signed next", true, true)
	learn("an older one", 2*time.Second, at(-time.Hour), false)

	v, learn = learner()
	learn("an older one that eve passes on", 0, at(-time.Hour), true)
	bans(v, "an older one that eve passes on", true, false)
	learn("the one that was signed next", time.Second, at(time.Second, "mallory"), true)
	bans(v, "the one that was signed next", true, true)
	learn("one that overtakes the first", off-Skew+time.Second, at(off+time.Millisecond, "mallory"), true)
	bans(v, "one that overtakes the first", false, true)

	v, _ = learner()
	if _, changed, err := v.LearnOwn(t0, at(0)); err != nil || !changed {
		t.Errorf("its own: changed %v, %v", changed, err)
	}
	bans(v, "who signs documents forgives", false, false)

	v, learn = learner()
	learn("an older one, within the skew", off-Skew, at(off-2*Skew), false)
	bans(v, "an older one, within the skew", true, false)

	v, learn = learner()
	learn("the next one", 0, at(0), true)
	learn("after all certificates of before have ended", CertificateLife+3*Skew, at(off/2), true)
	bans(v, "after all certificates of before have ended", false, false)

	// A restart does not make an older document newer, and an older key does not by the date of the one that is held.
	v, _ = learner()
	back := NewVerifier(root.ID())
	if _, err := back.Recall(v.SealedDocument()); err != nil {
		t.Fatal(err)
	}
	if _, changed, err := back.Learn(t0, at(0)); err != nil || !changed {
		t.Errorf("after a restart: changed %v, %v", changed, err)
	}
	next := authority(t, root, 11, nil)
	if _, changed, err := v.Learn(t0.Add(off), document(t, next, Document{Delegations: [][]byte{next.Sealed()}, MinSerial: 10, Issued: t0.Add(off)})); err != nil || !changed {
		t.Fatalf("changed %v, %v", changed, err)
	}
	if _, changed, err := v.Learn(t0, at(0)); err != nil || changed {
		t.Errorf("a document of a key that is not in use: changed %v, %v", changed, err)
	}
}
