//go:build unix

package pgserver

import (
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
)

// owner is the user that a server runs as, where that is another one.
type owner struct{ uid, gid uint32 }

// unprivileged returns who runs a server for root, since PostgreSQL refuses root; nil: whoever runs this process.
func unprivileged() (*owner, error) {
	if os.Getuid() != 0 {
		return nil, nil
	}
	u, err := user.Lookup("postgres")
	if err != nil {
		if u, err = user.Lookup("nobody"); err != nil {
			return nil, fmt.Errorf("PostgreSQL refuses to run as root, and there is no other user here for it: %w", err)
		}
	}
	uid, err1 := strconv.ParseUint(u.Uid, 10, 32)
	gid, err2 := strconv.ParseUint(u.Gid, 10, 32)
	return &owner{uint32(uid), uint32(gid)}, errors.Join(err1, err2)
}

// publicPlace is a folder that any user can reach, for the data that was to lie in another one.
func publicPlace(dir string) string {
	h := fnv.New64a()
	_, _ = h.Write([]byte(dir))
	return filepath.Join("/var/tmp", fmt.Sprintf("shoal-pg-%016x", h.Sum64()))
}

// give makes a folder the owner's. Who else has it is refused: others may write where it lies.
func (o *owner) give(dir string) error {
	info, err := os.Lstat(dir)
	if err != nil || o == nil {
		return err
	}
	if is, ok := info.Sys().(*syscall.Stat_t); !ok || info.Mode()&fs.ModeSymlink != 0 || is.Uid != 0 && is.Uid != o.uid {
		return fmt.Errorf("%s is another user's", dir)
	}
	return os.Lchown(dir, int(o.uid), int(o.gid))
}

// run has a program run as the owner, apart from this process's terminal: ctrl-C is for this process, which ends its server last.
func (o *owner) run(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if o != nil {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: o.uid, Gid: o.gid}
	}
}

// interrupt asks a server to end now, in order.
func interrupt(p *os.Process) { _ = p.Signal(os.Interrupt) }
