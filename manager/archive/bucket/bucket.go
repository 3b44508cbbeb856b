// Package bucket is a bucket of an S3-compatible object store, as the archive uses it: objects that are written once under a name of their own,
// read in ranges, listed and removed. It is not for what the objects mean.
//
// Invariants: a request has a bound in time, its repetitions included; an object is there whole or not at all; a bucket belongs to the network
// that opened it first. Errors name what is wrong and what to do, and never a secret.
package bucket

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
	"github.com/minio/minio-go/v7/pkg/s3utils"
)

// Errors of a bucket.
var (
	ErrURL          = errors.New("bucket: the bucket's URL cannot be used")
	ErrUnreachable  = errors.New("bucket: the object store cannot be reached")
	ErrRefused      = errors.New("bucket: the object store refuses this key")
	ErrRights       = errors.New("bucket: the key lacks a right")
	ErrNone         = errors.New("bucket: there is no such bucket")
	ErrOtherNetwork = errors.New("bucket: the bucket belongs to another network")
	ErrNoObject     = errors.New("bucket: there is no such object")
	ErrRange        = errors.New("bucket: the object ends before what is read of it begins")
)

// Config of a bucket.
type Config struct {
	// URL says where it is: s3://KEY:SECRET@host:port/bucket/prefix. Without a key, the environment's is used (AWS_ACCESS_KEY_ID and
	// AWS_SECRET_ACCESS_KEY), else the machine's own role. Parameters: region=NAME, tls=off, and ca=FILE with the authority to trust.
	URL string
	// Network is the network's root public key. A bucket, or its prefix, belongs to the network that opened it first. Zero: any network.
	Network [32]byte
	// Patience bounds a request, with its repetitions; a large object gets more. Default one minute.
	Patience time.Duration
}

const form = "s3://KEY:SECRET@host:port/bucket; within KEY and SECRET, / is written %2F, # %23 and ? %3F"

// Bucket is an open bucket. Its methods may be called by several goroutines.
type Bucket struct {
	cfg    Config
	core   minio.Core
	name   string
	prefix string // of all objects; ends with a slash unless empty
	where  string // for messages: no secret
}

// Open finds the bucket, checks what its key may do, and that it belongs to the network.
func Open(ctx context.Context, cfg Config) (*Bucket, error) {
	b, err := look(ctx, cfg)
	if err != nil {
		return nil, err
	}
	return b, b.claim(ctx)
}

// Look does what Open does, but claims nothing: it is for who wants to know whether Open will do.
func Look(ctx context.Context, cfg Config) error {
	_, err := look(ctx, cfg)
	return err
}

// OpenToRead opens a bucket in which nothing is to be changed. It asks nothing of the store.
func OpenToRead(cfg Config) (*Bucket, error) { return parse(cfg) }

// look finds the bucket. What its key may do is tried last: nothing is written, not for a moment, into one that belongs to another network.
func look(ctx context.Context, cfg Config) (*Bucket, error) {
	b, err := parse(cfg)
	if err != nil {
		return nil, err
	}
	enough := errors.New("enough")
	if err := b.List(ctx, "", func(Object) error { return enough }); err != nil && !errors.Is(err, enough) {
		return nil, err
	}
	if cfg.Network != ([32]byte{}) {
		said, err := b.read(ctx, marker)
		if err == nil {
			err = b.belongs(said, cfg.Network)
		}
		if err != nil && !errors.Is(err, ErrNoObject) {
			return nil, err
		}
	}
	return b, b.check(ctx)
}

// parse reads the URL.
func parse(cfg Config) (*Bucket, error) {
	if cfg.Patience <= 0 {
		cfg.Patience = time.Minute
	}
	u, err := url.Parse(cfg.URL)
	if err != nil || u.Scheme != "s3" || u.Host == "" {
		return nil, fmt.Errorf("%w: it has the form %s", ErrURL, form)
	}
	name, prefix, _ := strings.Cut(strings.Trim(u.Path, "/"), "/")
	if name == "" {
		return nil, fmt.Errorf("%w: %s names no bucket: it has the form %s", ErrURL, u.Redacted(), form)
	}
	if err := s3utils.CheckValidBucketName(name); err != nil {
		return nil, fmt.Errorf("%w: no bucket can have the name %s (%w): correct --bucket", ErrURL, name, err)
	}
	if prefix != "" {
		prefix += "/"
	}
	b := &Bucket{cfg: cfg, name: name, prefix: prefix, where: fmt.Sprintf("s3://%s/%s", u.Host, strings.Trim(u.Path, "/"))}
	region := cmp.Or(s3utils.GetRegionFromURL(url.URL{Host: u.Host}), "us-east-1") // else the client asks another host of Amazon's than the URL names
	o := &minio.Options{Creds: keys(u), Secure: true, Region: region, MaxRetries: tries}
	roots, err := b.parameters(u.Query(), o)
	if err != nil {
		return nil, err
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.DisableCompression = true
	transport.ResponseHeaderTimeout = cfg.Patience
	transport.MaxIdleConnsPerHost = 16
	if roots != nil {
		transport.TLSClientConfig = &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
	}
	o.Transport = bodies{transport}
	c, err := minio.NewCore(u.Host, o)
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrURL, b.where, err)
	}
	b.core = *c
	return b, nil
}

// parameters reads what follows the question mark.
func (b *Bucket) parameters(q url.Values, o *minio.Options) (roots *x509.CertPool, err error) {
	for name := range q {
		value := q.Get(name)
		switch {
		case name == "region":
			o.Region = value
		case name == "tls" && value == "off":
			o.Secure = false
		case name == "ca":
			pem, err := os.ReadFile(value)
			if err != nil {
				return nil, fmt.Errorf("%w: %s: ca=%s: %w", ErrURL, b.where, value, err)
			}
			if roots = x509.NewCertPool(); !roots.AppendCertsFromPEM(pem) {
				return nil, fmt.Errorf("%w: %s: ca=%s holds no certificate in PEM form", ErrURL, b.where, value)
			}
		default:
			return nil, fmt.Errorf("%w: %s: parameter %s=%s is not known: region=NAME, tls=off and ca=FILE are", ErrURL, b.where, name, value)
		}
	}
	return roots, nil
}

// keys are those of the URL, else the environment's, else the machine's role.
func keys(u *url.URL) *credentials.Credentials {
	if u.User != nil {
		secret, _ := u.User.Password()
		return credentials.NewStaticV4(u.User.Username(), secret, "")
	}
	return credentials.NewChainCredentials([]credentials.Provider{&credentials.EnvAWS{}, &credentials.FileAWSCredentials{}, &credentials.IAM{}})
}

// tries is how often a request is sent. The client would send it ten times, silently.
const tries = 3

// What check writes for a moment.
const (
	probes   = "probe-" // begins the names
	probe    = "Shoal tries whether it may write.\n"
	probeOld = time.Hour // so old it is of a program that ended in the middle
)

// check tries what the archive will do beside listing, so that a missing right is found before anything depends on it.
func (b *Bucket) check(ctx context.Context) error {
	name := probes + random()
	if err := b.Put(ctx, name, []byte(probe)); err != nil {
		return err
	}
	in, err := b.Get(ctx, name, 0, 5)
	if err == nil {
		err = in.Close()
	}
	if err := errors.Join(err, b.Remove(context.WithoutCancel(ctx), name)); err != nil {
		return err
	}
	return b.sweep(ctx)
}

// sweep removes what checks have left that were broken off.
func (b *Bucket) sweep(ctx context.Context) error {
	return b.List(ctx, probes, func(o Object) error {
		if len(o.Name) != len(probes)+len(random()) || o.Size != int64(len(probe)) || time.Since(o.At) < probeOld {
			return nil
		}
		return b.Remove(ctx, o.Name)
	})
}

func random() string {
	var r [8]byte
	rand.Read(r[:])
	return hex.EncodeToString(r[:])
}

// marker is the object that names the network.
const marker = "shoal-network"

// claim notes the network that the bucket belongs to, or refuses another's.
func (b *Bucket) claim(ctx context.Context) error {
	if b.cfg.Network == ([32]byte{}) {
		return nil
	}
	own := hex.EncodeToString(b.cfg.Network[:])
	said, err := b.read(ctx, marker)
	if errors.Is(err, ErrNoObject) {
		o := minio.PutObjectOptions{DisableMultipart: true}
		o.SetMatchETagExcept("*") // who is first wins
		_, err = b.core.Client.PutObject(ctx, b.name, b.prefix+marker, strings.NewReader(own+"\n"), int64(len(own)+1), o)
		if err != nil && minio.ToErrorResponse(err).Code != "PreconditionFailed" {
			return b.explain("write to it", err)
		}
		said, err = b.read(ctx, marker)
	}
	if err != nil {
		return err
	}
	return b.belongs(said, b.cfg.Network)
}

// belongs compares what the marker says with a network.
func (b *Bucket) belongs(said string, network [32]byte) error {
	own := hex.EncodeToString(network[:])
	if is := strings.TrimSpace(said); is != own {
		return fmt.Errorf("%w: %s is of network %.16s, this manager's is %.16s: choose another bucket, or a prefix behind its name, or restore the key that belongs to it", ErrOtherNetwork, b.where, is, own)
	}
	return nil
}

func (b *Bucket) read(ctx context.Context, name string) (string, error) {
	in, err := b.Get(ctx, name, 0, -1)
	if err != nil {
		return "", err
	}
	text, err := io.ReadAll(io.LimitReader(in, 1<<10))
	return string(text), errors.Join(err, in.Close())
}

// Put writes an object.
func (b *Bucket) Put(ctx context.Context, name string, body []byte) error {
	return b.PutFrom(ctx, name, bytes.NewReader(body), int64(len(body)))
}

// slowest is the least bytes a second at which an object's time is reckoned.
const slowest = 1 << 20

// partSize is what is held in memory of an object of unknown size.
const partSize = 16 << 20

// PutFrom writes an object of any size; negative: it is not known. Above 64 MiB it is sent in parts, and there when all are.
func (b *Bucket) PutFrom(ctx context.Context, name string, from io.Reader, size int64) error {
	var cancel context.CancelFunc = func() {}
	if size >= 0 {
		ctx, cancel = context.WithTimeout(ctx, b.cfg.Patience+time.Duration(size/slowest)*time.Second)
	}
	defer cancel()
	o := minio.PutObjectOptions{SendContentMd5: true, ContentType: "application/octet-stream"}
	if size < 0 || size > 4*partSize {
		o.PartSize = partSize
		for size/int64(o.PartSize) > 9000 {
			o.PartSize *= 2
		}
	} else {
		o.DisableMultipart = true
	}
	if _, err := b.core.Client.PutObject(ctx, b.name, b.prefix+name, from, size, o); err != nil {
		return b.explain("write to it", err)
	}
	return nil
}

// Get reads an object from an offset on, length bytes of it; negative: to its end. The caller closes it.
func (b *Bucket) Get(ctx context.Context, name string, offset, length int64) (io.ReadCloser, error) {
	var o minio.GetObjectOptions
	var err error
	switch {
	case length >= 0:
		err = o.SetRange(offset, offset+max(length, 1)-1)
	case offset > 0:
		err = o.SetRange(offset, 0)
	}
	if err != nil {
		return nil, fmt.Errorf("bucket: %s from %d: %w", name, offset, err)
	}
	bound := b.cfg.Patience
	if length > 0 {
		bound += time.Duration(length/slowest) * time.Second
	} else {
		bound += time.Hour
	}
	ctx, cancel := context.WithTimeout(ctx, bound)
	body, _, _, err := b.core.GetObject(ctx, b.name, b.prefix+name, o)
	if err != nil {
		cancel()
		return nil, b.explain("read "+name, err)
	}
	return &reading{body, b, name, cancel}, nil
}

// reading explains what goes wrong on the way.
type reading struct {
	io.ReadCloser
	b      *Bucket
	name   string
	cancel context.CancelFunc
}

func (r *reading) Read(p []byte) (int, error) {
	n, err := r.ReadCloser.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = r.b.explain("read "+r.name, err)
	}
	return n, err
}

func (r *reading) Close() error {
	defer r.cancel()
	return r.ReadCloser.Close()
}

// Object is what a listing tells.
type Object struct {
	Name string
	Size int64
	At   time.Time // when it was written
}

// List calls do for each object whose name begins with prefix, in their order.
func (b *Bucket) List(ctx context.Context, prefix string, do func(Object) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for o := range b.core.ListObjectsIter(ctx, b.name, minio.ListObjectsOptions{Prefix: b.prefix + prefix, Recursive: true}) {
		if o.Err != nil {
			return b.explain("list its objects", o.Err)
		}
		if err := do(Object{strings.TrimPrefix(o.Key, b.prefix), o.Size, o.LastModified}); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// Size is how long an object is. It is sure where a listing may lag behind.
func (b *Bucket) Size(ctx context.Context, name string) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, b.cfg.Patience)
	defer cancel()
	o, err := b.core.StatObject(ctx, b.name, b.prefix+name, minio.StatObjectOptions{})
	if err != nil {
		return 0, b.explain("read "+name, err)
	}
	return o.Size, nil
}

// Remove removes an object. It is no error if it is gone already.
func (b *Bucket) Remove(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(ctx, b.cfg.Patience)
	defer cancel()
	err := b.core.RemoveObject(ctx, b.name, b.prefix+name, minio.RemoveObjectOptions{})
	if err = b.explain("remove objects from it", err); errors.Is(err, ErrNoObject) {
		return nil
	}
	return err
}

// explain says what happened and what to do.
func (b *Bucket) explain(what string, err error) error {
	if err == nil || errors.Is(err, context.Canceled) {
		return err
	}
	var said minio.ErrorResponse
	if errors.As(err, &said) && said.Code != "" {
		return b.explainAnswer(what, said)
	}
	var cert *tls.CertificateVerificationError
	var unknown x509.UnknownAuthorityError
	var record tls.RecordHeaderError
	var network net.Error
	switch {
	case errors.As(err, &cert), errors.As(err, &unknown):
		return fmt.Errorf("%w: TLS with %s failed: give the store's authority with ca=FILE in the URL (%w)", ErrUnreachable, b.where, err)
	case errors.As(err, &record), strings.Contains(err.Error(), "server gave HTTP response to HTTPS client"):
		return fmt.Errorf("%w: %s does not speak TLS: add tls=off to the URL, on a network of your own (%w)", ErrUnreachable, b.where, err)
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &network) && network.Timeout():
		return fmt.Errorf("%w: %s does not answer in time: look at the store, and at the network between (%w)", ErrUnreachable, b.where, err)
	case errors.As(err, &network), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		return fmt.Errorf("%w: no object store answers at %s: start it, or correct --bucket (%w)", ErrUnreachable, b.where, err)
	}
	return fmt.Errorf("bucket: %s: %s: %w", what, b.where, err)
}

func (b *Bucket) explainAnswer(what string, said minio.ErrorResponse) error {
	switch said.Code {
	case minio.NoSuchBucket:
		return fmt.Errorf("%w: %s: create it, or correct --bucket", ErrNone, b.where)
	case minio.NoSuchKey:
		return fmt.Errorf("%w: %s in %s", ErrNoObject, strings.TrimPrefix(said.Key, b.prefix), b.where)
	case "InvalidAccessKeyId", "SignatureDoesNotMatch", "InvalidToken", "ExpiredToken", "InvalidTokenId":
		return b.refused(said)
	case minio.AccessDenied:
		return fmt.Errorf("%w: it may not %s, at %s: an administrator grants s3:ListBucket, s3:GetObject, s3:PutObject and s3:DeleteObject (%s)", ErrRights, what, b.where, said.Message)
	case "PermanentRedirect", "AuthorizationHeaderMalformed", minio.InvalidRegion, "IllegalLocationConstraintException":
		return fmt.Errorf("%w: %s: the bucket is in another region: add region=%s to the URL, behind a question mark (%s)", ErrURL, b.where, cmp.Or(said.Region, "NAME"), said.Message)
	case "RequestTimeTooSkewed":
		return fmt.Errorf("%w: %s: the clocks of this machine and of the store differ: set them, run NTP (%s)", ErrRefused, b.where, said.Message)
	}
	if said.StatusCode == http.StatusRequestedRangeNotSatisfiable {
		return fmt.Errorf("%w: %s, at %s", ErrRange, what, b.where)
	}
	if said.StatusCode == http.StatusUnauthorized || said.StatusCode == http.StatusForbidden || strings.HasSuffix(said.Code, "UserNotFound") {
		return b.refused(said)
	}
	if said.StatusCode >= 500 || said.StatusCode == http.StatusTooManyRequests {
		return fmt.Errorf("%w: %s answers %d %s: try again when it is well", ErrUnreachable, b.where, said.StatusCode, said.Code)
	}
	return fmt.Errorf("bucket: %s: %s: %w", what, b.where, said)
}

func (b *Bucket) refused(said minio.ErrorResponse) error {
	return fmt.Errorf("%w: %s: correct the key and the secret in the URL, or in the environment (%s)", ErrRefused, b.where, said.Message)
}
