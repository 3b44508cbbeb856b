//go:build !windows

package main

import (
	"context"
	"errors"
)

// windowsService is for Windows.
func windowsService(context.Context, streams, *place, func(context.Context, streams) error) error {
	return errors.New("--windows-service is what the service manager of Windows runs; here the service is installed with: shoal-peer service install")
}
