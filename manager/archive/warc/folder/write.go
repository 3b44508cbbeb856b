package folder

import (
	"errors"

	"shoal/manager/archive/segment"
	"shoal/manager/archive/warc"
)

// Append implements segment.Writer. A file is ended only between commits, so that one sync covers all that a commit appended.
func (f *Folder) Append(raw []byte, ends []int) ([]segment.Location, error) {
	if f.records == 0 {
		if err := f.roll(); err != nil {
			return nil, err
		}
	}
	base, err := f.out.Append(raw)
	f.records += uint64(len(ends)) // also of what was written in part: Rollback takes it back
	if err != nil {
		return nil, err
	}
	out := make([]segment.Location, len(ends))
	begin := 0
	for n, end := range ends {
		out[n] = segment.Location{Segment: f.file.ID, Offset: uint64(base) + uint64(begin), Length: uint32(end - begin)}
		begin = end
	}
	return out, nil
}

// Sync implements segment.Writer.
func (f *Folder) Sync() ([]segment.Info, error) {
	if f.records == 0 {
		return f.finished, nil
	}
	if err := f.out.Sync(); err != nil {
		f.torn = true
		return nil, err
	}
	return append(f.finished[:len(f.finished):len(f.finished)], f.appended()), nil
}

// appended describes the file with what is not committed.
func (f *Folder) appended() segment.Info {
	s := f.file
	s.Length, s.Records = uint64(f.out.Len()), s.Records+f.records
	return s
}

// Commit implements segment.Writer.
func (f *Folder) Commit() {
	f.finished = nil
	if f.out != nil {
		f.file = f.appended()
		f.records = 0
		f.out.Commit()
	}
}

// Rollback implements segment.Writer. A file that has nothing committed is removed: its warcinfo is taken back too.
func (f *Folder) Rollback() error {
	if f.out == nil {
		return nil
	}
	f.records = 0
	err := f.out.Rollback()
	if err == nil && !f.torn && f.file.Length > 0 {
		return nil
	}
	f.torn = false
	err = errors.Join(err, f.out.Close())
	f.out = nil
	if f.file.Length == 0 {
		return errors.Join(err, f.Remove(f.file))
	}
	f.finish()
	return err
}

// Seal implements segment.Writer.
func (f *Folder) Seal() error {
	if f.out == nil {
		return nil
	}
	err := f.out.Close()
	f.out = nil
	f.finish()
	return err
}

// finish has the next Sync tell that the file is sealed.
func (f *Folder) finish() {
	f.file.Sealed = true
	f.finished = append(f.finished, f.file)
}

// roll sees to it that there is a file to write to: the last one, or a new one when that is long enough.
func (f *Folder) roll() error {
	if f.out != nil {
		if f.out.Len() < f.cfg.Roll {
			return nil
		}
		if err := f.Seal(); err != nil {
			return err
		}
	}
	now := f.cfg.Clock().UTC()
	id := f.last + 1
	name := nameOf(now, id)
	out, err := warc.Create(f.cfg.FS, f.path(name))
	if err != nil {
		return err
	}
	f.last = id
	s := segment.Info{ID: id, Name: name, Created: now}
	if f.cfg.First != nil {
		rec, err := f.cfg.First(name, id, now)
		if err == nil {
			_, err = out.Append(rec)
		}
		if err != nil { // the ledger does not know the file yet
			return errors.Join(err, out.Close(), f.Remove(s))
		}
		s.Records = 1
	}
	f.out, f.file = out, s
	f.add(id, name)
	return nil
}

// Close implements segment.Store.
func (f *Folder) Close() error {
	if f.out == nil {
		return nil
	}
	err := f.out.Close()
	f.out = nil
	return err
}
