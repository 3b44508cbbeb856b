package member

import (
	"errors"
	"strings"
	"testing"
	"time"
)

func contribution() Contribution {
	return Contribution{NetworkName: "Example Search", Holder: 0xabc, Name: "Ada Lovelace", Team: "Sharks", Pages: 1234567, Bytes: 89, From: t0.Add(-30 * 24 * time.Hour), Issued: t0}
}

// TestContribution has a stranger check a certificate of contribution, as it is, in a mail that broke its lines, and long after its key has expired.
func TestContribution(t *testing.T) {
	root := NewRoot(seed(1))
	a := authority(t, root, 10, nil)
	text, err := a.CertifyContribution(contribution())
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"Ada Lovelace, of the team Sharks", "1,234,567 verified pages, 89 bytes", "lent a computer to the Shoal network Example Search\n", "in the weeks from 2024-01-31 to 2024-03-01,", "h-000000000abc", root.ID().String()} {
		if !strings.Contains(text, want) {
			t.Errorf("it does not say %q:\n%s", want, text)
		}
	}
	want := contribution()
	want.Network = root.ID()
	word := text[strings.LastIndex(text, kindContribution):]
	for name, form := range map[string]string{"whole": text, "other line ends": strings.ReplaceAll(text, "\n", "\r\n"), "the signed part alone": word} {
		c, err := CheckContribution(form)
		if err != nil || c != want {
			t.Errorf("%s: %+v, %v", name, c, err)
		}
	}
	for name, c := range map[string]struct {
		text string
		err  error
	}{
		"more pages in the text": {strings.Replace(text, "1,234,567", "9,234,567", 1), ErrText},
		"another name":           {strings.Replace(text, "Ada Lovelace", "Mallory", 1), ErrText},
		"a letter less":          {strings.TrimSpace(text)[:len(strings.TrimSpace(text))-1], ErrMalformed},
		"no signed part":         {"1,234,567 verified pages", ErrMalformed},
		"too long":               {strings.Repeat(" ", MaxContribution) + text, ErrTooLarge},
	} {
		if _, err := CheckContribution(c.text); !errors.Is(err, c.err) {
			t.Errorf("%s: %v, want %v", name, err, c.err)
		}
	}
}

// TestContributionToUnnamedNetwork leaves out the name of a network that has none.
func TestContributionToUnnamedNetwork(t *testing.T) {
	c := contribution()
	c.NetworkName = ""
	text, err := authority(t, NewRoot(seed(1)), 10, nil).CertifyContribution(c)
	if err != nil || !strings.Contains(text, "lent a computer to a Shoal network\n") {
		t.Errorf("%v\n%s", err, text)
	}
	if _, err := CheckContribution(text); err != nil {
		t.Error(err)
	}
}

// TestForgedContribution has keys sign that may not: of another network, expired before, or not for certificates.
func TestForgedContribution(t *testing.T) {
	root := NewRoot(seed(1))
	for name, c := range map[string]struct {
		change func(*Delegation)
		issued time.Time
		err    error
	}{
		"of documents alone":      {func(d *Delegation) { d.Roles = SignDocuments }, t0, ErrRole},
		"after the key's end":     {nil, t0.Add(48 * time.Hour), ErrExpired},
		"before the key was made": {nil, t0.Add(-48 * time.Hour), ErrNotYet},
	} {
		of := contribution()
		of.Issued = c.issued
		text, err := authority(t, root, 10, c.change).CertifyContribution(of)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := CheckContribution(text); !errors.Is(err, c.err) {
			t.Errorf("%s: %v, want %v", name, err, c.err)
		}
	}
	a := authority(t, root, 10, nil)
	cert, err := a.Certify(Certificate{Peer: "p", Role: Peer, NotBefore: t0, NotAfter: t0.Add(time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := CheckContribution(encodeText(kindContribution, cert)); err == nil {
		t.Error("a member's certificate passes for one of contribution")
	}
	for _, bad := range []func(*Contribution){func(c *Contribution) { c.Pages = 0 }, func(c *Contribution) { c.Name = "a\nb" }, func(c *Contribution) { c.From = t0.Add(time.Hour) }, func(c *Contribution) { c.Team = strings.Repeat("x", 200) }} {
		c := contribution()
		bad(&c)
		if text, err := a.CertifyContribution(c); err == nil {
			t.Errorf("signed: %s", text)
		}
	}
}

func FuzzContribution(f *testing.F) {
	a := authority(f, NewRoot(seed(1)), 10, nil)
	text, err := a.CertifyContribution(contribution())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Add(text[strings.LastIndex(text, kindContribution):])
	f.Fuzz(func(t *testing.T, s string) {
		c, err := CheckContribution(s)
		typed(t, err)
		if err == nil && c.Network == NewRoot(seed(1)).ID() && c.Name != "Ada Lovelace" {
			t.Fatalf("forged: %+v", c)
		}
	})
}
