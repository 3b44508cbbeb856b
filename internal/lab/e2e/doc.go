// Package e2e tests the whole system from outside: it builds the programs, runs them as processes that talk over real sockets, kills
// some of them with SIGKILL, and looks at what is left on the disk. It has no code of its own and is not for what a package's own test
// can show.
package e2e
