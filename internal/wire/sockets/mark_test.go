//go:build unix

package sockets

import (
	"slices"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

func TestKeepMark(t *testing.T) {
	body := func(level, kind int32, data []byte) []byte {
		b := make([]byte, unix.CmsgSpace(len(data)))
		h := (*unix.Cmsghdr)(unsafe.Pointer(&b[0]))
		h.Level, h.Type = level, kind
		h.SetLen(unix.CmsgLen(len(data)))
		copy(b[unix.CmsgLen(0):], data)
		return b
	}
	four := body(unix.IPPROTO_IP, unix.IP_TOS, []byte{2})
	other := body(unix.IPPROTO_UDP, 103, []byte{9, 9})
	oob := slices.Concat(other, four)
	keepMark(oob, 4)
	if got := oob[len(other)+unix.CmsgLen(0)]; got != 6 {
		t.Errorf("the traffic class becomes %d", got)
	}
	if !slices.Equal(oob[:len(other)], other) {
		t.Error("another message was changed")
	}
	keepMark(oob[:len(oob)-5], 4) // cut short: left alone
	keepMark([]byte{1, 2, 3}, 4)
}
