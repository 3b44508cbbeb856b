// Package channelpb is the protobuf form of package channel, generated from channel.proto. Nothing but package channel (and a wire
// form of another room that carries a coordinate) should use it: only channel's Parse functions enforce the limits.
package channelpb

//go:generate protoc --proto_path=. --go_out=. --go_opt=paths=source_relative channel.proto
