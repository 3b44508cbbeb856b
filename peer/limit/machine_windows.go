package limit

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/windows"
)

var (
	kernel32           = windows.NewLazySystemDLL("kernel32.dll")
	user32             = windows.NewLazySystemDLL("user32.dll")
	shell32            = windows.NewLazySystemDLL("shell32.dll")
	notificationState  = shell32.NewProc("SHQueryUserNotificationState")
	ole32              = windows.NewLazySystemDLL("ole32.dll")
	getPowerStatus     = kernel32.NewProc("GetSystemPowerStatus")
	getSystemTimes     = kernel32.NewProc("GetSystemTimes")
	getTickCount       = kernel32.NewProc("GetTickCount")
	getLastInput       = user32.NewProc("GetLastInputInfo")
	coCreateInstance   = ole32.NewProc("CoCreateInstance")
	networkListManager = windows.GUID{Data1: 0xDCB00C01, Data2: 0x570F, Data3: 0x4A9B, Data4: [8]byte{0x8D, 0x69, 0x19, 0x9F, 0xDB, 0xA5, 0x72, 0x3B}}
	networkCostManager = windows.GUID{Data1: 0xDCB00008, Data2: 0x570F, Data3: 0x4A9B, Data4: [8]byte{0x8D, 0x69, 0x19, 0x9F, 0xDB, 0xA5, 0x72, 0x3B}}
)

// powerStatus is SYSTEM_POWER_STATUS.
type powerStatus struct {
	acLine, battery, percent, saver byte
	lifeTime, fullLifeTime          uint32
}

// OnBattery reports whether this computer runs on its battery. A computer without a battery does not.
func OnBattery() (bool, error) {
	var s powerStatus
	if ok, _, err := getPowerStatus.Call(uintptr(unsafe.Pointer(&s))); ok == 0 {
		return false, fmt.Errorf("%w: battery: %w", ErrUnknown, err)
	}
	const noBattery, unknown = 0x80, 0xff
	switch {
	case s.acLine == 0:
		return s.battery == unknown || s.battery&noBattery == 0, nil
	case s.acLine == unknown:
		return false, fmt.Errorf("%w: battery: Windows does not know", ErrUnknown)
	}
	return false, nil
}

// OnMetered reports whether Windows considers the link paid by volume.
func OnMetered() (metered bool, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("%w: metered link: %w", ErrUnknown, err)
		}
	}()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	const changedMode = windows.Errno(0x80010106) // the thread has another threading model already, which works too
	if err := windows.CoInitializeEx(0, windows.COINIT_MULTITHREADED); err == nil || err == windows.Errno(windows.S_FALSE) {
		defer windows.CoUninitialize()
	} else if err != changedMode {
		return false, err
	}
	if err := coCreateInstance.Find(); err != nil {
		return false, err
	}
	const anyContext = 0x17                    // CLSCTX_ALL
	var manager *struct{ methods *[6]uintptr } // INetworkCostManager: three methods of IUnknown, GetCost and two more
	if r, _, _ := coCreateInstance.Call(uintptr(unsafe.Pointer(&networkListManager)), 0, anyContext, uintptr(unsafe.Pointer(&networkCostManager)),
		uintptr(unsafe.Pointer(&manager))); int32(r) < 0 || manager == nil {
		return false, windows.Errno(r)
	}
	defer syscall.SyscallN(manager.methods[2], uintptr(unsafe.Pointer(manager))) // Release
	var cost uint32
	if r, _, _ := syscall.SyscallN(manager.methods[3], uintptr(unsafe.Pointer(manager)), uintptr(unsafe.Pointer(&cost)), 0); int32(r) < 0 {
		return false, windows.Errno(r)
	}
	return meteredCost(cost)
}

// meteredCost interprets an NLM_CONNECTION_COST.
func meteredCost(cost uint32) (bool, error) {
	const fixed, variable, over, roaming, kinds = 0x2, 0x4, 0x10000, 0x40000, 0x7
	if cost&kinds == 0 {
		return false, errors.New("Windows does not know")
	}
	return cost&(fixed|variable|over|roaming) != 0, nil
}

// Use asks for the time since the last key or movement, and whether a program fills the screen.
func (m *Machine) Use() Use {
	t := untold(SourceInput, errors.New("a service sees no keyboard"))
	var session uint32
	if err := windows.ProcessIdToSessionId(uint32(os.Getpid()), &session); err != nil {
		t = untold(SourceInput, err)
	} else if session != 0 {
		if idle, err := sinceInput(); err != nil {
			t = untold(SourceInput, err)
		} else {
			t = measured(SourceInput, idle)
		}
	}
	u := judge([]Trial{t})
	if session == 0 || notificationState.Find() != nil {
		return u
	}
	const busy, direct3D, presents = 2, 3, 4 // QUNS_BUSY, QUNS_RUNNING_D3D_FULL_SCREEN, QUNS_PRESENTATION_MODE
	var state uint32
	if r, _, _ := notificationState.Call(uintptr(unsafe.Pointer(&state))); int32(r) >= 0 {
		u.Full, u.FullBy = state == busy || state == direct3D || state == presents, "SHQueryUserNotificationState"
	}
	return u
}

func sinceInput() (time.Duration, error) {
	last := struct{ size, tick uint32 }{size: 8}
	if err := getLastInput.Find(); err != nil {
		return 0, err
	}
	if ok, _, err := getLastInput.Call(uintptr(unsafe.Pointer(&last))); ok == 0 {
		return 0, err
	}
	now, _, _ := getTickCount.Call()
	return time.Duration(uint32(now)-last.tick) * time.Millisecond, nil
}

func (m *Machine) busy() (int, error) {
	const what = "load of the processors"
	var idle, kernel, user windows.Filetime
	if ok, _, err := getSystemTimes.Call(uintptr(unsafe.Pointer(&idle)), uintptr(unsafe.Pointer(&kernel)), uintptr(unsafe.Pointer(&user))); ok == 0 {
		return 0, fmt.Errorf("%w: %s: %w", ErrUnknown, what, err)
	}
	var began, ended, ownKernel, ownUser windows.Filetime
	if err := windows.GetProcessTimes(windows.CurrentProcess(), &began, &ended, &ownKernel, &ownUser); err != nil {
		return 0, fmt.Errorf("%w: %s: %w", ErrUnknown, what, err)
	}
	n := func(t windows.Filetime) float64 { return float64(t.HighDateTime)*(1<<32) + float64(t.LowDateTime) }
	total := n(kernel) + n(user) // the kernel's time holds the idle one
	return m.since(ticks{total: total, busy: total - n(idle), own: n(ownKernel) + n(ownUser)}), nil
}

// LowPriority gives this process the lowest priority for processors and disks. It does not use
// PROCESS_MODE_BACKGROUND_BEGIN, which also limits a process to 32 MiB of memory and pages everything beyond that in
// and out.
func LowPriority() error {
	if err := windows.SetPriorityClass(windows.CurrentProcess(), windows.IDLE_PRIORITY_CLASS); err != nil {
		return fmt.Errorf("limit: priority class: %w", err)
	}
	veryLow := uint32(0)
	if err := windows.NtSetInformationProcess(windows.CurrentProcess(), windows.ProcessIoPriority, unsafe.Pointer(&veryLow), 4); err != nil {
		return fmt.Errorf("limit: disk priority: %w", err)
	}
	return nil
}
