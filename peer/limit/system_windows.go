package limit

import (
	"io/fs"
	"syscall"

	"golang.org/x/sys/windows"
)

// PolicyFile is where this system's admin keeps the policy.
const PolicyFile = `C:\ProgramData\Shoal\policy.toml`

// ownedByRoot trusts the folder: only administrators may write to C:\ProgramData\Shoal as the installer makes it.
func ownedByRoot(fs.FileInfo) error { return nil }

// MarkLE does nothing: Windows ignores what programs ask for.
func MarkLE(string, string, syscall.RawConn) error { return nil }

// SmallWindow keeps what a sender may have under way small, so that a rate holds from the first packet on.
func SmallWindow(c syscall.RawConn, bytes int) error {
	return c.Control(func(fd uintptr) {
		windows.SetsockoptInt(windows.Handle(fd), windows.SOL_SOCKET, windows.SO_RCVBUF, bytes)
	})
}

// MarksLE says whether the mark works here; "" if it does.
func MarksLE() string {
	return "Windows ignores DSCP marks that programs set; set one by group policy (Policy-based QoS) for shoal-peer.exe"
}
