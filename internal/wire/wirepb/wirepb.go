// Package wirepb is the generated wire form of package wire. It is not for use elsewhere: only package wire knows the limits that
// the bytes must keep.
package wirepb

//go:generate protoc --go_out=. --go_opt=paths=source_relative wire.proto
