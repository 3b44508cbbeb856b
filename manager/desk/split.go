package desk

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"sort"
	"strings"

	"shoal/channel"
)

// Index is what a split needs of the archive.
type Index interface {
	// EachURL calls do for each stored URL that begins with rawURL, until it has looked at most captures. A URL may come more than once.
	EachURL(ctx context.Context, rawURL string, most int, do func(url string)) error
}

// DirCount is a directory and the pages that the archive has of it.
type DirCount struct {
	Dir   string `json:"dir"`
	Pages int    `json:"pages"`
}

// What is proposed.
const (
	SplitLeast = 20        // pages that make a directory worth a channel of its own
	SplitShare = .02       // and at least this share of the channel's
	splitMost  = 48        // directories proposed at a time; each takes an exclude pattern
	splitLines = 2_000_000 // captures looked at
)

// Proposals are the directories of a channel that are large enough to be channels of their own, largest first, and how many pages the
// channel has.
func (d *Desk) Proposals(ctx context.Context, id channel.ID) ([]DirCount, int, error) {
	ch, err := d.store.Channel(ctx, id)
	if err != nil {
		return nil, 0, err
	}
	ix, ok := d.files.(Index)
	if !ok {
		return nil, 0, fmt.Errorf("what the archive has of channel %d: no archive at hand: %w", id, ErrStopped)
	}
	m, err := ch.Scope.Compile()
	if err != nil {
		return nil, 0, err
	}
	dirs := ch.Scope.Dirs
	if len(dirs) == 0 {
		dirs = []string{"/"}
	}
	counts, all := map[string]int{}, 0
	for _, base := range dirs {
		if err := ix.EachURL(ctx, ch.Scope.Host+base, splitLines, func(u string) {
			if !m.Contains(u) {
				return
			}
			all++
			if ch.Scope.Kind == channel.Directories {
				counts[base]++
			} else if below, ok := subdir(channel.Respell(strings.TrimPrefix(u, ch.Scope.Host)), channel.Respell(base)); ok {
				counts[below]++
			}
		}); err != nil {
			return nil, 0, err
		}
	}
	var out []DirCount
	for dir, n := range counts {
		if n >= SplitLeast && float64(n) >= SplitShare*float64(all) {
			out = append(out, DirCount{dir, n})
		}
	}
	sort.Slice(out, func(i, j int) bool {
		if out[i].Pages != out[j].Pages {
			return out[i].Pages > out[j].Pages
		}
		return out[i].Dir < out[j].Dir
	})
	return out[:min(len(out), splitMost)], all, nil
}

// subdir is the directory just below base that a path lies in.
func subdir(path, base string) (string, bool) {
	path, _, _ = strings.Cut(path, "?")
	rest, ok := strings.CutPrefix(path, base)
	if !ok {
		return "", false
	}
	name, _, deeper := strings.Cut(rest, "/")
	return base + name + "/", deeper && name != ""
}

// Split makes directories of a channel channels of their own, with its settings, and paused if it is; the channel keeps the rest. No directories: those
// that Proposals names.
func (d *Desk) Split(ctx context.Context, id channel.ID, dirs []string) ([]channel.ID, []string, error) {
	ch, err := d.store.Channel(ctx, id)
	if err != nil {
		return nil, nil, err
	}
	if len(dirs) == 0 {
		proposed, all, err := d.Proposals(ctx, id)
		if err != nil {
			return nil, nil, err
		}
		for _, p := range proposed {
			dirs = append(dirs, p.Dir)
		}
		if ch.Scope.Kind == channel.Directories && len(dirs) == len(ch.Scope.Dirs) && len(dirs) > 0 {
			dirs = dirs[:len(dirs)-1] // the smallest one stays
		}
		if len(dirs) == 0 {
			return nil, nil, fmt.Errorf("%w: none of the directories of channel %d is large enough among the %d pages stored; name some yourself", ErrAsk, id, all)
		}
	}
	rest, parts, err := partition(&ch, dirs)
	if err != nil {
		return nil, nil, err
	}
	if err := somethingNew(ctx, d, &ch, &rest.Scope, parts); err != nil {
		return nil, nil, err
	}
	if err := nobodyHas(ctx, d, &ch, &rest.Scope); err != nil {
		return nil, nil, err
	}
	// First the new ones: if this ends in between, some pages have two channels, and none is without.
	ctx, finished := d.finish(ctx)
	defer finished()
	done, err := d.Import(ctx, channel.Lines(parts))
	if err != nil {
		return nil, nil, err
	}
	if _, err := d.Edit(ctx, id, func(c *channel.Channel) error { c.Scope, c.Seeds = rest.Scope, rest.Seeds; return nil }); err != nil {
		return nil, nil, err
	}
	var ids []channel.ID
	for i := range parts {
		got, err := d.store.Lookup(ctx, parts[i].Scope.Host+parts[i].Scope.Dirs[0])
		if err != nil {
			continue
		}
		ids = append(ids, got)
		if err := hand(ctx, d, id, got, &parts[i].Scope); err != nil {
			return ids, dirs, err
		}
	}
	if done.Duplicates > 0 && len(ids) == 0 {
		return nil, nil, fmt.Errorf("%w: all of these directories have channels already", ErrAsk)
	}
	return ids, dirs, nil
}

// somethingNew refuses a split that was made before: each of the directories is a channel, and the channel leaves them out.
func somethingNew(ctx context.Context, d *Desk, ch *channel.Channel, rest *channel.Scope, parts []channel.Channel) error {
	added := slices.ContainsFunc(rest.Exclude, func(p string) bool { return !slices.Contains(ch.Scope.Exclude, p) })
	if added || len(rest.Dirs) != len(ch.Scope.Dirs) {
		return nil
	}
	for i := range parts {
		if _, err := d.store.Lookup(ctx, parts[i].Scope.Host+parts[i].Scope.Dirs[0]); err != nil {
			return nil // what the channel leaves out may become another one
		}
	}
	return fmt.Errorf("%w: channel %d leaves these directories out, and they are channels already: shoal channel list %s shows them", ErrAsk, ch.ID, ch.Scope.Host)
}

// nobodyHas refuses a split after which a channel would reach just what another one does.
func nobodyHas(ctx context.Context, d *Desk, ch *channel.Channel, rest *channel.Scope) error {
	reach := rest.Reach()
	if reach == ch.Scope.Reach() {
		return nil
	}
	hosts, err := channel.ParseHosts(rest.Host)
	if err != nil {
		return err
	}
	var by channel.ID
	if err := d.channelsOf(ctx, hosts, func(c *channel.Channel) {
		if c.ID != ch.ID && c.Scope.Reach() == reach {
			by = c.ID
		}
	}); err != nil || by == 0 {
		return err
	}
	return fmt.Errorf("%w: what would be left of channel %d, %s, is channel %d already; remove that one first, or split %[2]d otherwise", ErrAsk, ch.ID, strings.Join(rest.Dirs, " "), by)
}

// Mover is what a split would like of the archive.
type Mover interface {
	// Move makes pages of one channel another's, which knows them then.
	Move(ctx context.Context, from, to channel.ID, scope *channel.Matcher) (pages int, err error)
}

// hand makes the pages of a scope another channel's. Without an archive they are fetched anew.
func hand(ctx context.Context, d *Desk, from, to channel.ID, scope *channel.Scope) error {
	a, ok := d.files.(Mover)
	if !ok || from == to {
		return nil
	}
	m, err := scope.Compile()
	if err != nil {
		return err
	}
	_, err = a.Move(ctx, from, to, m)
	return err
}

// partition is the arithmetic of a split.
func partition(ch *channel.Channel, dirs []string) (rest channel.Channel, parts []channel.Channel, err error) {
	rest = *ch
	rest.Scope.Dirs, rest.Scope.Exclude = slices.Clone(ch.Scope.Dirs), slices.Clone(ch.Scope.Exclude)
	rest.Seeds = nil
	for i, dir := range dirs {
		if slices.ContainsFunc(dirs[:i], sameDir(dir)) {
			return rest, nil, fmt.Errorf("%w: %s is named twice", ErrAsk, dir)
		}
		s := channel.Scope{Kind: channel.Directory, Host: ch.Scope.Host, Dirs: []string{dir}, Filters: ch.Scope.Filters, Exclude: ch.Scope.Exclude, MaxDepth: ch.Scope.MaxDepth}
		if err := s.Validate(); err != nil {
			return rest, nil, err
		}
		if !within(dir, ch.Scope.Dirs) {
			return rest, nil, fmt.Errorf("%w: %s is not below what channel %d reaches", ErrAsk, dir, ch.ID)
		}
		part := channel.Channel{Scope: s, State: channel.Active, Added: ch.Added, Settings: ch.Settings, Seeds: []string{s.Host + dir}}
		if ch.State == channel.Paused {
			part.State, part.Reason = ch.State, ch.Reason
		}
		for _, u := range ch.Seeds {
			if len(part.Seeds) < channel.MaxSeeds && within(strings.TrimPrefix(u, s.Host), s.Dirs) && u != part.Seeds[0] {
				part.Seeds = append(part.Seeds, u)
			}
		}
		parts = append(parts, part)
		if i := slices.IndexFunc(rest.Scope.Dirs, sameDir(dir)); i >= 0 && ch.Scope.Kind == channel.Directories {
			rest.Scope.Dirs = slices.Delete(rest.Scope.Dirs, i, i+1)
			continue
		}
		rest.Scope.Exclude = append(rest.Scope.Exclude, "^"+regexp.QuoteMeta(channel.Respell(s.Host+strings.TrimSuffix(dir, "/")))+"([/?]|$)") // "/a" is of "/a/"
	}
	switch {
	case len(rest.Scope.Exclude) > channel.MaxFilters:
		return rest, nil, fmt.Errorf("%w: %d directories need more than %d exclude patterns: split in two steps", ErrAsk, len(dirs), channel.MaxFilters)
	case ch.Scope.Kind == channel.Directories && len(rest.Scope.Dirs) == 0, len(ch.Scope.Dirs) == 1 && slices.ContainsFunc(dirs, sameDir(ch.Scope.Dirs[0])):
		return rest, nil, fmt.Errorf("%w: nothing would be left of channel %d", ErrAsk, ch.ID)
	case ch.Scope.Kind == channel.Directories && len(rest.Scope.Dirs) == 1:
		rest.Scope.Kind = channel.Directory
	}
	m, err := rest.Scope.Compile()
	if err != nil {
		return rest, nil, err
	}
	for _, u := range ch.Seeds {
		if m.Contains(u) {
			rest.Seeds = append(rest.Seeds, u)
		}
	}
	if len(rest.Seeds) == 0 {
		root := rest.Scope.Host + "/"
		if len(rest.Scope.Dirs) > 0 {
			root = rest.Scope.Host + rest.Scope.Dirs[0]
		}
		rest.Seeds = []string{root}
	}
	return rest, parts, nil
}

// within reports whether a path lies in one of some directories, in whatever spelling.
func within(path string, dirs []string) bool {
	path = channel.Respell(path)
	return len(dirs) == 0 || slices.ContainsFunc(dirs, func(d string) bool { return strings.HasPrefix(path, channel.Respell(d)) })
}

func sameDir(as string) func(string) bool {
	return func(dir string) bool { return channel.Respell(dir) == channel.Respell(as) }
}

// LeftOut is a directory that a channel would crawl but for a pattern of its own, such as a split writes for the channel that it makes of the directory.
type LeftOut struct {
	Dir     string     `json:"dir"`
	Channel channel.ID `json:"channel"`
	Pattern string     `json:"pattern"`
}

// LeftOut are the directories of a channel that are crawled no more once it is removed, as the other channels of its host leave them out.
func (d *Desk) LeftOut(ctx context.Context, id channel.ID) ([]LeftOut, error) {
	ch, err := d.store.Channel(ctx, id)
	if err != nil || len(ch.Scope.Dirs) == 0 {
		return nil, err
	}
	hosts, err := channel.ParseHosts(ch.Scope.Host)
	if err != nil {
		return nil, err
	}
	by, crawled := map[string]LeftOut{}, map[string]bool{}
	if err := d.channelsOf(ctx, hosts, func(c *channel.Channel) {
		if c.ID == id || c.State == channel.Removed {
			return
		}
		for _, dir := range ch.Scope.Dirs {
			if pattern, in := leavesOut(c.Scope, c.Scope.Host+dir); in {
				crawled[dir] = true
			} else if pattern != "" {
				by[dir] = LeftOut{dir, c.ID, pattern}
			}
		}
	}); err != nil {
		return nil, err
	}
	var out []LeftOut
	for _, dir := range ch.Scope.Dirs {
		if l, is := by[dir]; is && !crawled[dir] {
			out = append(out, l)
		}
	}
	return out, nil
}

// leavesOut is the pattern by which a scope excludes a URL that it would contain otherwise; in: it contains it.
func leavesOut(s channel.Scope, url string) (pattern string, in bool) {
	patterns := s.Exclude
	s.Exclude = nil
	if m, err := s.Compile(); err != nil || !m.Contains(url) {
		return "", false
	}
	for _, p := range patterns {
		s.Exclude = []string{p}
		if m, err := s.Compile(); err == nil && !m.Contains(url) {
			return p, false
		}
	}
	return "", true
}
