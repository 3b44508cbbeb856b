// Package e2e tests the whole system from outside. It builds the programs, runs them as processes that talk over real
// sockets, kills some of them with SIGKILL, and checks what is left on the disk. It has no code of its own. A test
// that needs only one package belongs to that package.
package e2e
