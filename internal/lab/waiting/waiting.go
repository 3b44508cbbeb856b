// Package waiting runs tests that mostly wait, and waits in tests.
package waiting

import (
	"flag"
	"runtime"
	"strconv"
	"testing"
)

// Run runs the tests as m.Run does, with so many parallel tests for each processor. Without it, package testing runs
// one for each, and a processor is idle while its test waits. The flag -parallel decides if it is given.
func Run(m *testing.M, forEach int) int {
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if !given {
		if err := flag.Set("test.parallel", strconv.Itoa(forEach*runtime.GOMAXPROCS(0))); err != nil {
			panic(err) // package testing has this flag and takes every positive number
		}
	}
	return m.Run()
}
