// Package smallbucket is a small object store on this machine, for a look at a network of several managers: one bucket in a folder, behind that part of the
// S3 interface that an archive asks for (write, also in parts, read from an offset, list, remove). It syncs what it acknowledges.
//
// It is not for a network that must live: it is one disk of one machine. It checks no signatures: the bucket's name is the secret, which only this user's
// processes are told, so it must listen on a loopback address alone. A full gateway is not in the program, as it would make it half as large again.
package smallbucket

import (
	"bufio"
	"bytes"
	"crypto/md5" //nolint:gosec // S3's entity tags are MD5
	"crypto/rand"
	"encoding/hex"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// Bucket is one bucket in a folder. It is an http.Handler.
type Bucket struct {
	dir, name string
	making    sync.Mutex // one object is put into its place at a time
}

// Limits of requests.
const (
	maxObject = 5 << 30
	maxList   = 1000 // objects in one answer
	maxParts  = 10_000
)

// Open opens the bucket in a folder, or makes it. Parts of objects that were not ended are removed.
func Open(dir string) (*Bucket, error) {
	b := &Bucket{dir: dir}
	for _, sub := range []string{b.objects(), b.parts()} {
		if sub == b.parts() {
			if err := os.RemoveAll(sub); err != nil {
				return nil, fmt.Errorf("smallbucket: %w", err)
			}
		}
		if err := os.MkdirAll(sub, 0o700); err != nil {
			return nil, fmt.Errorf("smallbucket: %w", err)
		}
	}
	at := filepath.Join(dir, "name")
	text, err := os.ReadFile(at)
	if errors.Is(err, fs.ErrNotExist) {
		text = []byte("shoal-" + random())
		err = os.WriteFile(at, text, 0o600)
	}
	if err != nil {
		return nil, fmt.Errorf("smallbucket: %w", err)
	}
	b.name = string(text)
	return b, nil
}

// URL is what --bucket wants, where the bucket is served at an address.
func (b *Bucket) URL(addr string) string {
	return fmt.Sprintf("s3://shoal:shoal@%s/%s?tls=off", addr, b.name)
}

func (b *Bucket) objects() string { return filepath.Join(b.dir, "objects") }
func (b *Bucket) parts() string   { return filepath.Join(b.dir, "parts") }

func random() string {
	var r [16]byte
	rand.Read(r[:])
	return hex.EncodeToString(r[:])
}

// failure is an error as S3 words it.
type failure struct {
	XMLName xml.Name `xml:"Error"`
	Code    string
	Message string
	status  int
}

func (f *failure) Error() string { return f.Message }

func fail(status int, code, text string) error {
	return &failure{Code: code, Message: text, status: status}
}

// ServeHTTP implements http.Handler.
func (b *Bucket) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	bucket, object, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	var err error
	switch {
	case bucket != b.name:
		err = fail(http.StatusNotFound, "NoSuchBucket", "there is no such bucket")
	case object == "":
		err = b.whole(w, r)
	default:
		err = b.one(w, r, object)
	}
	if err == nil {
		return
	}
	var f *failure
	if !errors.As(err, &f) {
		f = &failure{Code: "InternalError", Message: err.Error(), status: http.StatusInternalServerError}
	}
	w.Header().Set("Content-Type", "application/xml")
	w.WriteHeader(f.status)
	_ = xml.NewEncoder(w).Encode(f) // the client may be gone
}

// whole answers what is asked of the bucket.
func (b *Bucket) whole(w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	switch {
	case r.Method == http.MethodHead:
		return nil
	case r.Method == http.MethodGet && q.Has("location"):
		return answer(w, struct {
			XMLName xml.Name `xml:"LocationConstraint"`
		}{})
	case r.Method == http.MethodGet && q.Get("list-type") == "2":
		return b.list(w, q.Get("prefix"), max(q.Get("continuation-token"), q.Get("start-after")))
	}
	return fail(http.StatusNotImplemented, "NotImplemented", "this small store does not do that")
}

// one answers what is asked of an object.
func (b *Bucket) one(w http.ResponseWriter, r *http.Request, object string) error {
	path := filepath.FromSlash(object)
	if !filepath.IsLocal(path) || strings.HasSuffix(object, "/") || len(object) > 512 {
		return fail(http.StatusBadRequest, "InvalidArgument", "no object can have that name")
	}
	at, q := filepath.Join(b.objects(), path), r.URL.Query()
	switch {
	case r.Method == http.MethodGet || r.Method == http.MethodHead:
		return b.get(w, r, at)
	case r.Method == http.MethodPut && q.Has("partNumber"):
		return b.putPart(w, r, q.Get("uploadId"), q.Get("partNumber"))
	case r.Method == http.MethodPut:
		return b.put(w, r, at)
	case r.Method == http.MethodPost && q.Has("uploads"):
		return b.beginParts(w)
	case r.Method == http.MethodPost && q.Has("uploadId"):
		return b.endParts(w, r, q.Get("uploadId"), at)
	case r.Method == http.MethodDelete && q.Has("uploadId"):
		dir, err := b.upload(q.Get("uploadId"))
		if err == nil {
			err = os.RemoveAll(dir)
		}
		if err != nil {
			return err
		}
		w.WriteHeader(http.StatusNoContent)
		return nil
	case r.Method == http.MethodDelete:
		if err := os.Remove(at); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		w.WriteHeader(http.StatusNoContent)
		return nil
	}
	return fail(http.StatusNotImplemented, "NotImplemented", "this small store does not do that")
}

func (b *Bucket) get(w http.ResponseWriter, r *http.Request, at string) error {
	f, err := os.Open(at)
	var info fs.FileInfo
	if err == nil {
		defer f.Close()
		info, err = f.Stat()
	}
	if errors.Is(err, fs.ErrNotExist) || err == nil && info.IsDir() {
		return fail(http.StatusNotFound, "NoSuchKey", "there is no such object")
	}
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("ETag", tag(at, info))
	http.ServeContent(w, r, "", info.ModTime(), f)
	return nil
}

// tag is an object's entity tag: which bytes it has shows in its file.
func tag(at string, info fs.FileInfo) string {
	return fmt.Sprintf("\"%x-%x\"", md5.Sum([]byte(at)), info.ModTime().UnixNano())
}

func (b *Bucket) put(w http.ResponseWriter, r *http.Request, at string) error {
	from, sum, err := b.receive(r, b.parts())
	if err != nil {
		return err
	}
	defer os.Remove(from)
	if err := b.place(from, at, r.Header.Get("If-None-Match") == "*"); err != nil {
		return err
	}
	w.Header().Set("ETag", `"`+sum+`"`)
	return nil
}

// receive writes a request's body to a new file, and syncs that.
func (b *Bucket) receive(r *http.Request, dir string) (name, sum string, err error) {
	if r.ContentLength > maxObject {
		return "", "", fail(http.StatusBadRequest, "EntityTooLarge", "an object has at most 5 GiB")
	}
	body := io.LimitReader(r.Body, maxObject)
	if strings.HasPrefix(r.Header.Get("X-Amz-Content-Sha256"), "STREAMING-") {
		body = &chunked{r: bufio.NewReader(body)}
	}
	f, err := os.CreateTemp(dir, "in-")
	if err != nil {
		return "", "", err
	}
	h := md5.New() //nolint:gosec // see above
	n, err := io.Copy(io.MultiWriter(f, h), body)
	if want := r.Header.Get("X-Amz-Decoded-Content-Length"); err == nil && want != "" && want != strconv.FormatInt(n, 10) {
		err = fail(http.StatusBadRequest, "IncompleteBody", "the body broke off")
	}
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return "", "", errors.Join(err, os.Remove(f.Name()))
	}
	return f.Name(), hex.EncodeToString(h.Sum(nil)), nil
}

// place puts a file into an object's place. first says that there must be none.
func (b *Bucket) place(from, at string, first bool) error {
	b.making.Lock()
	defer b.making.Unlock()
	if _, err := os.Stat(at); first && err == nil {
		return fail(http.StatusPreconditionFailed, "PreconditionFailed", "the object is there already")
	}
	if err := os.MkdirAll(filepath.Dir(at), 0o700); err != nil {
		return err
	}
	if err := os.Rename(from, at); err != nil {
		return err
	}
	d, err := os.Open(filepath.Dir(at))
	if err != nil {
		return err
	}
	_ = d.Sync() // not every system can
	return d.Close()
}

// chunked reads a body that is signed in pieces: each is its length in hexadecimal, a signature, a line's end, the bytes, a line's end.
type chunked struct {
	r    *bufio.Reader
	left int64
	end  bool
}

func (c *chunked) Read(p []byte) (int, error) {
	if c.end {
		return 0, io.EOF
	}
	if c.left == 0 {
		line, err := c.r.ReadString('\n')
		if err != nil {
			return 0, io.ErrUnexpectedEOF
		}
		word, _, _ := strings.Cut(strings.TrimSpace(line), ";")
		if c.left, err = strconv.ParseInt(word, 16, 64); err != nil || c.left < 0 {
			return 0, fail(http.StatusBadRequest, "InvalidRequest", "a piece of the body has no length")
		}
		if c.left == 0 {
			c.end = true
			return 0, io.EOF
		}
	}
	n, err := c.r.Read(p[:min(int64(len(p)), c.left)])
	if c.left -= int64(n); c.left == 0 && err == nil {
		_, err = c.r.ReadString('\n')
	}
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

// listed is an object in a listing.
type listed struct {
	Key          string
	LastModified string
	ETag         string
	Size         int64
}

// list names the objects after one whose names begin with prefix.
func (b *Bucket) list(w http.ResponseWriter, prefix, after string) error {
	out := struct {
		XMLName               xml.Name `xml:"ListBucketResult"`
		Name, Prefix          string
		KeyCount, MaxKeys     int
		IsTruncated           bool
		NextContinuationToken string `xml:",omitempty"`
		Contents              []listed
	}{Name: b.name, Prefix: prefix, MaxKeys: maxList}
	err := filepath.WalkDir(b.objects(), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return ignoreGone(err)
		}
		rel, err := filepath.Rel(b.objects(), path)
		if key := filepath.ToSlash(rel); err == nil && strings.HasPrefix(key, prefix) && key > after {
			info, err := d.Info()
			if err != nil {
				return ignoreGone(err)
			}
			out.Contents = append(out.Contents, listed{key, info.ModTime().UTC().Format("2006-01-02T15:04:05.000Z"), tag(path, info), info.Size()})
		}
		return err
	})
	if err != nil {
		return err
	}
	slices.SortFunc(out.Contents, func(a, b listed) int { return strings.Compare(a.Key, b.Key) })
	if len(out.Contents) > maxList {
		out.Contents, out.IsTruncated = out.Contents[:maxList], true
		out.NextContinuationToken = out.Contents[maxList-1].Key
	}
	out.KeyCount = len(out.Contents)
	return answer(w, out)
}

func ignoreGone(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

func answer(w http.ResponseWriter, v any) error {
	var body bytes.Buffer
	body.WriteString(xml.Header)
	if err := xml.NewEncoder(&body).Encode(v); err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/xml")
	_, _ = w.Write(body.Bytes()) // the client may be gone
	return nil
}
