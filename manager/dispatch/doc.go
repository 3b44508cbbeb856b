// Package dispatch decides which task is handed out now, and what becomes of it.
package dispatch
