package main

import (
	"context"
	"fmt"

	"github.com/godbus/dbus/v5"
)

// desktop says why this session has no place for an icon, if it has none. The context that it returns ends with the session too.
func desktop(ctx context.Context) (session context.Context, left func(), err error) {
	bus, err := dbus.ConnectSessionBus()
	if err != nil {
		return nil, nil, fmt.Errorf("%w: no desktop session is reached from here (%w); run this in a terminal of your desktop, or see the peer with: shoal-peer status", errNoDesktop, err)
	}
	defer func() {
		if err != nil {
			bus.Close()
		}
	}()
	var there bool
	if err := bus.BusObject().Call("org.freedesktop.DBus.NameHasOwner", 0, "org.kde.StatusNotifierWatcher").Store(&there); err != nil {
		return nil, nil, fmt.Errorf("%w: %w", errNoDesktop, err)
	}
	if !there {
		return nil, nil, fmt.Errorf("%w: this desktop shows no icons of programs; GNOME does with the extension AppIndicator (Debian: gnome-shell-extension-appindicator)", errNoDesktop)
	}
	session, end := context.WithCancel(ctx)
	unused := context.AfterFunc(bus.Context(), end)
	return session, func() { unused(); end(); bus.Close() }, nil
}
