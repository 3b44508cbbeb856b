//go:build !linux

package standstill

import "time"

func threads(int) map[string]time.Duration { return nil }

func disk() time.Duration { return 0 }

func processors() time.Duration { return 0 }
