// Package carrypb holds the messages of package carry, generated from carry.proto. Only package carry knows the limits that the bytes must keep.
package carrypb

//go:generate protoc --proto_path=. --go_out=. --go_opt=paths=source_relative carry.proto
