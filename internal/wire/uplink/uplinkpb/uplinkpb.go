// Package uplinkpb is the protobuf form of package uplink, generated from uplink.proto. Nothing else should use it.
package uplinkpb

//go:generate protoc --proto_path=. --go_out=. --go_opt=paths=source_relative uplink.proto
