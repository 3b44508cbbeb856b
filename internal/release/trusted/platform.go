package trusted

import (
	"debug/buildinfo"
	"fmt"
	"io"
)

// Platform is the system and architecture that a program was built for, by what its builder wrote into it.
func Platform(program io.ReaderAt) (system, arch string, err error) {
	info, err := buildinfo.Read(program)
	if err != nil {
		return "", "", fmt.Errorf("%w: not a program that the Go tool has built: %w", ErrMalformed, err)
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "GOOS":
			system = s.Value
		case "GOARCH":
			arch = s.Value
		}
	}
	if system == "" || arch == "" {
		return "", "", fmt.Errorf("%w: the program does not say what it was built for", ErrMalformed)
	}
	return system, arch, nil
}
