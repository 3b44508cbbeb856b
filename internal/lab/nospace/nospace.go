// Package nospace has an output that takes nothing, as /dev/full does, for tests of what programs say then.
package nospace

import "errors"

// Err is what each write to Output fails with.
var Err = errors.New("no space left on device")

// Output takes nothing.
type Output struct{}

// Write implements io.Writer.
func (Output) Write([]byte) (int, error) { return 0, Err }
