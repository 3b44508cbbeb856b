package archive

import (
	"testing"
	"time"

	"shoal/channel"
)

// tagged is home with an ETag, as it came or, of the content that is stored, unchanged.
func tagged(tag string, change channel.Change) func(r *runner) []channel.Page {
	return func(r *runner) []channel.Page {
		p := r.page("/", home, change)
		p.Header = []byte("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nETag: \"" + tag + "\"\r\n\r\n")
		if change == channel.Unchanged {
			p.Body = nil
		}
		return []channel.Page{p}
	}
}

// tagOf is the ETag that the next peer is told.
func tagOf(t *testing.T, a *Archive, since time.Time) string {
	t.Helper()
	k, err := a.Known(t.Context(), 1, since)
	if err != nil || len(k.Digests) != 1 {
		t.Fatalf("%+v, %v", k, err)
	}
	if len(k.Validators) == 0 {
		return ""
	}
	return k.Validators[0].ETag
}

// tells fails where the next peer is told another ETag; "-": it does not matter.
func tells(t *testing.T, a *Archive, gen channel.Gen, want string) {
	t.Helper()
	if want == "-" {
		return
	}
	if got := tagOf(t, a, time.Time{}); got != want {
		t.Errorf("after crawl %d %q is told, want %q", gen, got, want)
	}
}

// TestOnePeerNamesNoOtherValidator has a liar who has seen a page change say that it has not, or send what was there before, with the ETag of what is there now: nobody is told
// that. A server that names another one of the same content has it told once a second peer has named one.
func TestOnePeerNamesNoOtherValidator(t *testing.T) {
	for _, change := range []channel.Change{channel.Unchanged, channel.Changed} {
		a, cl, _ := strangers(t)
		j := newJudge(t, a, true, "alice", "bob", "mallory")
		gen := channel.Gen(0)
		for _, step := range []struct {
			peer, tag string
			change    channel.Change
			told      string
		}{
			{"alice", "1", channel.New, "-"}, {"bob", "1", channel.New, `"1"`}, {"mallory", "2", change, ""}, {"mallory", "2", change, ""},
			{"alice", "1", channel.Unchanged, `"1"`}, {"bob", "3", channel.Unchanged, ""}, {"alice", "3", channel.Unchanged, `"3"`},
		} {
			gen++
			cl.crawl(t, a, step.peer, gen, tagged(step.tag, step.change))
			j.deliver(cl, gen)
			tells(t, a, gen, step.told)
		}
	}
}

// TestETagsAreComparedAsHostsDo has a host that compresses send the weak form of a tag with content and the strong one with a 304, and one whose 304s name another each time:
// peers go on asking by what is known.
func TestETagsAreComparedAsHostsDo(t *testing.T) {
	a, cl, _ := strangers(t)
	j := newJudge(t, a, true, "alice", "bob", "mallory")
	gen := channel.Gen(0)
	for _, step := range []struct {
		peer, tag string
		change    channel.Change
		status    int
		told      string
	}{
		{"alice", `W/"1"`, channel.New, 200, "-"}, {"bob", `W/"1"`, channel.New, 200, `W/"1"`}, {"alice", `"1"`, channel.Unchanged, 304, `W/"1"`}, {"alice", `W/"1"`, channel.Changed, 200, `W/"1"`},
		{"alice", `"1"`, channel.Changed, 200, `W/"1"`}, {"alice", `"7"`, channel.Unchanged, 304, `W/"1"`}, {"bob", `"8"`, channel.Unchanged, 304, `W/"1"`},
		{"mallory", `"9"`, channel.Unchanged, 200, ""}, {"alice", `"9"`, channel.Unchanged, 200, `"9"`},
	} {
		gen++
		cl.crawl(t, a, step.peer, gen, func(r *runner) []channel.Page {
			p := tagged("", step.change)(r)[0]
			p.Status, p.Header = step.status, []byte("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nETag: "+step.tag+"\r\n\r\n")
			return []channel.Page{p}
		})
		j.deliver(cl, gen)
		tells(t, a, gen, step.told)
	}
}
