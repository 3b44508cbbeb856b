package archive

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"
)

// Checking is one line of what POST /verify answers.
type Checking struct {
	Done     int64     `json:"done"` // bytes
	All      int64     `json:"all"`
	Verified *Verified `json:"verified,omitempty"` // on the last line
	Error    string    `json:"error,omitempty"`    // on the last line, instead
}

const checkingEvery = time.Second // lines of a verification

func (a *Archive) serveStats(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(a.Stats()) // the client may be gone
}

// serveVerify verifies beside everything else. It ends when the client goes.
func (a *Archive) serveVerify(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/x-ndjson")
	w.Header().Set("Cache-Control", "no-store")
	enc, out := json.NewEncoder(w), http.NewResponseController(w)
	var told time.Time
	say := func(c Checking) {
		if enc.Encode(c) == nil {
			_ = out.Flush() // a client that is gone ends the request's context
		}
	}
	var last Checking
	v, err := a.Verify(r.Context(), func(done, all int64) {
		last = Checking{Done: done, All: all}
		if now := time.Now(); now.Sub(told) >= checkingEvery {
			told = now
			say(last)
		}
	})
	if last.Verified = &v; err != nil {
		last.Verified, last.Error = nil, err.Error()
	}
	say(last)
}

func (a *Archive) serveCompact(w http.ResponseWriter, r *http.Request) {
	keep, share, err := tidying(r)
	if err != nil {
		refuse(w, err)
		return
	}
	var done Tidied
	if r.URL.Query().Get("dry") == "1" {
		done.Dry = true
		done.Forgotten, err = a.WouldForget(r.Context(), keep)
	} else {
		done, err = a.Tidy(r.Context(), keep, share)
	}
	if err != nil {
		refuse(w, err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(done) // the client may be gone
}

// tidying reads the parameters of POST /compact.
func tidying(r *http.Request) (keep Retention, share float64, err error) {
	q, share := r.URL.Query(), DefaultShare
	read := func(name, want string, into func(string) error) {
		if s := q.Get(name); s != "" && into(s) != nil {
			err = errors.Join(err, fmt.Errorf("%w: %s=%.20q: want %s", errParam, name, s, want))
		}
	}
	read("captures", "a whole number", func(s string) (err error) { keep.Captures, err = strconv.Atoi(s); return err })
	read("age", "a time with its unit, as 8760h", func(s string) (err error) { keep.Age, err = time.ParseDuration(s); return err })
	read("feed", "a time with its unit, as 720h", func(s string) (err error) { keep.Feed, err = time.ParseDuration(s); return err })
	read("share", "a number from 0 to 1", func(s string) (err error) { share, err = strconv.ParseFloat(s, 64); return err })
	if bad := keep.Validate(); bad != nil {
		err = errors.Join(err, fmt.Errorf("%w: %w", errParam, bad))
	}
	if !(share >= 0 && share <= 1) {
		err = errors.Join(err, fmt.Errorf("%w: share=%v, want 0 to 1", errParam, share))
	}
	return keep, share, err
}
