package web

import (
	"strings"
	"testing"
)

// What cannot be undone asks first.
func TestConfirmations(t *testing.T) {
	_, s := start(t, true)
	for path, action := range map[string]string{"/channel/1": "/channel/1/remove", "/channel/1/split": "/channel/1/split", "/hosts": "/hosts/block", "/peers": "/peers/ban"} {
		_, body := ask(t, "GET", s.URL+path, token)
		if !strings.Contains(body, `action="`+action+`"`) {
			t.Errorf("%s has no form for %s", path, action)
		}
		for _, form := range strings.Split(body, "<form ")[1:] {
			form, _, _ = strings.Cut(form, "</form>")
			if strings.Contains(form, `action="`+action+`"`) && !strings.Contains(form, "data-confirm=") {
				t.Errorf("%s does without asking: %s", path, form)
			}
		}
	}
	_, js := ask(t, "GET", s.URL+"/live.js", nil)
	if !strings.Contains(js, "dataset.confirm") {
		t.Error("no script asks")
	}
}
