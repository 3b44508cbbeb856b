//go:build !linux

package headroom

import "errors"

// Supported tells whether room can be kept here.
const Supported = false

var errNot = errors.New("headroom: this system is not asked for room ahead")

func free(string) (int64, error)               { return 0, errNot }
func reserve(string, int64) error              { return errNot }
func extend(string, mark, int64) (mark, error) { return mark{}, errNot }
