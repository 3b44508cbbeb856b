package service

import (
	"os"
	"path/filepath"
	"strings"
)

// packagedFile is a file of packages, in lib/ beside the bin/ of their program, in a folder of its name. Archives that a volunteer unpacks do not have it.
const packagedFile = "packaged"

// PackagedBy returns what keeps the program at exe up to date, such as "deb" or "rpm"; "" means that nothing does. A program that a package manager keeps must
// not replace itself: the two would undo each other's work.
func PackagedBy(exe string) string {
	if to, err := filepath.EvalSymlinks(exe); err == nil {
		exe = to
	}
	b, err := os.ReadFile(filepath.Join(filepath.Dir(filepath.Dir(exe)), "lib", filepath.Base(exe), packagedFile))
	if err != nil {
		return ""
	}
	by, _, _ := strings.Cut(string(b), "\n")
	return by
}
