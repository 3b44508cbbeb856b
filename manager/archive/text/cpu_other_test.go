//go:build !unix

package text

import "time"

// computed is not known here.
func computed() time.Duration { return 0 }
