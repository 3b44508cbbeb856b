package pond

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
)

func TestCmd(t *testing.T) {
	var out, errw bytes.Buffer
	if err := (&Cmd{Modes: true}).Run(context.Background(), &out, &errw); err != nil || !strings.Contains(out.String(), "gzip-bomb\n") {
		t.Errorf("%v: %q", err, out.String())
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	out.Reset()
	c := Cmd{Listen: "127.0.0.1:0", Hosts: 5, Pages: 10, Bad: map[string]string{"3": "429"}, JSON: true}
	if err := c.Run(ctx, &out, &errw); err != nil {
		t.Fatal(err)
	}
	var st Stats
	if err := json.Unmarshal(out.Bytes(), &st); err != nil || st.Requests != 0 {
		t.Errorf("%v: %s", err, out.String())
	}
	for _, bad := range []Cmd{{Listen: "nowhere:x", Hosts: 1, Pages: 1}, {Hosts: 9, Pages: 3}, {Pages: 3}, {Hosts: 3},
		{Hosts: 5, Pages: 10, Bad: map[string]string{"x": "429"}}, {Hosts: 5, Pages: 10, Bad: map[string]string{"3": "juggling"}}} {
		if err := bad.Run(context.Background(), &out, &errw); err == nil {
			t.Errorf("%+v was taken", bad)
		}
	}
	if err := (&Cmd{Hosts: 5, Pages: 10, Bad: map[string]string{"3": "juggling"}}).Run(context.Background(), &out, &errw); !errors.Is(err, ErrMode) {
		t.Error(err)
	}
}
