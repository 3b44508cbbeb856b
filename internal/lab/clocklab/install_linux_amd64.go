package clocklab

import (
	"fmt"
	"os"
	"syscall"
	"unsafe"
)

//go:linkname vdsoClockgettimeSym runtime.vdsoClockgettimeSym
var vdsoClockgettimeSym uintptr

// What gettime reads.
var (
	real    uintptr //nolint:unused // the vDSO's function; the assembly calls it
	offsets uintptr //nolint:unused // of four words: seconds and nanoseconds of the wall clock, then of the monotonic one
)

func address() uintptr

// Supported tells whether programs can have such clocks here.
const Supported = true

// Install gives this process the clocks of its file; without one it does nothing.
func Install() error {
	path := os.Getenv(File)
	if path == "" || vdsoClockgettimeSym == 0 {
		return nil
	}
	m, err := mapped(path)
	if err != nil {
		return fmt.Errorf("clocklab: %w", err)
	}
	offsets = uintptr(unsafe.Pointer(&m[0])) // it stays mapped until the process ends
	real = vdsoClockgettimeSym
	vdsoClockgettimeSym = address()
	return nil
}

// mapped is a file of offsets in memory, which all who map it share.
func mapped(path string) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	m, err := syscall.Mmap(int(f.Fd()), 0, size, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("map %s: %w", path, err)
	}
	return m, nil
}
