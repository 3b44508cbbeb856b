// Package memberpb is the generated wire form of package member. It is not for use elsewhere: only package member knows the limits
// that the bytes must keep.
package memberpb

//go:generate protoc --go_out=. --go_opt=paths=source_relative member.proto
