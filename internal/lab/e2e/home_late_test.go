package e2e

import (
	"strings"
	"testing"

	"shoal/internal/member"
)

// TestLateAnswersOnThePage: who changes the join string while its network is asked agrees to what is shown, and an answer about one network that comes
// after another one was chosen is not shown as the other's.
func TestLateAnswersOnThePage(t *testing.T) {
	drivesPrograms(t)
	t.Parallel()
	b := openBrowser(t)
	h := newHome(t)
	first, _ := suspendingServer(t)
	j, err := member.ParseJoinString(first)
	if err != nil {
		t.Fatal(err)
	}
	b.enter(h.link(), "A search company")
	b.eval(`window.asks = window.fetch; window.fetch = async (u, o) => {
  const r = await window.asks(u, o);
  if (window.late && String(u).includes(window.late)) { window.late = ""; await new Promise((go) => { window.go = go; }); setTimeout(() => { window.came = true; }, 300); }
  return r;
}; true`)
	late := func(part string) {
		b.eval("window.late = " + quote(part) + "; window.go = undefined; window.came = false; true")
	}

	late("/v1/join")
	b.eval("document.querySelector('#join').value = " + quote(first) + "; true")
	b.press("See who asks")
	b.until("waits for an answer", "!!window.go")
	b.eval("document.querySelector('#join').value = " + quote(h.join) + "; window.go(); true")
	b.shows("You would lend this computer to Example Search")
	b.press("I agree: join")
	b.until("is a member", "document.querySelector('#nav a[href=\"#contribution\"]').hidden === false")
	if st := h.networks(); len(st.Networks) != 1 || st.Networks[0].Network != j.Network.String() {
		t.Fatalf("it has joined %+v, want %s, whose terms were shown", st.Networks, j.Network)
	}

	h.command("join", "--yes", "--no-limits", h.join)
	h.peer.until("works for both", func() bool { return len(h.networks().Networks) == 2 })
	b.view("contribution", "Suspended for what it delivered")
	choose := func(i string) { b.eval("document.querySelectorAll('main .ranges button')[" + i + "].click(); true") }
	b.until("offers both", "document.querySelectorAll('main .ranges button').length === 2")
	choose("1")
	b.shows("Nothing is held against it.")
	late("network=" + j.Network.String())
	choose("0")
	b.until("waits for an answer", "!!window.go")
	choose("1")
	b.shows("Nothing is held against it.")
	b.eval("window.go(); true")
	b.until("has had the late answer", "window.came")
	if text := b.eval("document.body.innerText"); strings.Contains(text, "Suspended for what it delivered") || !strings.Contains(text, "Nothing is held against it.") {
		t.Errorf("it shows the standing in one network as that in another:\n%s", text)
	}
}
