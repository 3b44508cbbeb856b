//go:build !linux

package s3lab

import (
	"net/http"
	"testing"
)

// Store is one bucket.
type Store struct{}

// Start skips the test: object stores for tests run on Linux alone.
func Start(t testing.TB, _ Options) *Store {
	t.Helper()
	t.Skip("object stores for tests run on Linux alone")
	return nil
}

// Break does nothing.
func (*Store) Break(func(*http.Request) Fault) {}

// URL is empty.
func (*Store) URL() string { return "" }

// URLOf is empty.
func (*Store) URLOf(_, _, _ string) string { return "" }

// Certificate is empty.
func (*Store) Certificate() []byte { return nil }

// Objects are none.
func (*Store) Objects() ([]string, error) { return nil, nil }

// File is empty.
func (*Store) File(string) string { return "" }

// Puts breaks nothing.
func (*Store) Puts(string, func() Fault) func(*http.Request) Fault { return nil }
