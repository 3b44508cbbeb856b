//go:build unix

package pgserver

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
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

// public is where folders lie that any user can reach, and that outlive a restart of the machine.
const public = "/var/tmp"

// What a folder has whose data lies in a public place, and what that place has.
const (
	placeFile = "place" // in the folder: where the data is
	ofFile    = "of"    // in the public place: the folder
	dataPart  = "data"
)

// place is where the data of a folder lies, and which places have that of folders that were there before. Root's own folders are closed to the server's user, so
// root's folder names a public place, and is that place's only key: with the folder the data is gone, too.
func (o *owner) place(dir string) (data string, before []string, err error) {
	if o == nil {
		return dir, nil, nil
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return "", nil, err
	}
	note := filepath.Join(dir, placeFile)
	b, err := os.ReadFile(note)
	at := strings.TrimSpace(string(b))
	switch {
	case err == nil:
		if _, err = os.Stat(filepath.Join(at, dataPart)); errors.Is(err, fs.ErrNotExist) {
			return "", nil, fmt.Errorf("PostgreSQL's data is not in %s any more, where root's servers have it: put it back, or delete %s to begin anew", at, filepath.Dir(dir))
		}
	case errors.Is(err, fs.ErrNotExist):
		at, err = o.newPlace(dir, note)
	}
	if err != nil {
		return "", nil, err
	}
	all, err := filepath.Glob(filepath.Join(public, "shoal-pg-*", ofFile))
	for _, file := range all {
		if of, err := os.ReadFile(file); err == nil && string(of) == dir+"\n" && filepath.Dir(file) != at {
			before = append(before, filepath.Dir(file))
		}
	}
	return filepath.Join(at, dataPart), before, err
}

// newPlace makes a place, and notes it. Others may go through it, and find a folder there that is the server's alone.
func (o *owner) newPlace(dir, note string) (at string, err error) {
	if at, err = os.MkdirTemp(public, "shoal-pg-"); err != nil {
		return "", err
	}
	if err = errors.Join(os.Chmod(at, 0o711), os.WriteFile(filepath.Join(at, ofFile), []byte(dir+"\n"), 0o600), os.Mkdir(filepath.Join(at, dataPart), 0o700), os.MkdirAll(dir, 0o700)); err == nil {
		err = os.WriteFile(note+".new", []byte(at+"\n"), 0o600)
	}
	if err == nil {
		err = os.Rename(note+".new", note)
	}
	if err != nil {
		return "", errors.Join(err, os.RemoveAll(at))
	}
	return at, nil
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
