package main

import (
	"context"
	"os"
	"path/filepath"

	"shoal/manager/archive/archivecmd"
)

// backup writes everything into a new folder while the station runs. The channel database comes first: what the archive tells after that
// is taken in again when the backup is used.
func (st *station) backup(ctx context.Context, dir string) error {
	return archivecmd.Whole(st.cfg.data, dir, func(part string) error {
		if err := os.MkdirAll(part, 0o700); err != nil {
			return err
		}
		if err := st.db.CopyTo(ctx, filepath.Join(part, channelsFolder)); err != nil {
			return err
		}
		if err := st.archive.Backup(ctx, filepath.Join(part, "archive")); err != nil {
			return err
		}
		return archivecmd.CopyTree(ctx, st.cfg.data, part, append([]string{channelsFolder, "archive"}, archivecmd.NotData...)...)
	})
}
