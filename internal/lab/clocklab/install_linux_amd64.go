package clocklab

import (
	"fmt"
	"os"
	"runtime"
	"sync/atomic"
	"syscall"
	"time"
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

// Install gives this process the clocks of its file, and tells there how many goroutines it has; without a file it does nothing.
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
	go tell((*uint64)(unsafe.Pointer(&m[goroutines])))
	return nil
}

// tell tells each second how many goroutines this process has, until it ends.
func tell(to *uint64) {
	for ; ; time.Sleep(time.Second) {
		atomic.StoreUint64(to, uint64(runtime.NumGoroutine()))
	}
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
