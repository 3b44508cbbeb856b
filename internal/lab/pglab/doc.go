// Package pglab runs PostgreSQL servers for tests: each in a folder of its own, on a Unix socket, as a user that is
// not root. A test can kill such a server and start it again. Tests that need no server of their own share one.
package pglab
