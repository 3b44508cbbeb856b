// Package archivepb is the protobuf form of what the archive keeps in its database, generated from archive.proto. It is not for the
// wire, and not for anything outside the archive.
package archivepb

//go:generate protoc --proto_path=. --go_out=. --go_opt=paths=source_relative archive.proto
