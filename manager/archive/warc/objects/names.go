package objects

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"shoal/manager/archive/segment"
)

// How objects are named: warc/shoal-20260102030405-00007/000000012345-1a2b3c4d5e6f7081.warc.gz is the part of segment 7 that begins at byte 12,345.
// A segment that came out of a folder is one object, warc/shoal-20260102030405-00007.warc.gz.
const (
	folder = "warc/"
	suffix = ".warc.gz"
	stamp  = "20060102150405"
)

// tagBytes are the random bytes in a part's name.
const tagBytes = 8

// nameOf names a segment.
func nameOf(at time.Time, id uint32) string {
	return fmt.Sprintf("shoal-%s-%05d%s", at.Format(stamp), id, suffix)
}

// parse reads a segment's name. The id is 0 if nameOf does not make such names.
func parse(name string) (id uint32, created time.Time) {
	parts := strings.Split(strings.TrimSuffix(name, suffix), "-")
	n, err := strconv.ParseUint(parts[len(parts)-1], 10, 32)
	if err != nil {
		return 0, time.Time{}
	}
	if created, err = time.Parse(stamp, parts[max(len(parts)-2, 0)]); err != nil {
		created = time.Time{}
	}
	return uint32(n), created
}

// partName names a part.
func partName(of string, base int64, tag []byte) string {
	return fmt.Sprintf("%s%s/%012d-%s%s", folder, strings.TrimSuffix(of, suffix), base, hexOf(tag), suffix)
}

// partOf reads the name of an object: whose part it is, and where it begins.
func partOf(object string) (of string, p part, ok bool) {
	name := strings.TrimSuffix(strings.TrimPrefix(object, folder), suffix)
	of, tail, parts := strings.Cut(name, "/")
	if !parts {
		return name + suffix, part{name: object}, true
	}
	number, tag, ok := strings.Cut(tail, "-")
	base, err := strconv.ParseInt(number, 10, 64)
	return of + suffix, part{name: object, base: base}, ok && err == nil && base >= 0 && len(tag) == 2*tagBytes
}

var errParts = errors.New("archive: the parts of a segment cannot be read")

// newRun reads what the ledger keeps of a segment.
func newRun(info segment.Info) (*run, error) {
	r := &run{info: info}
	if info.Parts == "" {
		r.parts = []part{{name: folder + info.Name, length: int64(info.Length)}}
		return r, nil
	}
	b, base := []byte(info.Parts), int64(0)
	for len(b) > 0 {
		length, n := binary.Uvarint(b)
		if n <= 0 || len(b) < n+tagBytes || length > 1<<40 {
			return nil, fmt.Errorf("%w: %s", errParts, info.Name)
		}
		r.parts = append(r.parts, part{name: partName(info.Name, base, b[n:n+tagBytes]), base: base, length: int64(length)})
		b, base = b[n+tagBytes:], base+int64(length)
	}
	return r, nil
}

// encodeParts makes what newRun reads; of one object that holds all of a segment, nothing.
func encodeParts(parts []part) string {
	var b []byte
	for _, p := range parts {
		_, tail, ok := strings.Cut(strings.TrimSuffix(strings.TrimPrefix(p.name, folder), suffix), "/")
		if !ok {
			return ""
		}
		_, tag, _ := strings.Cut(tail, "-")
		b = binary.AppendUvarint(b, uint64(p.length))
		b = append(b, tagOf(tag)...)
	}
	return string(b)
}
