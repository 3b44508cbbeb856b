package archive

import (
	"fmt"
	"testing"
	"time"

	"shoal/channel"
)

// BenchmarkKnown gathers what the task of a channel carries, for its crawl and for an audit of one of its pages.
func BenchmarkKnown(b *testing.B) {
	for _, pages := range []int{300, 10_000} {
		cfg := testConfig(b.TempDir())
		cfg.NoText, cfg.Unpaced = true, true
		a := open(b, cfg)
		r, _ := start(b, a, "p", 1, 1)
		for from := 0; from < pages; from += MaxPages {
			var body channel.ChunkBody
			for n := from; n < min(from+MaxPages, pages); n++ {
				body.Pages = append(body.Pages, r.page(fmt.Sprintf("/%d", n), fmt.Sprintf("page %d", n), channel.New))
			}
			r.put(body)
		}
		r.put(channel.ChunkBody{Report: r.report(channel.Updated)})
		for what, looked := range map[string][]uint64{"crawl": nil, "audit": {channel.URLHash(r.url("/7"))}} {
			b.Run(fmt.Sprintf("%s/pages=%d", what, pages), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					k, err := a.Known(b.Context(), 1, time.Time{}, looked...)
					if err != nil || len(k.Digests) != pages-len(looked) {
						b.Fatalf("%d digests, %v", len(k.Digests), err)
					}
				}
			})
		}
	}
}
