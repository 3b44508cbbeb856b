// Package clocklab gives a process clocks that a test steps. A test builds a program with Overlay, which adds a file to it and changes none of its own. Such a program starts with File's variable in its environment, and its time.Now then has the offsets that stand in the file; a test
// changes them with Clock while the program runs. Without the variable the program's clocks are the computer's.
//
// The wall clock may step either way, as when somebody sets it. The monotonic clock may only fall behind, while the process is stopped: together that is
// what a process sees of a computer that slept, as its monotonic clock stands still meanwhile and the others go on.
//
// It works on Linux on amd64. The Go runtime reads both clocks through a function of the kernel's vDSO whose address is in a variable; the
// package puts another function there, which calls the first one and adds the offsets. No clock of the computer is ever set.
package clocklab
