//go:build !windows

package main

import "context"

// underManager runs f as the service manager wants it; systemd and launchd want nothing special.
func underManager(ctx context.Context, s streams, f func(context.Context, streams) error) error {
	return f(ctx, s)
}
