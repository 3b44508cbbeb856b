package plain

import (
	"fmt"
	"io"
	"sync"
)

// Output is a program's standard output. It remembers the first write that failed: most commands print line after line and look at the last one at most, and an
// answer that is not there must not end as a success.
type Output struct {
	w   io.Writer
	mu  sync.Mutex // of err
	err error
}

// NewOutput returns an Output that writes to w.
func NewOutput(w io.Writer) *Output { return &Output{w: w} }

// Write implements io.Writer.
func (o *Output) Write(b []byte) (int, error) {
	n, err := o.w.Write(b)
	if err != nil {
		o.mu.Lock()
		defer o.mu.Unlock()
		if o.err == nil {
			o.err = err
		}
	}
	return n, err
}

// Exit is the exit status of a program that would end with status: 1 instead of 0 if a part of its answer was not written, which it says on errs.
func (o *Output) Exit(program string, status int, errs io.Writer) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	if status != 0 || o.err == nil { // what failed is told already
		return status
	}
	fmt.Fprintf(errs, "%s: the output could not be written: %s\n", program, Error(o.err))
	return 1
}
