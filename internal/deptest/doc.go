// Package deptest holds the architecture of Shoal as tests: who may import whom, what a pure package may not use, and that every
// package says what it is for. ARCHITECTURE.md tells the same in prose; where they differ, the test is what binds. It is not for
// testing behaviour.
package deptest
