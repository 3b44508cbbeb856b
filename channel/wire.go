package channel

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// Every Parse function returns one of these errors, wrapped with details.
var (
	ErrTooLarge  = errors.New("channel: too large")
	ErrMalformed = errors.New("channel: malformed")
)

// counts bounds how often a field may occur anywhere in one encoded message. The check comes before the decoding,
// because two bytes on the wire may become hundreds in memory. maxOther bounds the fields that are not listed.
var counts = map[protoreflect.FullName]int{
	"shoal.channel.Signed.handovers":        MaxHandovers,
	"shoal.channel.ChunkBody.pages":         MaxChunkPages,
	"shoal.channel.ChunkBody.frontier":      MaxFrontierPart,
	"shoal.channel.Resume.frontier":         MaxFrontier,
	"shoal.channel.Resume.done":             MaxDone,
	"shoal.channel.Resume.leads":            MaxReportInter,
	"shoal.channel.Page.links":              MaxChunkLinks,
	"shoal.channel.Report.inter":            MaxReportInter,
	"shoal.channel.Report.errors":           MaxErrorKinds + 1,
	"shoal.channel.Body.seeds":              MaxSeeds,
	"shoal.channel.Body.inter":              MaxInter,
	"shoal.channel.Body.validators":         MaxDigests,
	"shoal.channel.Body.digest_url":         MaxDigests,
	"shoal.channel.Body.digest_content":     MaxDigests,
	"shoal.channel.Body.known_inter":        MaxKnownInter,
	"shoal.channel.Body.importance_url":     MaxDigests,
	"shoal.channel.Body.importance_rank":    MaxDigests,
	"shoal.channel.Channel.seeds":           MaxSeeds,
	"shoal.channel.Channel.inter":           MaxInter,
	"shoal.channel.Validator.url":           MaxDigests,
	"shoal.channel.Validator.etag":          MaxDigests,
	"shoal.channel.Validator.last_modified": MaxDigests,
	"shoal.channel.Frontier.url":            MaxFrontier,
	"shoal.channel.Frontier.depth":          MaxFrontier,
}

// maxOther covers the scalar fields of at most MaxChunkPages pages.
const maxOther = MaxChunkPages

// encode panics only on a bug: every string was made valid UTF-8 before.
func encode(m proto.Message) []byte {
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		panic("channel: encoding a " + string(m.ProtoReflect().Descriptor().Name()) + ": " + err.Error())
	}
	return b
}

// decode fills m from b. It refuses more than limit bytes.
func decode(b []byte, limit int, m proto.Message) error {
	if len(b) <= limit { // else decodeShort says so
		c := counter{small: len(b) <= 2*maxOther}
		if err := c.scan(b, m.ProtoReflect().Descriptor()); err != nil {
			return err
		}
	}
	return decodeShort(b, limit, m)
}

// decodeShort is decode of a message whose fields need not be counted: it has none that is listed in counts, and limit is so small that none can occur more
// than maxOther times.
func decodeShort(b []byte, limit int, m proto.Message) error {
	name := m.ProtoReflect().Descriptor().Name()
	if len(b) > limit {
		return fmt.Errorf("%w: %s of %d bytes, at most %d", ErrTooLarge, name, len(b), limit)
	}
	if err := (proto.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(b, m); err != nil {
		return fmt.Errorf("%w: %s: %w", ErrMalformed, name, err)
	}
	return nil
}

// counter counts the fields of an encoded message.
type counter struct {
	seen  map[protoreflect.FullName]int
	small bool // no field can occur more than maxOther times, since each takes two bytes: only those of counts are counted
}

func (c *counter) scan(b []byte, md protoreflect.MessageDescriptor) error {
	for len(b) > 0 {
		num, typ, n := protowire.ConsumeTag(b)
		if n < 0 {
			return fmt.Errorf("%w: %s: %w", ErrMalformed, md.Name(), protowire.ParseError(n))
		}
		b = b[n:]
		n = protowire.ConsumeFieldValue(num, typ, b)
		if n < 0 {
			return fmt.Errorf("%w: %s: %w", ErrMalformed, md.Name(), protowire.ParseError(n))
		}
		value := b[:n]
		b = b[n:]
		fd := md.Fields().ByNumber(num)
		if fd == nil {
			continue
		}
		elements := 1
		if typ == protowire.BytesType && fd.IsList() {
			switch fd.Kind() {
			case protoreflect.Fixed64Kind, protoreflect.DoubleKind:
				elements = len(value) / 8
			case protoreflect.FloatKind:
				elements = len(value) / 4
			}
		}
		if err := c.add(fd.FullName(), elements); err != nil {
			return err
		}
		if fd.Kind() == protoreflect.MessageKind && typ == protowire.BytesType {
			inner, _ := protowire.ConsumeBytes(value)
			if err := c.scan(inner, fd.Message()); err != nil {
				return err
			}
		}
	}
	return nil
}

func (c *counter) add(name protoreflect.FullName, elements int) error {
	limit, ok := counts[name]
	if !ok && c.small {
		return nil
	}
	if !ok {
		limit = maxOther
	}
	if c.seen == nil {
		c.seen = map[protoreflect.FullName]int{}
	}
	n := c.seen[name] + elements
	c.seen[name] = n
	if n > limit {
		return fmt.Errorf("%w: more than %d times %s", ErrTooLarge, limit, name)
	}
	return nil
}

// text makes free text valid UTF-8 of at most MaxText bytes.
func text(s string) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	if len(s) > MaxText {
		s = strings.ToValidUTF8(s[:MaxText], "") // the cut may have split a character
	}
	return s
}

func ascii(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

func texts(in []string) []string {
	for _, s := range in {
		if ascii(s) != s {
			out := make([]string, len(in))
			for i, s := range in {
				out[i] = ascii(s)
			}
			return out
		}
	}
	return in
}

// maxTime is the end of the year 9999. Later times have no text form.
const maxTime = 253402300799_999999

// maxDuration is ten years.
const maxDuration time.Duration = 10 * 366 * 24 * time.Hour

func micros(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

func fromMicros(us int64) time.Time {
	if us == 0 {
		return time.Time{}
	}
	return time.UnixMicro(us).UTC()
}

// checker records the first rule that a message breaks.
type checker struct {
	what string
	err  error
}

func (c *checker) fail(kind error, format string, args ...any) {
	if c.err == nil {
		c.err = fmt.Errorf("%w: %s: %s", kind, c.what, fmt.Sprintf(format, args...))
	}
}

func (c *checker) time(field string, us int64) time.Time {
	if us < 0 || us > maxTime {
		c.fail(ErrMalformed, "%s outside the years 1970 to 9999", field)
		return time.Time{}
	}
	return fromMicros(us)
}

func (c *checker) duration(field string, us int64) time.Duration {
	if us < 0 || us > int64(maxDuration/time.Microsecond) {
		c.fail(ErrMalformed, "%s of %d microseconds", field, us)
		return 0
	}
	return time.Duration(us) * time.Microsecond
}

// count accepts 0 to limit. Callers choose a limit that fits an int on every platform.
func (c *checker) count(field string, n int64, limit int64) int {
	if n < 0 || n > limit {
		c.fail(ErrMalformed, "%s is %d, not between 0 and %d", field, n, limit)
		return 0
	}
	return int(n)
}

func (c *checker) text(field, s string, limit int) string {
	if len(s) > limit {
		c.fail(ErrTooLarge, "%s of %d bytes, at most %d", field, len(s), limit)
	}
	return s
}

// id checks a name without spaces or control characters, such as a peer id or an ordering.
func (c *checker) id(field, s string, limit int) string {
	c.text(field, s, limit)
	for i := range len(s) {
		if s[i] <= ' ' || s[i] > '~' {
			c.fail(ErrMalformed, "%s has a byte %#x", field, s[i])
			break
		}
	}
	return s
}

func (c *checker) bytes(field string, b []byte, limit int) []byte {
	if len(b) > limit {
		c.fail(ErrTooLarge, "%s of %d bytes, at most %d", field, len(b), limit)
	}
	if len(b) == 0 {
		return nil
	}
	return b
}

// fieldValue reads a validator. One that no request can carry is left out: the page is fetched without it.
func (c *checker) fieldValue(field string, b []byte) string {
	s := string(c.bytes(field, b, MaxValidator))
	if !IsFieldValue(s) {
		return ""
	}
	return s
}

// array32 reads a hash. An absent one is zero.
func (c *checker) array32(field string, b []byte) (out [32]byte) {
	if len(b) != 0 && len(b) != len(out) {
		c.fail(ErrMalformed, "%s of %d bytes, not 32", field, len(b))
	}
	copy(out[:], b)
	return out
}

func bytes32(a [32]byte) []byte {
	if a == ([32]byte{}) {
		return nil
	}
	return a[:]
}

// url checks the scheme and the bytes of a URL. Code that acts on the URL checks that it is canonical.
func (c *checker) url(field, s string) string {
	if !strings.HasPrefix(s, "https://") && !strings.HasPrefix(s, "http://") {
		c.fail(ErrMalformed, "%s %q is no URL", field, short(s))
	}
	return c.id(field, s, MaxURL)
}

func (c *checker) urls(field string, in []string, limit int) []string {
	if len(in) > limit {
		c.fail(ErrTooLarge, "%d %s, at most %d", len(in), field, limit)
		return nil
	}
	for _, s := range in {
		c.url(field, s)
	}
	return in
}

func (c *checker) origin(field, s string) string {
	if !isOrigin(s) {
		c.fail(ErrMalformed, "%s %q is not of the form https://example.org", field, short(s))
	}
	return s
}

func (c *checker) real(field string, f, low, high float64) float64 {
	if math.IsNaN(f) || f < low || f > high {
		c.fail(ErrMalformed, "%s is %g, not between %g and %g", field, f, low, high)
	}
	return f
}

func (c *checker) enum(field string, v uint32, last uint32) uint8 {
	if v > last {
		c.fail(ErrMalformed, "%s %d is unknown", field, v)
		return 0
	}
	return uint8(v)
}
