package channel

import (
	"fmt"
	"math/bits"
	"math/rand/v2"
	"strings"
	"testing"
)

func fingerprint(text string) uint64 {
	var s Shingler
	s.Add([]byte(text))
	return s.Sum()
}

func TestShingles(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	words := func(n int) []string {
		w := make([]string, n)
		for i := range w {
			w[i] = fmt.Sprintf("w%d", rng.IntN(3000))
		}
		return w
	}
	var same, other, half int
	for range 200 {
		a := words(1000)
		b := append([]string(nil), a...)
		b[rng.IntN(len(b))] = "changed"
		b[rng.IntN(len(b))] = "changed"
		c := append(append([]string(nil), a[:500]...), words(500)...)
		fa := fingerprint(strings.Join(a, " "))
		if Near(fa, fingerprint(strings.Join(b, "  "))) {
			same++
		}
		if Near(fa, fingerprint(strings.Join(words(1000), " "))) {
			other++
		}
		half += bits.OnesCount64(fa ^ fingerprint(strings.Join(c, " ")))
	}
	if same < 198 || other > 0 {
		t.Errorf("of 200: %d near with two words changed (want at least 198), %d of other texts (want 0)", same, other)
	}
	// Half the runs of each are shared: J = 1/3, so a third of 64 bits differ.
	if mean := float64(half) / 200; mean < 18 || mean > 25 {
		t.Errorf("half the text changed: %.1f bits differ, want about 21", mean)
	}
}

func TestShinglesPiecewise(t *testing.T) {
	var s Shingler
	for _, p := range []string{"The quick", "brown fox ", " jumps over", "the lazy dog"} {
		s.Add([]byte(p))
	}
	if s.Sum() != fingerprint("the QUICK, brown fox jumps over the lazy dog!") {
		t.Error("pieces, case and punctuation must not matter")
	}
	if fingerprint("") != 0 || fingerprint(" .,;") != 0 || Near(0, 0) {
		t.Error("no words: zero, and near nothing")
	}
	if fingerprint("one") == 0 {
		t.Error("a word, and yet no fingerprint")
	}
}

// TestShinglerWords compares with words that are cut octet by octet.
func TestShinglerWords(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	const letters = "abzAZ019`{/:@[ \x00\x10\x19\x80\xff\n-_"
	for range 20_000 {
		text := make([]byte, rng.IntN(40))
		for i := range text {
			text[i] = letters[rng.IntN(len(letters))]
			if rng.IntN(2) == 0 {
				text[i] = byte('a' + rng.IntN(26))
			}
		}
		var whole, cut Shingler
		whole.Add(text)
		words := 0
		for from := 0; from < len(text); {
			to := from
			for to < len(text) && (text[to] >= 0x80 || text[to] >= '0' && text[to] <= '9' || text[to]|0x20 >= 'a' && text[to]|0x20 <= 'z') {
				to++
			}
			if to > from {
				cut.Add(text[from:to])
				words++
			}
			from = to + 1
		}
		if whole != cut || whole.words != words {
			t.Fatalf("%q: %d words, want %d", text, whole.words, words)
		}
	}
}

func BenchmarkShingles(b *testing.B) {
	var text []byte // words whose lengths no branch predictor learns
	for rng := rand.New(rand.NewPCG(1, 2)); len(text) < 8000; {
		text = append(append(text, strings.Repeat("word", 3)[:1+rng.IntN(11)]...), ' ')
	}
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		var s Shingler
		s.Add(text)
		s.Sum()
	}
}
