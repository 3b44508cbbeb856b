//go:build unix

package limit

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// PolicyFile is the path of the admin's policy on this system.
const PolicyFile = "/etc/shoal/policy.toml"

var errOwner = errors.New("must belong to root and be writable by root only, and its folder too")

// ownedByRoot checks that only root can have written a file or can put another in its place.
func ownedByRoot(path string, st fs.FileInfo) error {
	dir, err := os.Stat(filepath.Dir(path))
	if err != nil {
		return err
	}
	for _, of := range []fs.FileInfo{st, dir} {
		s, ok := of.Sys().(*syscall.Stat_t)
		if !ok || s.Uid != 0 || of.Mode().Perm()&0o022 != 0 {
			return errOwner
		}
	}
	return nil
}

// lowerEffort is the type-of-service octet of DSCP LE, 000001 (RFC 8622).
const lowerEffort = 1 << 2

// MarkLE marks a socket's packets as lower effort. It serves as Guard.Control. If the system refuses, the traffic
// goes unmarked.
func MarkLE(network, _ string, c syscall.RawConn) error {
	return c.Control(func(fd uintptr) {
		if strings.HasSuffix(network, "6") {
			_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_IPV6, unix.IPV6_TCLASS, lowerEffort)
			return
		}
		_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_TOS, lowerEffort)
	})
}

// SmallWindow limits how much a sender may have in flight, so that a rate holds from the first packet on.
func SmallWindow(c syscall.RawConn, bytes int) error {
	return c.Control(func(fd uintptr) { _ = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUF, bytes) })
}

// MarksLE returns why the mark does not work on this system, or "" if it works.
func MarksLE() string { return "" }
