package limit

import (
	"errors"
	"io/fs"
	"path/filepath"
	"syscall"
	"unsafe"

	"golang.org/x/sys/windows"
)

// PolicyFile is the path of the admin's policy on this system.
const PolicyFile = `C:\ProgramData\Shoal\policy.toml`

var errOwner = errors.New("must belong to the administrators and be writable by them only, and its folder too")

// ownedByRoot checks that only administrators own and can write a file and its folder. Every user may create folders
// in C:\ProgramData, so the folder's name proves nothing.
func ownedByRoot(path string, _ fs.FileInfo) error {
	for _, p := range []string{path, filepath.Dir(path)} {
		sd, err := windows.GetNamedSecurityInfo(p, windows.SE_FILE_OBJECT, windows.OWNER_SECURITY_INFORMATION|windows.DACL_SECURITY_INFORMATION)
		if err != nil {
			return err
		}
		owner, _, err := sd.Owner()
		if err != nil {
			return err
		}
		if !isAdmin(owner) {
			return errOwner
		}
		if p != path {
			break
		}
		acl, _, err := sd.DACL()
		if err != nil {
			return err
		}
		if acl == nil { // no list: everybody may do everything
			return errOwner
		}
		for i := range uint32(acl.AceCount) {
			var ace *windows.ACCESS_ALLOWED_ACE
			if err := windows.GetAce(acl, i, &ace); err != nil {
				return err
			}
			const writing = windows.FILE_WRITE_DATA | windows.FILE_APPEND_DATA | windows.DELETE | windows.WRITE_DAC | windows.WRITE_OWNER |
				windows.GENERIC_WRITE | windows.GENERIC_ALL
			sid := (*windows.SID)(unsafe.Pointer(&ace.SidStart))
			if ace.Header.AceType == windows.ACCESS_ALLOWED_ACE_TYPE && ace.Mask&writing != 0 && !isAdmin(sid) {
				return errOwner
			}
		}
	}
	return nil
}

// isAdmin recognises the administrators, the system, and the Windows installer.
func isAdmin(sid *windows.SID) bool {
	return sid.IsWellKnown(windows.WinBuiltinAdministratorsSid) || sid.IsWellKnown(windows.WinLocalSystemSid) ||
		sid.String() == "S-1-5-80-956008885-3418522649-1831038044-1853292631-2271478464"
}

// MarkLE does nothing, because Windows ignores the mark of programs.
func MarkLE(string, string, syscall.RawConn) error { return nil }

// SmallWindow limits how much a sender may have in flight, so that a rate holds from the first packet on.
func SmallWindow(c syscall.RawConn, bytes int) error {
	return c.Control(func(fd uintptr) {
		windows.SetsockoptInt(windows.Handle(fd), windows.SOL_SOCKET, windows.SO_RCVBUF, bytes)
	})
}

// MarksLE returns why the mark does not work on this system, or "" if it works.
func MarksLE() string {
	return "Windows ignores DSCP marks that programs set; set one by group policy (Policy-based QoS) for shoal-peer.exe"
}
