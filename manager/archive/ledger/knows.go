package ledger

import (
	"fmt"

	pb "shoal/manager/archive/archivepb"
	"shoal/manager/archive/schema"
	"shoal/manager/archive/segment"
)

// knows refuses a ledger that does not know of the segments that there are: one that is empty, since the one before was lost, or whose rebuild was broken off. All
// segments that it does not know would be removed, as what was never committed. The first segment is begun when the ledger has a record.
func knows(store Store, segments segment.Store, known []segment.Info) error {
	var empty, rebuilding bool
	err := store.View(func(s Snapshot) (err error) {
		if rebuilding, err = Get(s, schema.ProgressKey(schema.Rebuilding), new(pb.Progress)); err != nil || len(known) > 0 {
			return err
		}
		empty = true
		return s.Scan(nil, nil, false, func(key, _ []byte) (bool, error) {
			empty = key[0] == schema.State // its own records, which every new one has
			return empty, nil
		})
	})
	switch f, follows := store.(Follower); {
	case err != nil:
		return err
	case rebuilding:
		return fmt.Errorf("%w: a rebuild was broken off: %s", ErrState, RebuildHint)
	case !empty, follows && f.Several(): // another manager may just have begun the first segment
		return nil
	}
	all, err := segments.List()
	if err == nil && len(all) > 0 {
		err = fmt.Errorf("%d files of pages are there, and it knows of none: bring the database back as it was, or restore a backup; nothing was changed. Else %s", len(all), RebuildHint)
	}
	if err != nil {
		return fmt.Errorf("%w: %w", ErrState, err)
	}
	return nil
}
