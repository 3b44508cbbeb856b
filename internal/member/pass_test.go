package member

import (
	"errors"
	"testing"
	"time"
)

func passOf(t testing.TB, a *Authority, c Certificate) []byte {
	t.Helper()
	pass, err := PassOf(must(a.Certify(c)))
	if err != nil {
		t.Fatal(err)
	}
	return pass
}

func TestVerifyPass(t *testing.T) {
	root := NewRoot(seed(1))
	a, next := authority(t, root, 10, nil), authority(t, root, 11, nil)
	v := NewVerifier(root.ID())
	c := Certificate{Peer: "p", Account: "ada", Role: Peer, NotBefore: t0, NotAfter: t0.Add(time.Hour)}
	good := passOf(t, a, c)
	if _, err := v.VerifyPass(t0, good); !errors.Is(err, ErrDelegation) {
		t.Errorf("without a document: %v", err)
	}
	learn := func(by *Authority, d Document) {
		t.Helper()
		if _, _, err := v.Learn(t0, document(t, by, d)); err != nil {
			t.Fatal(err)
		}
	}
	tasksOnly := authority(t, root, 12, func(d *Delegation) { d.Roles = SignTasks })
	learn(a, Document{Delegations: [][]byte{a.Sealed(), tasksOnly.Sealed()}})
	p, err := v.VerifyPass(t0, good)
	if err != nil || p.Peer != "p" || p.Account != "ada" || p.Serial != 10 {
		t.Fatalf("%+v, %v", p, err)
	}
	long := append([]byte(nil), good...)
	for len(long) <= MaxPass {
		long = append(long, good...)
	}
	foreign := authority(t, NewRoot(seed(2)), 10, nil)
	altered := append([]byte(nil), good...)
	altered[len(altered)-10] ^= 1 // of the signature
	for what, bad := range map[string]struct {
		now  time.Time
		pass []byte
		want error
	}{
		"nothing":                   {t0, nil, ErrUnsigned},
		"noise":                     {t0, []byte{0xff}, ErrMalformed},
		"too large":                 {t0, long, ErrTooLarge},
		"altered":                   {t0, altered, ErrAltered},
		"of another network":        {t0, passOf(t, foreign, c), ErrOtherNetwork},
		"of an unknown delegation":  {t0, passOf(t, next, c), ErrDelegation},
		"past its end":              {t0.Add(time.Hour + Skew + time.Second), good, ErrExpired},
		"before its beginning":      {t0.Add(-Skew - time.Second), good, ErrNotYet},
		"of a key that may not":     {t0, passOf(t, tasksOnly, c), ErrRole},
		"by the skew past its end":  {t0.Add(time.Hour + Skew), good, nil},
		"by the skew too early yet": {t0.Add(-Skew), good, nil},
	} {
		if _, err := v.VerifyPass(bad.now, bad.pass); !errors.Is(err, bad.want) {
			t.Errorf("%s: %v, want %v", what, err, bad.want)
		}
	}
	// A rotation: both keys are good for a while, then the older one is not.
	learn(next, Document{Delegations: [][]byte{next.Sealed(), a.Sealed()}, MinSerial: 10})
	for _, pass := range [][]byte{good, passOf(t, next, c)} {
		if _, err := v.VerifyPass(t0, pass); err != nil {
			t.Errorf("while both keys are in use: %v", err)
		}
	}
	learn(next, Document{Delegations: [][]byte{next.Sealed()}, MinSerial: 11, Issued: t0.Add(time.Minute)})
	if _, err := v.VerifyPass(t0, good); !errors.Is(err, ErrOutdated) {
		t.Errorf("of an outdated key: %v", err)
	}
	if err := v.StillGood(t0, p); !errors.Is(err, ErrOutdated) {
		t.Errorf("checked before, of an outdated key: %v", err)
	}
}

func FuzzPass(f *testing.F) {
	root := NewRoot(seed(1))
	a := authority(f, root, 10, nil)
	v := NewVerifier(root.ID())
	if _, _, err := v.Learn(t0, document(f, a, Document{Delegations: [][]byte{a.Sealed()}})); err != nil {
		f.Fatal(err)
	}
	f.Add(passOf(f, a, Certificate{Peer: "p", Account: "ada", Role: Peer, NotBefore: t0, NotAfter: t0.Add(time.Hour)}))
	f.Add([]byte{0x0a, 0x02, 0x08, 0x01})
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := v.VerifyPass(t0, b)
		typed(t, err)
		if err == nil && (p.Account != "ada" || p.Peer != "p") {
			t.Fatalf("forged: %+v", p)
		}
		_, err = PassOf(b)
		typed(t, err)
	})
}
