package schema

import (
	"testing"

	"google.golang.org/protobuf/proto"

	pb "shoal/manager/archive/archivepb"
)

// FuzzValues reads foreign bytes as every kind of stored value.
func FuzzValues(f *testing.F) {
	for _, m := range []proto.Message{&pb.State{Id: []byte("12345678")}, &pb.Page{Url: "http://example.org/"}, &pb.Entry{Kind: 1, Page: &pb.PageEvent{Event: 2}}} {
		b, err := Encode(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Add([]byte{})
	f.Add([]byte{2})
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, m := range []proto.Message{new(pb.State), new(pb.Page), new(pb.Entry), new(pb.Capture), new(pb.Content), new(pb.File), new(pb.Channel), new(pb.Deposit)} {
			if err := Decode(b, m); err == nil {
				if _, err := Encode(m); err != nil {
					t.Errorf("read and cannot be written: %v", err)
				}
			}
		}
	})
}
