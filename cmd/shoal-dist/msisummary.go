package main

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"time"
)

// formatID marks the summary of a compound file (MS-OLEPS 2.22, FMTID_SummaryInformation).
var formatID = []byte{0xe0, 0x85, 0x9f, 0xf2, 0xf9, 0x4f, 0x68, 0x10, 0xab, 0x91, 0x08, 0x00, 0x2b, 0x27, 0xb3, 0xd9}

// Properties of a summary and their types (MS-OLEPS 2.15, 2.25.1).
const (
	summaryTemplate = 7
	summaryRevision = 9
	summaryCreated  = 12
	summarySaved    = 13
	typeText        = 0x1e
	typeTime        = 0x40
)

var errSummary = errors.New("the MSI package has no summary that can be read: is this wixl another one than 0.101?")

// stampSummary writes into a package what wixl draws from the clock and from chance: its identifier and its times. It also sets for which processors and
// language the package is, which must have room where wixl wrote "x64;1033".
func stampSummary(msi []byte, template, revision string, date time.Time) error {
	at := bytes.Index(msi, formatID)
	if at < 28 || len(msi) < at+20 || bytes.LastIndex(msi, formatID) != at {
		return errSummary
	}
	start := at - 28 + int(binary.LittleEndian.Uint32(msi[at+16:])) // of the section, counted from the stream's start
	if start < 0 || start+8 > len(msi) {
		return errSummary
	}
	section := msi[start:]
	size, count := int(binary.LittleEndian.Uint32(section)), int(binary.LittleEndian.Uint32(section[4:]))
	if size > len(section) || count > 64 || 8+8*count > size {
		return errSummary
	}
	section = section[:size]
	left := map[uint32]bool{summaryTemplate: true, summaryRevision: true, summaryCreated: true, summarySaved: true}
	for i := range count {
		id, off := binary.LittleEndian.Uint32(section[8+8*i:]), int(binary.LittleEndian.Uint32(section[12+8*i:]))
		if !left[id] {
			continue
		}
		if off+12 > size {
			return errSummary
		}
		value := section[off:]
		var err error
		switch id {
		case summaryTemplate:
			err = setText(value, template)
		case summaryRevision:
			err = setText(value, revision)
		default:
			if binary.LittleEndian.Uint32(value) != typeTime {
				return errSummary
			}
			binary.LittleEndian.PutUint64(value[4:], fileTime(date))
		}
		if err != nil {
			return err
		}
		delete(left, id)
	}
	if len(left) > 0 {
		return errSummary
	}
	return nil
}

// setText replaces a text in place. Texts end with a zero and are padded to four bytes.
func setText(value []byte, text string) error {
	n := int(binary.LittleEndian.Uint32(value[4:]))
	room := (n + 3) / 4 * 4
	if binary.LittleEndian.Uint32(value) != typeText || n > len(value)-8 || 8+room > len(value) {
		return errSummary
	}
	if len(text)+1 > room {
		return fmt.Errorf("%w: %q needs more than the %d bytes that are there", errSummary, text, room)
	}
	clear(value[8 : 8+room])
	copy(value[8:], text)
	binary.LittleEndian.PutUint32(value[4:], uint32(len(text)+1))
	return nil
}

// fileTime counts 100 ns since 1601, as Windows does.
func fileTime(t time.Time) uint64 { return uint64(t.Unix()+11_644_473_600) * 10_000_000 }
