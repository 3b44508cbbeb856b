package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"shoal/internal/member"
	"shoal/internal/ports"
)

// keptPort is the port of loopback at which the manager of a data folder listens: that of its last start, at which peers that joined look for it, unless
// another program has it now.
func keptPort(data string) (int, error) {
	path := filepath.Join(data, "listens-at")
	before := 0
	if b, err := os.ReadFile(path); err == nil {
		before, _ = strconv.Atoi(strings.TrimSpace(string(b))) // a damaged file is as none
	}
	port, err := ports.Again(before)
	if err != nil || port == before {
		return port, err
	}
	if err := os.MkdirAll(data, 0o700); err != nil {
		return 0, fmt.Errorf("the data folder cannot be made: %w; name another with --data", err)
	}
	return port, member.WriteFile(path, []byte(strconv.Itoa(port)+"\n"))
}
