package judge

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"strconv"
	"strings"
)

// Holdings is what a process holds.
type Holdings struct {
	Bytes       float64 // of memory, resident
	Descriptors float64
	Goroutines  float64 // 0: not known
	Files       float64 // that it keeps for work under way; 0: not known
	Disk        float64 // bytes that these take; 0: not known
}

// Holdings reads what the manager holds from its metrics.
func (j *Judge) Holdings(ctx context.Context) (h Holdings, err error) {
	b, _, err := j.read(ctx, j.cfg.Manager+"/metrics", true)
	if err != nil {
		return h, err
	}
	into := map[string]*float64{"process_resident_memory_bytes": &h.Bytes, "process_open_fds": &h.Descriptors, "go_goroutines": &h.Goroutines}
	for s := bufio.NewScanner(bytes.NewReader(b)); s.Scan(); {
		name, value, _ := strings.Cut(s.Text(), " ")
		if v := into[name]; v != nil {
			if *v, err = strconv.ParseFloat(value, 64); err != nil {
				return h, fmt.Errorf("judge: metric %s: %w", name, err)
			}
		}
	}
	if h.Bytes == 0 || h.Descriptors == 0 || h.Goroutines == 0 {
		return h, fmt.Errorf("judge: the manager's metrics lack memory, descriptors or goroutines: %+v", h)
	}
	return h, nil
}

// What a process may hold beside half as much again as before: caches fill, and work goes on while it is looked at.
const (
	moreBytes       = 128 << 20
	moreDescriptors = 32
	moreGoroutines  = 100
	moreFiles       = 50
	moreDisk        = 8 << 20
)

// Exceeds tells what a process holds now that is more than it may, against what it held when all was calm.
func Exceeds(before, now Holdings) (all []string) {
	for _, v := range []struct {
		what              string
		before, now, more float64
	}{
		{"bytes of memory", before.Bytes, now.Bytes, moreBytes},
		{"descriptors", before.Descriptors, now.Descriptors, moreDescriptors},
		{"goroutines", before.Goroutines, now.Goroutines, moreGoroutines},
		{"files", before.Files, now.Files, moreFiles},
		{"bytes of disk", before.Disk, now.Disk, moreDisk},
	} {
		if most := v.before*3/2 + v.more; v.now > most {
			all = append(all, fmt.Sprintf("%.0f %s, and held %.0f when all was calm; %.0f are allowed", v.now, v.what, v.before, most))
		}
	}
	return all
}

// Returned judges what a process holds now against what it held when all was calm.
func (j *Judge) Returned(name string, before, now Holdings) {
	for _, what := range Exceeds(before, now) {
		j.breach(Leaked, "%s holds %s", name, what)
	}
}
