package main

import (
	"context"
	"fmt"
	"unsafe"

	"golang.org/x/sys/windows"
)

// desktop says why this session has no place for an icon, if it has none: services and remote shells have no task bar.
func desktop(ctx context.Context) (session context.Context, left func(), err error) {
	class, err := windows.UTF16PtrFromString("Shell_TrayWnd")
	if err != nil {
		return nil, nil, err
	}
	if bar, _, _ := windows.NewLazySystemDLL("user32.dll").NewProc("FindWindowW").Call(uintptr(unsafe.Pointer(class)), 0); bar == 0 {
		return nil, nil, fmt.Errorf("%w: this session has no task bar; run this on the desktop, or see the peer with: shoal-peer status", errNoDesktop)
	}
	return ctx, func() {}, nil
}
