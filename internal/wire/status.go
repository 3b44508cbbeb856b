package wire

import (
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/libp2p/go-libp2p/core/network"
)

// Code is the kind of an error as it crosses the wire. It is an error itself, so that errors.Is(err, wire.Busy) works on either side.
type Code uint8

// The codes. Numbers are never reused.
const (
	ok        Code = iota
	Malformed      // the request cannot be read
	TooLarge       // request or answer is beyond its limit
	NotMember      // one side is no member of the network
	Refused        // read, understood, not granted
	Busy           // not now
	NotFound       // no such thing, or no such protocol there
	Clock          // the clocks disagree too much
	Internal       // the other side's fault
	Outdated       // the asker's protocol version or certificate is too old
)

var codeNames = [...]string{"ok", "malformed", "too large", "not a member", "refused", "busy", "not found", "clock", "internal error", "outdated"}

func (c Code) String() string {
	if int(c) < len(codeNames) {
		return codeNames[c]
	}
	return fmt.Sprintf("code %d", uint8(c))
}

func (c Code) Error() string { return "wire: " + c.String() }

// Status is an error that a handler sends, and that its caller gets.
type Status struct {
	Code   Code
	Reason string // a word for counters; may be empty
	Text   string // for people; may be empty
}

func (s *Status) Error() string {
	if s.Text == "" {
		return s.Code.Error()
	}
	return s.Text
}

// Is makes errors.Is(err, wire.Busy) work.
func (s *Status) Is(target error) bool {
	c, isCode := target.(Code)
	return isCode && c == s.Code
}

// Errorf is a Status for the other side to read.
func Errorf(c Code, format string, args ...any) error {
	return &Status{Code: c, Text: fmt.Sprintf(format, args...)}
}

// statusOf is what is told of an error: a Status as it is, anything else only as internal, since it may hold what is not for others.
func statusOf(err error) *Status {
	var s *Status
	if errors.As(err, &s) {
		return s
	}
	var c Code
	if errors.As(err, &c) {
		return &Status{Code: c}
	}
	return &Status{Code: Internal, Text: "internal error"}
}

var errBanned = &Status{Code: Refused, Reason: "denied", Text: "wire: banned from this network"}

var errNotMember = &Status{Code: NotMember, Reason: "not_member", Text: "wire: the connection is not a member's"}

// ErrUnreachable is a peer that could not be connected to.
var ErrUnreachable = errors.New("wire: unreachable")

// errGone is a connection that ended while its greeting went on, or before a stream was opened over it.
var errGone = fmt.Errorf("%w: the connection ended before it could be used", ErrUnreachable)

// errAway is a server that the way home alone dials.
var errAway = errors.New("wire: the connection to the network's server is lost; this peer tries again by itself")

// clip keeps a text within n bytes, as UTF-8.
func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

// reset ends a stream that has gone wrong: how that ends tells nothing.
func reset(s network.Stream) { _ = s.Reset() }
