package standstill

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// threads returns how long each thread of a process has computed or waited for a processor, by the thread's number.
func threads(pid int) map[string]time.Duration {
	files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid)) // the pattern is well formed
	out := make(map[string]time.Duration, len(files))
	for _, name := range files {
		b, err := os.ReadFile(name)
		if err != nil {
			continue // it has ended
		}
		var computed, waited int64 // nanoseconds
		if _, err := fmt.Sscan(string(b), &computed, &waited); err == nil {
			out[filepath.Base(filepath.Dir(name))] = time.Duration(computed + waited)
		}
	}
	return out
}

// disk returns how long some process of the machine has waited for a disk since the machine started; zero where the kernel does not tell.
func disk() time.Duration { return pressure("/proc/pressure/io") }

// processors returns how long some thread of the machine has waited for a processor since the machine started; zero where the kernel does not tell.
func processors() time.Duration { return pressure("/proc/pressure/cpu") }

func pressure(file string) time.Duration {
	b, err := os.ReadFile(file)
	if err != nil {
		return 0
	}
	line, _, _ := strings.Cut(string(b), "\n")
	_, total, _ := strings.Cut(line, "total=")
	us, _ := strconv.ParseInt(total, 10, 64)
	return time.Duration(us) * time.Microsecond
}
