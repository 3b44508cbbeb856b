package archivecmd

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Names of folders and files that `shoal up` and managers make.
const (
	upWeb       = "up-web"
	upPond      = "up-pond"
	upCluster   = "up-cluster"
	addressFile = "manager.url"
)

// lookTime is for how long one manager is waited for, to see whether it answers.
const lookTime = time.Second

// Beneath are the data folders that `shoal up` keeps in a folder, and of which has reports that they hold what is looked for. Of several managers that run
// together it is the first that answers, as each works for all, or the first.
func Beneath(ctx context.Context, dir string, has func(data string) bool) (found []string) {
	for _, sub := range []string{upWeb, upPond} {
		if at := filepath.Join(dir, sub); has(at) {
			found = append(found, at)
		}
	}
	one := ""
	for n := 1; ; n++ {
		at := filepath.Join(dir, upCluster, fmt.Sprint("manager-", n))
		if !has(at) {
			break
		}
		if answers(ctx, at) {
			one = at
			break
		}
		if one == "" {
			one = at
		}
	}
	if one != "" {
		found = append(found, one)
	}
	return found
}

// answers reports whether a manager answers at the address that a data folder names.
func answers(ctx context.Context, data string) bool {
	b, err := os.ReadFile(filepath.Join(data, addressFile))
	if err != nil {
		return false
	}
	u, err := url.Parse(strings.TrimSpace(string(b)))
	if err != nil {
		return false
	}
	c, err := (&net.Dialer{Timeout: lookTime}).DialContext(ctx, "tcp", u.Host)
	return err == nil && c.Close() == nil
}
