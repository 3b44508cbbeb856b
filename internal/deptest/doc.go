// Package deptest holds the architecture of Shoal as tests: who may import whom, what a pure package may not use, on which floor each folder
// stands, and that every package says what it is for, has its place in ARCHITECTURE.md's table and is part of a program. A permission that no
// import uses fails too. Where ARCHITECTURE.md and the tests differ, the tests bind. The package is not for testing behaviour.
package deptest
