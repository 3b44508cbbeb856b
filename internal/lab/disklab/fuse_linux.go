package disklab

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// The part of FUSE (linux/fuse.h) that a folder with one file needs.
const (
	opLookup  = 1
	opForget  = 2
	opGetattr = 3
	opOpen    = 14
	opRead    = 15
	opWrite   = 16
	opStatfs  = 17
	opRelease = 18
	opFsync   = 20
	opFlush   = 25
	opInit    = 26
	opIntr    = 36
	opDestroy = 38
	opForgets = 42

	inHeader = 40
	rootNode = 1
	fileNode = 2
	maxWrite = 128 << 10

	fileName = "disk"
)

var le = binary.LittleEndian

// serve answers the kernel until the file system is unmounted.
func (d *Disk) serve(dev *os.File) error {
	buf := make([]byte, maxWrite+4096)
	for {
		n, err := dev.Read(buf)
		switch {
		case errors.Is(err, unix.ENODEV): // unmounted
			return nil
		case errors.Is(err, unix.EINTR), errors.Is(err, unix.ENOENT), errors.Is(err, unix.EAGAIN):
			continue
		case err != nil:
			return fmt.Errorf("read /dev/fuse: %w", err)
		case n < inHeader:
			return fmt.Errorf("read /dev/fuse: %d bytes", n)
		}
		op, id, node := le.Uint32(buf[4:]), le.Uint64(buf[8:]), le.Uint64(buf[16:])
		if op == opForget || op == opForgets || op == opIntr {
			continue // no answer is expected
		}
		out, errno := d.answer(op, node, buf[inHeader:n])
		reply := make([]byte, 16, 16+len(out))
		le.PutUint32(reply, uint32(16+len(out)))
		le.PutUint32(reply[4:], uint32(-int32(errno)))
		le.PutUint64(reply[8:], id)
		if _, err := dev.Write(append(reply, out...)); err != nil && !errors.Is(err, unix.ENOENT) {
			return fmt.Errorf("answer operation %d: %w", op, err)
		}
	}
}

func (d *Disk) answer(op uint32, node uint64, in []byte) ([]byte, unix.Errno) {
	switch op {
	case opInit:
		out := make([]byte, 64)
		le.PutUint32(out, 7)
		le.PutUint32(out[4:], 31)
		le.PutUint32(out[8:], le.Uint32(in[8:])) // read ahead
		le.PutUint32(out[12:], 1<<5)             // FUSE_BIG_WRITES
		le.PutUint32(out[20:], maxWrite)
		return out, 0
	case opLookup:
		if string(in) != fileName+"\x00" {
			return nil, unix.ENOENT
		}
		out := make([]byte, 40)
		le.PutUint64(out, fileNode)
		return append(out, d.attributes(fileNode)...), 0
	case opGetattr:
		return append(make([]byte, 16), d.attributes(node)...), 0
	case opOpen:
		return make([]byte, 16), 0
	case opRead:
		return d.read(int64(le.Uint64(in[8:])), int(le.Uint32(in[16:]))), 0
	case opWrite:
		size := le.Uint32(in[16:])
		if !d.write(int64(le.Uint64(in[8:])), in[40:40+size]) {
			return nil, unix.EIO
		}
		return le.AppendUint64(nil, uint64(size)), 0 // and padding
	case opFsync:
		d.flush()
		return nil, 0
	case opStatfs:
		return make([]byte, 80), 0
	case opFlush, opRelease, opDestroy:
		return nil, 0
	}
	return nil, unix.ENOSYS
}

// attributes returns a struct fuse_attr.
func (d *Disk) attributes(node uint64) []byte {
	out := make([]byte, 88)
	le.PutUint64(out, node)
	mode, links := uint32(unix.S_IFREG|0o600), uint32(1)
	if node == rootNode {
		mode, links = unix.S_IFDIR|0o700, 2
	} else {
		le.PutUint64(out[8:], uint64(len(d.image)))
		le.PutUint64(out[16:], uint64(len(d.image)/512))
	}
	le.PutUint32(out[60:], mode)
	le.PutUint32(out[64:], links)
	le.PutUint32(out[80:], 4096)
	return out
}
