package judge

import (
	"context"
	"errors"
	"net/url"
	"slices"
	"time"
)

// shown is what the pond says that a page shows at a moment.
type shown struct {
	Host   int    `json:"host"`
	Page   int    `json:"page"`
	SHA256 string `json:"sha256"`
}

// wasServed checks that each version in the index was served then. Each answer of the pond accounts for one capture, since each capture is a fetch. It returns the
// captures of the pond's pages.
func (j *Judge) wasServed(ctx context.Context, all []capture) (fromPond, error) {
	of, byURL := fromPond{}, map[string][]capture{}
	for _, c := range all {
		if c.Status == 200 && !j.misbehaves(c.URL) {
			byURL[c.URL] = append(byURL[c.URL], c)
		}
	}
	for u, stored := range byURL {
		slices.SortStableFunc(stored, func(a, b capture) int { return a.at.Compare(b.at) })
		captures, err := j.honest(ctx, u, stored)
		if err != nil {
			return nil, err
		}
		now, err := j.shows(ctx, u, time.Now())
		if errors.Is(err, errNone) {
			if p, err := url.Parse(u); err != nil || !j.beside(p) {
				j.breach(Unserved, "the archive has %s, which the pond does not have", u)
			}
			continue
		}
		if err != nil {
			return nil, err
		}
		of[u] = &kept{pageKey{now.Host, now.Page}, stored}
		answers := j.answers[of[u].page]
		digests, err := j.digests(ctx, u, answers)
		if err != nil {
			return nil, err
		}
		j.match(u, captures, answers, digests)
	}
	return of, nil
}

// honest judges the captures of a page that members delivered who lie, and returns the others. Such a member does not fetch from this pond: what it delivered is
// held against what the page showed then.
func (j *Judge) honest(ctx context.Context, u string, captures []capture) (others []capture, err error) {
	for _, c := range captures {
		switch {
		case !c.lie:
			others = append(others, c)
		case j.taken && c.State != withdrawn:
			j.breach(Believed, "the archive has %s of %s as %s by %s, who lies, after all of that was taken back", u, c.at.Format(time.RFC3339), c.State, c.Deliverer)
		case c.State == verified:
			shown, err := j.showed(ctx, u, c)
			if err != nil {
				return nil, err
			}
			if !shown {
				j.breach(Believed, "the archive has %s of %s with digest %s by %s, who lies, as verified; the pond did not show that", u, c.at.Format(time.RFC3339), c.Digest, c.Deliverer)
			}
		}
	}
	return others, nil
}

// showed reports whether a page ever showed what a capture has, when it may have been fetched or when somebody else fetched the page.
func (j *Judge) showed(ctx context.Context, u string, c capture) (bool, error) {
	var times []time.Time
	for _, at := range j.could(c.at) {
		times = append(times, at, at.Add(time.Second)) // the index cuts to seconds
	}
	for n := 0; n < len(times); n++ {
		s, err := j.shows(ctx, u, times[n])
		if errors.Is(err, errNone) {
			return false, nil
		}
		if err != nil || "sha256:"+s.SHA256 == c.Digest {
			return err == nil, err
		}
		if n == 0 {
			for _, a := range j.answers[pageKey{s.Host, s.Page}] {
				times = append(times, a.When)
			}
		}
	}
	return false, nil
}

func (j *Judge) misbehaves(rawURL string) bool {
	u, err := url.Parse(rawURL)
	if err != nil {
		return false
	}
	n, ok := j.number[u.Hostname()]
	return ok && j.bad[n] != ""
}

// beside reports whether the pond serves a URL without a line in its log: a file that is no page.
func (j *Judge) beside(u *url.URL) bool {
	_, ok := j.number[u.Hostname()]
	return ok && slices.Contains([]string{"/robots.txt", "/sitemap.xml", "/style.css"}, u.Path)
}

// digests returns the digest of each version among answers to a page.
func (j *Judge) digests(ctx context.Context, u string, answers []answer) (map[uint64]string, error) {
	out := map[uint64]string{}
	for _, a := range answers {
		if _, ok := out[a.Version]; ok {
			continue
		}
		s, err := j.shows(ctx, u, a.When)
		if err != nil {
			return nil, err
		}
		out[a.Version] = "sha256:" + s.SHA256
	}
	return out, nil
}

// match gives each capture, in the order of their times, the earliest answer that is left, has its content and is near enough in time.
func (j *Judge) match(u string, captures []capture, answers []answer, digests map[uint64]string) {
	used := make([]bool, len(answers))
	for _, c := range captures {
		i := 0
		for ; i < len(answers); i++ {
			a := answers[i]
			if !used[i] && digests[a.Version] == c.Digest && j.mayMean(c.at, a.When) {
				break
			}
		}
		if i == len(answers) {
			j.breach(Unserved, "the archive has %s of %s with digest %s; the pond served no such thing to a fetch of its own within %v", u, c.at.Format(time.RFC3339), c.Digest, j.cfg.Slack)
			continue
		}
		used[i] = true
	}
}
