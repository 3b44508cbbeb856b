package crawl

import (
	"errors"
	"fmt"
	"testing"
)

// A to-do list on disk takes no more than it may while one file of it is read and another one is written. It took twice as much.
func TestSpillIsBoundedWhileItIsRead(t *testing.T) {
	const most = 256 << 10
	q := newFIFO(disk{}, t.TempDir(), most)
	defer q.close()
	n := 0
	fill := func() {
		for {
			err := q.add(item{url: fmt.Sprintf("http://site-1.example/some/page/%d", n)})
			if n++; errors.Is(err, errSpillFull) {
				return
			} else if err != nil {
				t.Fatal(err)
			}
		}
	}
	fill()
	for q.reading == nil {
		if _, ok, err := q.next(); !ok || err != nil {
			t.Fatal(ok, err)
		}
	}
	fill()
	held := q.reading.bytes
	if q.writing != nil {
		held += q.writing.bytes
	}
	if held > most+most/4 || held < most/2 {
		t.Errorf("%d bytes are on disk, of %d", held, most)
	}
}
