package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"shoal/internal/lab/judge"
)

// ask sends an operator's request. An error says that no answer came, or not all of it.
func (g page) ask(t *testing.T, within time.Duration, method, path string, in []byte) (status int, body []byte, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, g.base+"/api/v1"+path, bytes.NewReader(in))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+g.token)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer res.Body.Close()
	body, err = io.ReadAll(res.Body)
	return res.StatusCode, body, err
}

// crawledSince waits until each channel was crawled after a moment, and keeps the judge looking. When time is over it tells all breaches, and returns an
// error.
func crawledSince(t *testing.T, j *judge.Judge, alive func(), rest time.Duration, since time.Time, over func() bool) error {
	t.Helper()
	var behind []string
	var err error
	began := time.Now()
	for told := began; ; time.Sleep(rest) {
		if alive(); time.Since(told) > time.Minute { // what comes last says what holds the network up, also where it comes in time
			told = time.Now()
			what := strings.Join(behind[:min(len(behind), 5)], "; ")
			if err != nil {
				what = fmt.Sprintf("the last look failed: %v", err)
			}
			t.Logf("after a wait of %.0f s %d channels are behind: %s", told.Sub(began).Seconds(), len(behind), what)
		}
		err = j.Look(t.Context())
		if err == nil {
			if behind, err = j.Behind(t.Context(), since); err == nil && len(behind) == 0 {
				return nil
			}
		}
		if errors.Is(err, judge.ErrMissed) {
			return err
		}
		if over() {
			j.NeverCameBack(behind)
			for _, b := range j.Breaches() {
				t.Error(b)
			}
			if err == nil {
				err = fmt.Errorf("%d channels are behind", len(behind))
			}
			return err
		}
	}
}

// crude says whether a line that a program has said shows how programs are made, and not what happened. One whose disk was full may have ended with a fault of mapped
// memory, or for want of memory, which no code can put into words.
func crude(line string, full bool) bool {
	if strings.HasPrefix(line, "fatal error:") {
		return !full || !slices.Contains([]string{"fatal error: fault", "fatal error: out of memory", "fatal error: runtime: out of memory", "fatal error: runtime: cannot allocate memory"}, line)
	}
	return strings.Contains(line, "%!") || strings.Contains(line, "<nil>") || strings.HasPrefix(line, "panic:")
}

// asked reads the one question of a message to a name server.
func asked(message []byte) (head dnsmessage.Header, q dnsmessage.Question, err error) {
	var p dnsmessage.Parser
	if head, err = p.Start(message); err != nil {
		return head, q, err
	}
	q, err = p.Question()
	return head, q, err
}

// answers begins the answer to a question.
func answers(head dnsmessage.Header, q dnsmessage.Question, code dnsmessage.RCode) (*dnsmessage.Builder, error) {
	b := dnsmessage.NewBuilder(nil, dnsmessage.Header{ID: head.ID, Response: true, RecursionAvailable: true, RecursionDesired: head.RecursionDesired, RCode: code})
	if err := b.StartQuestions(); err != nil {
		return nil, err
	}
	if err := b.Question(q); err != nil {
		return nil, err
	}
	return &b, b.StartAnswers()
}

// TestCrude shows what a program may say in the end, and what it may not.
func TestCrude(t *testing.T) {
	for line, want := range map[string][2]bool{ // on a disk that has room, and on one that was full
		"fatal error: concurrent map writes":              {true, true},
		"fatal error: all goroutines are asleep":          {true, true},
		"fatal error: fault":                              {true, false},
		"fatal error: runtime: cannot allocate memory":    {true, false},
		"panic: close of closed channel":                  {true, true},
		"not stored: %!v(PANIC=...)":                      {true, true},
		"not stored: <nil>":                               {true, true},
		"shoal: no space left on device: make room":       {false, false},
		"the server said: a fatal error: read the log":    {false, false},
		"level=ERROR msg=\"write the pages\" err=\"EOF\"": {false, false},
	} {
		if got := [2]bool{crude(line, false), crude(line, true)}; got != want {
			t.Errorf("%q: %v, want %v", line, got, want)
		}
	}
}
