package archivecmd

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"shoal/manager/archive"
)

const watchEvery = time.Second // between two looks at what goes on

// Watch says on w what of the archive's upkeep goes on, and what waits, from a second on until the func that it returns is called: on a terminal one line
// that changes, elsewhere a line for each step. look returns nil where it cannot tell, or nothing goes on.
func Watch(ctx context.Context, w io.Writer, look func(context.Context) *archive.Work) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		watch(ctx, w, look)
	}()
	return func() { cancel(); <-ended }
}

func watch(ctx context.Context, w io.Writer, look func(context.Context) *archive.Work) {
	t := time.NewTicker(watchEvery)
	defer t.Stop()
	terminal, told := isTerminal(w), ""
	for {
		select {
		case <-ctx.Done():
			if terminal && told != "" {
				_, _ = fmt.Fprint(w, "\r\x1b[K") // it is said about the work, not its result
			}
			return
		case <-t.C:
		}
		work := look(ctx)
		if work == nil || ctx.Err() != nil {
			continue
		}
		if terminal {
			told = work.String()
			_, _ = fmt.Fprintf(w, "\r\x1b[K%s", told)
			continue
		}
		brief := *work
		brief.Done, brief.All = 0, 0
		if s := brief.String(); s != told {
			told = s
			_, _ = fmt.Fprintln(w, told)
		}
	}
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	st, err := f.Stat()
	return err == nil && st.Mode()&fs.ModeCharDevice != 0
}

// work asks the running manager what goes on.
func (s *Source) work(ctx context.Context) *archive.Work {
	r, err := s.get(ctx, "/stats", nil)
	if err != nil {
		return nil
	}
	defer r.Body.Close()
	var stats archive.Stats
	if json.NewDecoder(r.Body).Decode(&stats) != nil {
		return nil
	}
	return stats.Work
}
