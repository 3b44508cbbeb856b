package ledger

import (
	"cmp"
	"fmt"
	"slices"

	"shoal/channel"
	"shoal/channel/lease"
	pb "shoal/manager/archive/archivepb"
	"shoal/manager/archive/schema"
)

// resumeSlack is left free in a resume state beside its lists.
const resumeSlack = 1024

// resume gathers from where a crawl goes on: what its chunks added to the to-do list and what is stored, without what they fetched.
func resume(s Snapshot, id channel.ID, from uint64, r lease.Reply) (channel.Resume, error) {
	out := channel.Resume{Seq: r.Seq, Head: r.Head}
	todo, done, err := unfinished(s, id, from, &out)
	if err != nil {
		return channel.Resume{}, fmt.Errorf("resume: %w", err)
	}
	stored, err := storedPages(s, id)
	if err != nil {
		return channel.Resume{}, fmt.Errorf("resume: %w", err)
	}
	out.Frontier = unvisited(append(todo, stored...), done, channel.MaxResume-10*len(out.Done)-resumeSlack)
	return out, nil
}

// unfinished gives the to-do list that the chunks from number from on added, and what they fetched, which it also puts into out. out names the last
// chunk.
func unfinished(s Snapshot, id channel.ID, from uint64, out *channel.Resume) (todo []channel.Frontier, done map[uint64]struct{}, err error) {
	done = map[uint64]struct{}{}
	if max(from, 1) > out.Seq {
		return nil, done, nil // nothing is stored yet of the crawl that begins
	}
	err = s.Scan(schema.Key(schema.Resume, uint64(id)), schema.Key2(schema.Resume, uint64(id), from), true, func(_, value []byte) (bool, error) {
		part, err := parseResume(value)
		if err != nil {
			return false, err
		}
		for _, u := range part.Done {
			if _, ok := done[u]; !ok && len(out.Done) < channel.MaxDone {
				done[u] = struct{}{}
				out.Done = append(out.Done, u)
			}
		}
		todo = append(todo, part.Frontier...)
		return true, nil
	})
	return todo, done, err
}

func parseResume(b []byte) (channel.Resume, error) { return parsePart(b, channel.ParseResume) }

func parseLeads(b []byte) ([]string, error) { return parsePart(b, channel.ParseLeads) }

// parsePart reads what a chunk added to the resume state, or some of it.
func parsePart[T any](b []byte, parse func([]byte) (T, error)) (part T, err error) {
	if len(b) == 0 || b[0] != schema.ValueV1 {
		return part, fmt.Errorf("%w: resume of %d bytes", schema.ErrValue, len(b))
	}
	return parse(b[1:])
}

// leadsOf are the URLs of other sites that the chunks of a crawl found, from the one with number from on up to another one.
func leadsOf(s Snapshot, id channel.ID, from, to uint64) (leads []string, err error) {
	err = s.Scan(schema.Key(schema.Resume, uint64(id)), schema.Key2(schema.Resume, uint64(id), from), true, func(key, value []byte) (bool, error) {
		part, err := parseLeads(value)
		if err != nil {
			return false, err
		}
		leads = append(leads, part...)
		return schema.Number(key, 1) < to, nil
	})
	return leads, err
}

// unvisited are the URLs of a to-do list that are not done, each once, in at most size bytes. What does not fit is found again by links when
// the channel is crawled the next time.
func unvisited(todo []channel.Frontier, done map[uint64]struct{}, size int) (out []channel.Frontier) {
	for _, f := range todo {
		u := channel.URLHash(f.URL)
		if _, ok := done[u]; ok {
			continue
		}
		done[u] = struct{}{}
		if size -= len(f.URL) + 16; size < 0 || len(out) >= channel.MaxFrontier {
			return out
		}
		out = append(out, f)
	}
	return out
}

// maxStored bounds the URLs of stored pages, in bytes, that a claim takes along: more than that costs a peer more than it spares.
const maxStored = 512 << 10

// storedPages gives the URLs of the stored pages of a channel, those nearest to its seeds first. A crawl that has them all on its to-do
// list need not read a page to find the others, and may ask for each with its validators. All or none: nothing where they are too
// many, or fewer than half have a validator.
func storedPages(s Snapshot, id channel.ID) ([]channel.Frontier, error) {
	var out []channel.Frontier
	bytes, valid := 0, 0
	var m *pb.Page // made when there is a page
	err := s.Scan(schema.Key(schema.Page, uint64(id)), nil, true, func(_, value []byte) (bool, error) {
		if m == nil {
			m = new(pb.Page)
		}
		m.Reset()
		if err := schema.Decode(value, m); err != nil {
			return false, err
		}
		if m.Gone || m.FirstUs == 0 {
			return true, nil
		}
		if len(m.Etag)+len(m.LastModified) > 0 && m.Digest != 0 {
			valid++
		}
		bytes += len(m.Url)
		out = append(out, channel.Frontier{URL: m.Url, Depth: int(m.Depth)})
		return bytes <= maxStored, nil
	})
	if err != nil || bytes > maxStored || 2*valid < len(out) {
		return nil, err
	}
	slices.SortFunc(out, func(a, b channel.Frontier) int {
		return cmp.Or(cmp.Compare(a.Depth, b.Depth), cmp.Compare(a.URL, b.URL))
	})
	return out, nil
}
