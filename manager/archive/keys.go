package archive

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dgraph-io/badger/v4"
	"google.golang.org/protobuf/proto"

	"shoal/channel/badgerdb/tables"
	pb "shoal/manager/archive/archivepb"
)

// The keys of the database; numbers in them are big-endian, so that they sort.
//
//	m                         State
//	w FILE(4)                 File: a WARC file
//	c CHANNEL(8)              Channel: the fence
//	l CHANNEL(8)              empty: a lease runs
//	b CHANNEL(8) GEN(8)       Deposit: what may be claimed
//	r CHANNEL(8) SEQ(8)       Resume: what one chunk of an unfinished crawl added
//	p CHANNEL(8) URL(8)       Page: the current state of a URL
//	h CHANNEL(8) URL(8)       History: when it changed
//	o URL(8)                  CHANNEL(8): whose page it is
//	i CHANNEL(8) URL(8)       empty: known inter-site URL
//	k CHANNEL(8) URL(8)       links of a page, by URL hash, for PageRank
//	n CHANNEL(8) URL(8)       PageRank of a page, as it was last computed
//	d SHA256(16)              Content: a payload that is stored
//	t SHA256(16)              Text: its main text
//	q NAME                    Progress: of a worker behind the page feed
//	z FILE(4) OFFSET(8)       Location: where a record went when its file was compacted
//	u FILE(4)                 empty: a takedown removed records of this file
//	x SURT 0 TIME(8) SCHEME   Capture: one visit, the CDX index
//	f SEQ(8)                  Entry: the manager's feed
//	g SEQ(8)                  Entry: the page feed
const (
	keyState   = 'm'
	keyFile    = 'w'
	keyChannel = 'c'
	keyLease   = 'l'
	keyDeposit = 'b'
	keyResume  = 'r'
	keyPage    = 'p'
	keyHistory = 'h'
	keyOwner   = 'o'
	keyInter   = 'i'
	keyLinks   = 'k'
	keyRank    = 'n'
	keyContent = 'd'
	keyText    = 't'
	keyWorker  = 'q'
	keyMoved   = 'z'
	keyPurged  = 'u'
	keyCapture = 'x'
	keyFeed    = 'f'
	keyChanges = 'g'
)

// key1, key2 build keys of one or two numbers.
func key1(kind byte, a uint64) []byte {
	return binary.BigEndian.AppendUint64([]byte{kind}, a)
}

func key2(kind byte, a, b uint64) []byte {
	return binary.BigEndian.AppendUint64(key1(kind, a), b)
}

func keyOfFile(n uint32) []byte {
	return binary.BigEndian.AppendUint32([]byte{keyFile}, n)
}

func keyOfPurged(n uint32) []byte {
	return binary.BigEndian.AppendUint32([]byte{keyPurged}, n)
}

func keyOfText(sha []byte) []byte {
	return append([]byte{keyText}, sha[:16]...)
}

func keyOfMoved(at *pb.Location) []byte {
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint32([]byte{keyMoved}, at.GetFile()), at.GetOffset())
}

func keyOfContent(sha [32]byte) []byte {
	return append([]byte{keyContent}, sha[:16]...)
}

// keyOfCapture sorts by host, path and time, as CDX does.
func keyOfCapture(url string, at time.Time) []byte {
	k := append([]byte{keyCapture}, SURT(url)...)
	k = append(k, 0)
	k = binary.BigEndian.AppendUint64(k, uint64(at.UnixMicro()))
	if strings.HasPrefix(url, "https:") {
		return append(k, 's')
	}
	return append(k, 'p')
}

// SURT is the Sort-friendly URI Reordering Transform of a canonical URL, by which CDX indexes sort: "org,example)/path".
func SURT(canonical string) string {
	_, rest, ok := strings.Cut(canonical, "://")
	if !ok {
		return canonical
	}
	n := strings.IndexAny(rest, "/?")
	if n < 0 {
		n = len(rest)
	}
	host, path := rest[:n], rest[n:]
	port := ""
	if !strings.HasSuffix(host, "]") {
		if i := strings.LastIndexByte(host, ':'); i >= 0 {
			host, port = host[:i], host[i:]
		}
	}
	var b strings.Builder
	b.Grow(len(rest) + 1)
	if strings.HasPrefix(host, "[") || isIPv4(host) {
		b.WriteString(host)
	} else {
		labels := strings.Split(host, ".")
		for i := len(labels) - 1; i >= 0; i-- {
			b.WriteString(labels[i])
			if i > 0 {
				b.WriteByte(',')
			}
		}
	}
	b.WriteString(port)
	b.WriteByte(')')
	b.WriteString(path)
	return b.String()
}

// surtOfName is how the SURTs of a host's URLs begin, without its port, whatever that is. Others' do too: as of org,example2.
func surtOfName(name string) string {
	return strings.TrimSuffix(SURT("http://"+name+"/"), ")/")
}

// urlOfCapture makes the URL of a capture from its key.
func urlOfCapture(key []byte) string {
	surt, scheme := string(key[1:len(key)-10]), "http://"
	if key[len(key)-1] == 's' {
		scheme = "https://"
	}
	host, path, _ := strings.Cut(surt, ")")
	if strings.HasPrefix(host, "[") {
		return scheme + host + path
	}
	host, port, hasPort := strings.Cut(host, ":")
	labels := strings.Split(host, ",")
	slices.Reverse(labels)
	if host = strings.Join(labels, "."); hasPort {
		host += ":" + port
	}
	return scheme + host + path
}

func isIPv4(host string) bool {
	for _, c := range host {
		if (c < '0' || c > '9') && c != '.' {
			return false
		}
	}
	return host != ""
}

// valueV1 goes before every value.
const valueV1 = 1

// errValue is wrapped when a stored value cannot be read.
var errValue = errors.New("archive: malformed value")

// encode makes the stored form of a message.
func encode(m proto.Message) ([]byte, error) {
	b, err := proto.MarshalOptions{}.MarshalAppend([]byte{valueV1}, m)
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", m.ProtoReflect().Descriptor().Name(), err)
	}
	return b, nil
}

// decode reads it.
func decode(b []byte, m proto.Message) error {
	name := m.ProtoReflect().Descriptor().Name()
	if len(b) == 0 || b[0] != valueV1 {
		return fmt.Errorf("%w: %s of %d bytes", errValue, name, len(b))
	}
	if err := proto.Unmarshal(b[1:], m); err != nil {
		return fmt.Errorf("%w: %s: %w", errValue, name, err)
	}
	return nil
}

// get reads one value; false: there is none.
func get(txn *badger.Txn, key []byte, m proto.Message) (bool, error) {
	item, err := txn.Get(key)
	if errors.Is(err, badger.ErrKeyNotFound) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("read %q: %w", key[0], err)
	}
	return true, item.Value(func(b []byte) error { return decode(b, m) })
}

// scan calls do for every key that begins with prefix, in order, from start on where it is given, until do says stop.
func scan(txn *badger.Txn, prefix, start []byte, values bool, do func(key []byte, item *badger.Item) (more bool, err error)) error {
	o := badger.DefaultIteratorOptions
	o.Prefix = prefix
	o.PrefetchValues = values
	o.PrefetchSize = 64
	it := txn.NewIterator(o)
	defer it.Close()
	if start == nil {
		start = prefix
	}
	for it.Seek(start); it.ValidForPrefix(prefix); it.Next() {
		if more, err := do(it.Item().Key(), it.Item()); err != nil || !more {
			return err
		}
	}
	return nil
}

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

// isLocked tells whether another process has Badger's folder.
func isLocked(err error) bool {
	return errors.Is(err, tables.ErrInUse) || strings.Contains(err.Error(), "Cannot acquire directory lock")
}
