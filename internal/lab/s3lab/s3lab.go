// Package s3lab runs an S3-compatible object store for tests: versitygw in this process, with its objects as files in a folder. Each test has a
// bucket of its own, behind a server that breaks requests as the test says. The working directory of the process is another one while a bucket is
// there: tests that need their own cannot run in parallel with it.
package s3lab

import "time"

// Access and Secret are the key of every bucket's owner.
const (
	Access = "shoal-access"
	Secret = "shoal-secret"
)

// Fault is what becomes of one request. The zero value lets it pass.
type Fault struct {
	Delay  time.Duration // before anything else
	Status int           // answered by this, and nothing else happens; 0: it goes on
	Cut    int64         // the connection breaks after so many bytes of the request's body; 0: it does not
	Silent bool          // the request takes effect, and the connection breaks before the answer
	Hide   time.Duration // an answer that lists objects leaves out those that were written within that time
}

// Options of a store.
type Options struct {
	TLS bool // serve HTTPS, with a certificate that no system trusts
}
