// Package schema is the layout of the ledger: its tables, the keys of their records, and the stored form of the values. The rooms of the
// archive share it, and so does every store that looks into a record. It is not for reading or writing them.
//
// Invariants: every value begins with a version byte; a table's letter and a protobuf field's number are never used for anything else.
package schema

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"

	pb "shoal/manager/archive/archivepb"
	"shoal/manager/archive/segment"
)

// The tables. A key is its table's letter and what is named below; numbers in keys are big-endian, so that they sort.
//
//	State    m                         State: written by the store
//	Segment  w SEGMENT(4)              File: a segment
//	Channel  c CHANNEL(8)              Channel: the fence
//	Lease    l CHANNEL(8)              empty: a lease runs
//	Deposit  b CHANNEL(8) GEN(8)       Deposit: what may be claimed
//	Resume   r CHANNEL(8) SEQ(8)       Resume: what one chunk of an unfinished crawl added
//	Page     p CHANNEL(8) URL(8)       Page: the current state of a URL
//	History  h CHANNEL(8) URL(8)       History: when it changed
//	Owner    o URL(8)                  CHANNEL(8): whose page it is
//	Inter    i CHANNEL(8) URL(8)       empty: known inter-site URL
//	Links    k CHANNEL(8) URL(8)       links of a page, by URL hash, for PageRank
//	Rank     n CHANNEL(8) URL(8)       PageRank of a page, as it was last computed
//	Content  d SHA256(16)              Content: a payload that is stored
//	Text     t SHA256(16)              Text: its main text
//	Progress q NAME                    Progress: how far a reader of a feed has come
//	Moved    z SEGMENT(4) OFFSET(8)    Location: where a record went when its segment was compacted
//	Purged   u SEGMENT(4)              empty: a takedown removed records of this segment
//	Closed   W SEGMENT(4)              empty: nothing is added to this segment any more
//	Capture  x SURT 0 TIME(8) SCHEME   Capture: one visit, the CDX index
//	Feed     f SEQ(8)                  Entry: the manager's feed
//	Changes  g SEQ(8)                  Entry: the page feed
//	Deliverer v NUMBER(8)              Deliverer: a peer that has claimed
//	Withdrawal y                       Withdrawal: one that is under way
//	Withdrawal y NUMBER(8)             nothing: a deliverer whose withdrawal was asked for and is not begun
//	Trust    j CHANNEL(8) URL(8)       Trust: how far the versions of a page are believed
//	Delivered e CHANNEL(8) GEN(8) SEQ(8) Delivered: what a chunk brought, until the manager has taken it in
//	Taken    T NUMBER(8) CHANNEL(8) URL(8) Trust: a page's record before a suspended deliverer's versions were withdrawn
//	Suspension Y NUMBER(8)             Suspension: of a deliverer
//	Suspension Y NUMBER(8) CHANNEL(8)  nothing: pages of this channel are to be crawled again first
//	Answer   A CHANNEL(8) GEN(8) URL(8) Fetch: what the task of an audit brought
//	Case     E CASE(8)                 Case: a conflict whose evidence is kept
//	Case     E CASE(8) SIDE(1)         Fetch: one side of it
//	Credit   s WEEK(4) ACCOUNT(8) WRITER(4) Credit: what an account was credited with in a week
//	Profile  S ACCOUNT(8)              Profile: how an account wants to be shown; of 0, which is none, how often a nickname was taken
const (
	State    = 'm'
	Segment  = 'w'
	Channel  = 'c'
	Lease    = 'l'
	Deposit  = 'b'
	Resume   = 'r'
	Page     = 'p'
	History  = 'h'
	Owner    = 'o'
	Inter    = 'i'
	Links    = 'k'
	Rank     = 'n'
	Content  = 'd'
	Text     = 't'
	Progress = 'q'
	Moved    = 'z'
	Purged   = 'u'
	Closed   = 'W'
	Capture  = 'x'
	Feed     = 'f'
	Changes  = 'g'

	Deliverer  = 'v'
	Withdrawal = 'y'

	Trust      = 'j'
	Delivered  = 'e'
	Taken      = 'T'
	Suspension = 'Y'
	Answer     = 'A'
	Case       = 'E'
	Credit     = 's'
	Profile    = 'S'
)

// OfPage are the tables, by channel and URL, of what is kept of a page beside its captures and its owner.
var OfPage = []byte{Page, History, Links, Rank, Trust}

// Version is that of the layout. A store of another version is refused.
const Version = 1

// ErrValue is wrapped when a stored value cannot be read.
var ErrValue = errors.New("archive: malformed value")

// ValueV1 goes before every value.
const ValueV1 = 1

// Key is the key of a record that is named by one number.
func Key(table byte, a uint64) []byte {
	return binary.BigEndian.AppendUint64(append(make([]byte, 0, 9), table), a)
}

// Key2 is the key of a record that is named by two numbers.
func Key2(table byte, a, b uint64) []byte {
	k := binary.BigEndian.AppendUint64(append(make([]byte, 0, 17), table), a)
	return binary.BigEndian.AppendUint64(k, b)
}

// Key3 is the key of a record that is named by three numbers.
func Key3(table byte, a, b, c uint64) []byte {
	return binary.BigEndian.AppendUint64(Key2(table, a, b), c)
}

// Week is the Monday with which a time's ISO week begins, in days since 1970.
func Week(t time.Time) uint32 {
	days := t.Unix() / 86400
	return uint32(days - (days+3)%7) // 1 January 1970 was a Thursday
}

// CreditKey is the key of an account's credit in a week; writer is which process wrote it.
func CreditKey(week uint32, account uint64, writer uint32) []byte {
	k := binary.BigEndian.AppendUint32([]byte{Credit}, week)
	return binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint64(k, account), writer)
}

// CreditOf reads a key that CreditKey made.
func CreditOf(key []byte) (week uint32, account uint64) {
	return binary.BigEndian.Uint32(key[1:]), binary.BigEndian.Uint64(key[5:])
}

// Number reads the n-th number of a key that Key or Key2 made.
func Number(key []byte, n int) uint64 { return binary.BigEndian.Uint64(key[1+8*n:]) }

// SegmentKey is the key of what is kept of a segment, in Segment or Purged.
func SegmentKey(table byte, id uint32) []byte {
	return binary.BigEndian.AppendUint32([]byte{table}, id)
}

// SegmentOf reads a key that SegmentKey made.
func SegmentOf(key []byte) uint32 { return binary.BigEndian.Uint32(key[1:]) }

// MovedKey is the key of where a record went.
func MovedKey(at segment.Location) []byte {
	return binary.BigEndian.AppendUint64(SegmentKey(Moved, at.Segment), at.Offset)
}

// OffsetOf reads the offset in a key that MovedKey made.
func OffsetOf(key []byte) uint64 { return binary.BigEndian.Uint64(key[5:]) }

// PayloadKey is the key of what is kept of a payload, in Content or Text; sha is its SHA-256.
func PayloadKey(table byte, sha []byte) []byte {
	k := make([]byte, 17)
	k[0] = table
	copy(k[1:], sha)
	return k
}

// ProgressKey is the key of a reader's progress.
func ProgressKey(name string) []byte { return append([]byte{Progress}, name...) }

// TrimKey names up to where a feed was trimmed.
func TrimKey(feed byte) []byte { return []byte{Progress, '-', feed} }

// Rebuilding names the progress of a rebuild, which is there until that is done.
const Rebuilding = "rebuild"

// Readers of the feeds for which retention waits.
const (
	Acked = "-a"   // the manager, in Feed
	Texts = "text" // text extraction, in Changes
)

// CaptureKey sorts by host, path and time, as CDX does. surt is the URL's, https its scheme. Nothing was captured before 1970: an earlier time is that.
func CaptureKey(surt string, at time.Time, https bool) []byte {
	k := append(append(make([]byte, 0, len(surt)+11), Capture), surt...)
	k = append(k, 0)
	k = binary.BigEndian.AppendUint64(k, uint64(max(0, at.UnixMicro())))
	if https {
		return append(k, 's')
	}
	return append(k, 'p')
}

// CaptureOf reads a key that CaptureKey made.
func CaptureOf(key []byte) (surt string, at time.Time, https bool) {
	n := len(key)
	return string(key[1 : n-10]), time.UnixMicro(int64(binary.BigEndian.Uint64(key[n-9:]))).UTC(), key[n-1] == 's'
}

// Padded makes a stored hash 32 bytes long, whatever it was.
func Padded(b []byte) []byte {
	return append(append(make([]byte, 0, 64), b...), make([]byte, 32)...)[:32]
}

// Encode makes the stored form of a message.
func Encode(m proto.Message) ([]byte, error) {
	b, err := proto.MarshalOptions{}.MarshalAppend([]byte{ValueV1}, m)
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", m.ProtoReflect().Descriptor().Name(), err)
	}
	return b, nil
}

// Decode reads the stored form of a message.
func Decode(b []byte, m proto.Message) error {
	name := m.ProtoReflect().Descriptor().Name()
	if len(b) == 0 || b[0] != ValueV1 {
		return fmt.Errorf("%w: %s of %d bytes", ErrValue, name, len(b))
	}
	if err := proto.Unmarshal(b[1:], m); err != nil {
		return fmt.Errorf("%w: %s: %w", ErrValue, name, err)
	}
	return nil
}

// EncodeSegment makes the stored form of a segment's description.
func EncodeSegment(s segment.Info) ([]byte, error) {
	return Encode(&pb.File{Name: s.Name, Length: s.Length, Records: s.Records, Sealed: s.Sealed, CreatedUs: Micros(s.Created), Parts: []byte(s.Parts)})
}

// DecodeSegment reads a record of the table Segment.
func DecodeSegment(key, value []byte) (segment.Info, error) {
	var f pb.File
	if err := Decode(value, &f); err != nil || len(key) != 5 {
		return segment.Info{}, errors.Join(err, badKey(key, 5))
	}
	return segment.Info{ID: SegmentOf(key), Name: f.Name, Length: f.Length, Records: f.Records, Sealed: f.Sealed, Created: Time(f.CreatedUs), Parts: string(f.Parts)}, nil
}

func badKey(key []byte, want int) error {
	if len(key) == want {
		return nil
	}
	return fmt.Errorf("%w: key of %d bytes", ErrValue, len(key))
}

// Location reads a stored location; none is the zero one.
func Location(m *pb.Location) segment.Location {
	return segment.Location{Segment: m.GetFile(), Offset: m.GetOffset(), Length: m.GetLength()}
}

// StoredLocation makes the stored form of a location; of none, nil.
func StoredLocation(at segment.Location) *pb.Location {
	if at == (segment.Location{}) {
		return nil
	}
	return &pb.Location{File: at.Segment, Offset: at.Offset, Length: at.Length}
}

// Micros is the stored form of a time; 0: none.
func Micros(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

// Time reads what Micros made.
func Time(us int64) time.Time {
	if us == 0 {
		return time.Time{}
	}
	return time.UnixMicro(us).UTC()
}
