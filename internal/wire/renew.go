package wire

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"shoal/internal/again"
	"shoal/internal/member"
)

const renewGap = 30 * time.Second // between renewals that others' words cause

// renewLook is the time between two looks whether a certificate is to be renewed. A timer does not run while a computer sleeps, and knows of no clock that is set.
var renewLook = 10 * time.Second

// renewals is the pace at which a renewal that failed is tried again. A peer that comes home tries at once.
var renewals = again.Bounds{First: 5 * time.Second, Last: 10 * time.Minute}

// renewing is what the way home knows of the renewal.
type renewing struct {
	soon func() // has the renewal tried

	mu     sync.Mutex // guards all below
	failed error      // the last renewal; nil: it went well, or there was none
}

func (r *renewing) ended(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failed = err
}

// overdue has a renewal tried that failed: a server is here again.
func (r *renewing) overdue() {
	r.mu.Lock()
	failed := r.failed
	r.mu.Unlock()
	if failed != nil && !isStatus(failed) {
		r.soon()
	}
}

// errNoCertificate tells that renewing goes before coming home.
var errNoCertificate = errors.New("wire: the certificate has ended, and no manager has answered yet")

// now has the renewal tried for the way home, unless a manager has answered it with a refusal: then it keeps its own pace.
func (r *renewing) now() error {
	r.mu.Lock()
	failed := r.failed
	r.mu.Unlock()
	if failed != nil && isStatus(failed) {
		return failed
	}
	r.soon()
	if failed == nil {
		return errNoCertificate
	}
	return failed
}

// keepRenewed renews the certificate in time, until ctx ends.
func (j *joiner) keepRenewed(ctx context.Context) {
	pace := again.Every(renewals)
	var last time.Time
	var retry time.Time // when a renewal that failed is tried again; zero: there is no need
	early := j.untilRenewal(rand.Float64())
	for {
		until := early
		if !retry.IsZero() {
			until = func() time.Duration { return time.Until(retry) }
		}
		asked, err := j.renewalDue(ctx, until)
		if err != nil {
			return
		}
		if !j.Joined() && j.issuer.Load() == nil || asked && j.valid() && retry.IsZero() && time.Since(last) < renewGap {
			continue
		}
		err = j.renewOrJoin(ctx)
		if ctx.Err() != nil {
			return
		}
		j.renewing.ended(err)
		if err == nil {
			pace.Reset()
			retry, last = time.Time{}, time.Now()
			if early() <= 0 { // it is good for nothing, as where two managers' clocks disagree
				retry = last.Add(renewGap)
			}
			j.log.Info("membership renewed", "until", j.notAfter())
			poke(j.reach.lost) // the way home may be open now
			continue
		}
		wait := pace.Next()
		retry = time.Now().Add(wait)
		j.log.Warn("membership not renewed", "err", err, "valid_until", j.notAfter(), "again_in", wait)
	}
}

// renewalDue waits until the time has come or a caller asks.
func (j *joiner) renewalDue(ctx context.Context, until func() time.Duration) (asked bool, err error) {
	for wait := until(); ; {
		timer := time.NewTimer(min(wait, renewLook))
		select {
		case <-ctx.Done():
			timer.Stop()
			return false, ctx.Err()
		case <-timer.C:
		case <-j.renew:
			timer.Stop()
			return true, ctx.Err()
		}
		if wait = until(); wait <= 0 {
			return false, nil
		}
	}
}

// renewOrJoin joins anew where renewing cannot help: after the grace, or when the key that certified us is not trusted any more.
func (j *joiner) renewOrJoin(ctx context.Context) error {
	err := j.Renew(ctx)
	k := j.Kept()
	if err == nil || k.Join == "" || !errors.Is(err, Outdated) {
		return err
	}
	s, jerr := member.ParseJoinString(k.Join)
	if jerr != nil {
		return errors.Join(err, jerr)
	}
	return j.Join(ctx, s, k.Account)
}

// untilRenewal tells how long the certificate is to live on, until some share of a part of its life has passed, so that a network's members do not all come at once.
func (j *joiner) untilRenewal(share float64) func() time.Duration {
	return func() time.Duration {
		c, err := member.ReadCertificate(j.Certificate())
		if err != nil {
			return renewLook // until it has joined
		}
		if c.NotBefore.After(j.Now().Add(member.Skew)) { // given while a clock was ahead that is right now
			return 0
		}
		life := c.NotAfter.Sub(c.NotBefore)
		return max(0, c.NotBefore.Add(life*2/3+time.Duration(share*float64(life/12))).Sub(j.Now()))
	}
}

// notAfter is the end of the certificate that the node holds; zero: none.
func (j *joiner) notAfter() time.Time {
	c, _ := member.ReadCertificate(j.Certificate())
	return c.NotAfter
}
