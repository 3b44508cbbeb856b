package crawl

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"shoal/channel"
	"shoal/peer/crawl/robots"
)

// Bounds of robots.txt beside those of package robots.
const (
	maxRobotsHops = 5              // redirects followed (RFC 9309, section 2.3.1.2)
	robotsLife    = 24 * time.Hour // how long a copy is used (section 2.4)
)

// What a report says of robots.txt.
const (
	robotsAllowed     = "allowed"
	robotsNone        = "none"
	robotsDisallowed  = "disallowed"
	robotsUnreachable = "unreachable"
)

// product is the product token of a User-Agent.
func product(userAgent string) string {
	t, _, _ := strings.Cut(userAgent, "/")
	t, _, _ = strings.Cut(t, " ")
	return strings.ToLower(t)
}

// readRobots fetches robots.txt and decides what it means for the crawl. An outcome other than zero ends the crawl.
func (s *session) readRobots(ctx context.Context) (end channel.Outcome, why string, err error) {
	at := s.cfg.Body.Scope.Host + "/robots.txt"
	for hop := 0; ; hop++ {
		r := s.fetch.get(ctx, item{url: at, hash: urlHash(at), any: true}, s.fetch.fields, robots.MaxBytes+1)
		if err := s.ended(ctx, &r); err != nil {
			return 0, "", err
		}
		s.visited(&r, 0, kindOf(r.err))
		away := s.askedAway(&r)
		switch {
		case r.err != nil && r.status == 0:
			s.report.Robots = robotsUnreachable
			s.count(kindOf(r.err))
			return channel.Failed, fmt.Sprintf("robots.txt cannot be had: %v", r.err), nil
		case r.status >= 300 && r.status < 400:
			to, err := location(&r)
			if err != nil || hop >= maxRobotsHops { // the same as no robots.txt
				s.setRobots(&robots.Rules{}, robotsNone, 0)
				return 0, "", nil
			}
			if why := s.elsewhereRefused(to); why != nil {
				s.report.Robots = robotsUnreachable
				return channel.Refused, fmt.Sprintf("robots.txt is at %s, and %v", channel.Origin(to), why), nil
			}
			at = to
		case away != "":
			s.report.Robots = robotsUnreachable
			s.count(fmt.Sprintf("robots-%d", r.status))
			return channel.HostBlocked, fmt.Sprintf("robots.txt was answered with status %d: %s", r.status, away), nil
		case r.status == http.StatusUnauthorized, r.status == http.StatusForbidden, r.status == http.StatusTooManyRequests:
			s.report.Robots = robotsUnreachable
			s.count(fmt.Sprintf("robots-%d", r.status))
			return channel.HostBlocked, fmt.Sprintf("robots.txt was answered with status %d", r.status), nil
		case r.status >= 500, r.status == http.StatusMisdirectedRequest: // that one says which server was asked, and nothing of the host: its name may lead elsewhere for now
			s.report.Robots = robotsUnreachable
			s.count(fmt.Sprintf("robots-%d", r.status))
			return channel.Failed, fmt.Sprintf("robots.txt was answered with status %d, which forbids the host for now", r.status), nil
		case r.status >= 400:
			s.setRobots(&robots.Rules{}, robotsNone, 0)
			return 0, "", nil
		case r.err != nil && !errors.Is(r.err, errCheck): // what came may lack the rule that matters
			s.report.Robots = robotsUnreachable
			s.count(kindOf(r.err))
			return channel.Failed, fmt.Sprintf("robots.txt broke off: %v", r.err), nil
		default:
			s.setRobots(robots.Parse(r.body, s.product), robotsAllowed, len(r.body))
			return 0, "", nil
		}
	}
}

// elsewhereRefused says why robots.txt is not fetched from where it has moved to: the volunteer has no requests sent there. Nil: it may be.
func (s *session) elsewhereRefused(to string) error {
	if o := channel.Origin(to); s.cfg.Refuse != nil && o != s.cfg.Body.Scope.Host {
		return s.cfg.Refuse(o)
	}
	return nil
}

// recallRobots uses the robots.txt that an earlier crawl has read, unless it is too old.
func (s *session) recallRobots() bool {
	k, ok := s.cfg.Robots.get(s.cfg.Body.Scope.Host, s.product, time.Now())
	if ok {
		s.useRobots(k)
	}
	return ok
}

func (s *session) setRobots(r *robots.Rules, verdict string, bytes int) {
	k := said{r, verdict, s.product, time.Now()}
	s.cfg.Robots.put(s.cfg.Body.Scope.Host, k, bytes)
	s.useRobots(k)
}

func (s *session) useRobots(k said) {
	r := k.rules
	s.robots, s.report.Robots, s.robotsRead = r, k.verdict, k.at
	s.ruleCost = r.Cost()
	s.fetch.pace.more(r.CrawlDelay)
	s.report.Gap = s.fetch.pace.gap
}

// allowed reports whether robots.txt allows a URL of the host.
func (s *session) allowed(u string) bool {
	return s.robots.Allowed(u[len(channel.Origin(u)):])
}
