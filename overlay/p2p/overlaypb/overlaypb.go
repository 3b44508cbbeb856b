// Package overlaypb is the generated wire form of the overlay's messages. It is not for use elsewhere: only package p2p knows the
// limits that the bytes must keep.
package overlaypb

//go:generate protoc -I . -I ../../../channel/channelpb --go_out=. --go_opt=paths=source_relative --go_opt=Mchannel.proto=shoal/channel/channelpb overlay.proto
