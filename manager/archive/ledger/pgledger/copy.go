package pgledger

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/jackc/pgx/v5"

	"shoal/manager/archive/ledger"
	"shoal/manager/archive/ledger/badgerledger"
)

// head is what the server says of the log.
type head struct {
	archive     [8]byte
	first       int64
	seq, base   int64
	snapshot    string
	size, grown int64
	key         []byte // of the last entry
	there       []byte // key of the entry at which the copy is; nil: the log has no such entry
}

func (s *Store) readHead(ctx context.Context, at badgerledger.Position) (h head, err error) {
	err = s.server.Patiently(ctx, func() error {
		var id []byte
		err := s.server.Pool().QueryRow(ctx, `SELECT archive, first, seq, base, snapshot, size, grown, key, (SELECT key FROM log WHERE log.part = heads.part AND log.seq = $2)
			FROM heads WHERE part = $1`, part, int64(at.Seq)).Scan(&id, &h.first, &h.seq, &h.base, &h.snapshot, &h.size, &h.grown, &h.key, &h.there)
		if err == nil && len(id) != 8 {
			err = fmt.Errorf("%w: ID of %d bytes", ledger.ErrState, len(id))
		}
		if err == nil {
			h.archive = [8]byte(id)
		}
		return err
	})
	return h, s.server.Explain(err)
}

// catchUp brings the copy to where the log is.
func (s *Store) catchUp(ctx context.Context) (err error) {
	if s.packer, err = newPacker(); err != nil {
		return err
	}
	at, follows, err := s.copied.Position()
	if err != nil {
		return err
	}
	if !follows {
		if err := s.mustBeEmpty(); err != nil {
			return err
		}
	}
	h, err := s.readHead(ctx, at)
	if err != nil {
		return err
	}
	if err := s.mayBegin(ctx, &h, at); err != nil {
		return err
	}
	if why := stale(&h, at, follows, s.copied.Head().ID); why != "" {
		if follows {
			s.log.Warn("this machine's copy of the archive's ledger is made again", "why", why)
		}
		if err := s.makeCopy(ctx, &h); err != nil {
			return err
		}
	}
	return s.readLog(ctx)
}

// stale says why a copy cannot go on; empty: it can.
func stale(h *head, at badgerledger.Position, follows bool, id [8]byte) string {
	switch {
	case !follows:
		return "it is new"
	case id != h.archive:
		return "it is of another archive"
	case int64(at.Seq) > h.seq:
		return "it is ahead of the server, which must have been restored"
	case int64(at.Seq) < h.base:
		return "the log begins behind it"
	case int64(at.Seq) == h.seq && string(at.Key[:]) != string(h.key), int64(at.Seq) > h.base && string(at.Key[:]) != string(h.there):
		return "the server has other entries, it must have been restored"
	}
	return ""
}

// mustBeEmpty refuses to take a folder's own archive for a copy.
func (s *Store) mustBeEmpty() error {
	err := s.copied.View(func(snap ledger.Snapshot) error {
		return snap.Scan(nil, nil, false, func(key, _ []byte) (bool, error) {
			if len(key) == 1 { // the archive's own record, which every new one has
				return true, nil
			}
			return false, fmt.Errorf("%w: %s", ErrOwn, s.cfg.Copy.Dir)
		})
	})
	return err
}

// lookTime is how long a command may look into a folder that is to be emptied.
const lookTime = 10 * time.Second

// openAnew empties a folder and opens it. Before and after it is emptied no program holds the folder for a moment. A command that lists captures may open it
// then and write there; openAnew waits for that command to end, and empties the folder again.
func openAnew(ctx context.Context, cfg badgerledger.Config) (s *badgerledger.Store, err error) {
	for end := time.Now().Add(lookTime); ; {
		if err = empty(cfg.Dir); err == nil {
			s, err = badgerledger.Open(cfg)
		}
		if err == nil || !errors.Is(err, ledger.ErrLocked) || time.Now().After(end) {
			return s, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// makeCopy begins the copy anew, from the snapshot. The copy that is there is emptied when the snapshot is found.
func (s *Store) makeCopy(ctx context.Context, h *head) (err error) {
	at := badgerledger.Position{Seq: uint64(h.base)}
	var in *snapshotReader
	if h.snapshot != "" {
		base, herr := s.readHead(ctx, at)
		if herr != nil {
			return herr
		}
		if len(base.there) != len(at.Key) {
			return fmt.Errorf("%w: entry %d is missing in %s: restore the server from its backup", ledger.ErrState, h.base, s.server.Where())
		}
		at.Key = [16]byte(base.there)
		if in, err = s.openSnapshot(ctx, h.snapshot); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, in.Close()) }()
		if err := in.peek(); err != nil {
			return err
		}
	}
	if err := s.copied.Close(); err != nil {
		return err
	}
	cfg := s.cfg.Copy
	cfg.Genesis = &badgerledger.Genesis{ID: h.archive, Next: uint64(h.first)}
	if s.copied, err = openAnew(ctx, cfg); err != nil {
		return err
	}
	if in == nil {
		return s.copied.Follow(at)
	}
	return s.copied.Load(at, in.next)
}

// stretch is how many entries are read at a time.
const stretch = 16

// readLog applies the entries that the copy does not have.
func (s *Store) readLog(ctx context.Context) error {
	_, err := s.readUpTo(ctx, math.MaxInt64, nil)
	return err
}

// readUpTo applies them up to the one with a number, and then this writer's own, which follows on it. It tells which of that one's writes are refused.
// nil: there is none. What can be applied at once is: each time costs a sync of this machine's disk.
func (s *Store) readUpTo(ctx context.Context, last uint64, own *badgerledger.Logged) (said []error, err error) {
	for {
		if s.at, _, err = s.copied.Position(); err != nil {
			return nil, err
		}
		var others []badgerledger.Logged
		if s.at.Seq < last {
			if others, err = s.unread(ctx, last); err != nil {
				return nil, err
			}
		}
		switch {
		case own != nil && s.at.Seq+uint64(len(others)) >= last:
			return s.apply(others, own)
		case len(others) == 0 && own == nil:
			return nil, nil
		case len(others) == 0: // entries before this one's are missing
			return nil, s.diverged()
		}
		if _, err := s.apply(others, nil); err != nil {
			return nil, err
		}
	}
}

// unread reads the next entries that the copy does not have, up to the one with a number. None: there are no more.
func (s *Store) unread(ctx context.Context, last uint64) ([]badgerledger.Logged, error) {
	type entry struct {
		Seq  int64
		Key  []byte
		Body []byte
	}
	var entries []entry
	err := s.server.Patiently(ctx, func() error {
		rows, err := s.server.Pool().Query(ctx, `SELECT seq, key, CASE WHEN seq = $2 THEN '' ELSE body END FROM log WHERE part = $1 AND seq >= $2 AND seq <= $4 ORDER BY seq LIMIT $3`,
			part, int64(s.at.Seq), stretch+1, int64(last))
		if err != nil {
			return err
		}
		entries, err = pgx.CollectRows(rows, pgx.RowToStructByPos[entry])
		return err
	})
	if err != nil {
		return nil, s.server.Explain(err)
	}
	if s.at.Seq > 0 && (len(entries) == 0 || uint64(entries[0].Seq) == s.at.Seq && string(entries[0].Key) != string(s.at.Key[:])) {
		return nil, s.diverged()
	}
	if len(entries) > 0 && uint64(entries[0].Seq) == s.at.Seq {
		entries = entries[1:]
	}
	out := make([]badgerledger.Logged, 0, len(entries)+1)
	for n, e := range entries {
		writes, err := s.packer.unpack(e.Body)
		if err != nil || len(e.Key) != 16 {
			return nil, fmt.Errorf("%w: entry %d in %s: %w: restore the server from its backup", ledger.ErrState, e.Seq, s.server.Where(), errors.Join(err))
		}
		if uint64(e.Seq) != s.at.Seq+1+uint64(n) {
			return nil, fmt.Errorf("%w: this machine was away for long, and the log begins behind its copy: start again to have it made anew", ledger.ErrReplaced)
		}
		out = append(out, badgerledger.Logged{Seq: uint64(e.Seq), Key: [16]byte(e.Key), Writes: writes})
	}
	return out, nil
}

// apply applies entries of others and behind them this writer's own, unless that is nil, of which it tells which writes are refused.
func (s *Store) apply(others []badgerledger.Logged, own *badgerledger.Logged) (said []error, err error) {
	all := append(make([]badgerledger.Logged, 0, len(others)+1), others...)
	if own != nil {
		all = append(all, *own)
	}
	refused, err := s.copied.Apply(all...)
	for n := range min(len(others), len(refused)) { // those that are applied, also if others could not be
		s.tell(others[n].Writes, refused[n])
	}
	if err != nil {
		return nil, err
	}
	end := all[len(all)-1]
	s.at = badgerledger.Position{Seq: end.Seq, Key: end.Key}
	if own != nil {
		said = refused[len(others)]
		s.settled.raise(s.copied.Next()) // it was answered, and so is all before it
	}
	return said, nil
}

// errDiverged says that the copy has what the log has not.
var errDiverged = errors.New("archive: this machine has read what its database has lost since, as after a standby took over: start again to have its copy of the ledger made anew")

// diverged is the error of a copy that cannot go on. A reader sees commits that no standby has yet, if their program is cut off while they wait; a failover
// loses them.
func (s *Store) diverged() error {
	return fmt.Errorf("%w: entry %d of %s", errDiverged, s.at.Seq, s.where())
}

// tell passes on what an entry of another writer has changed.
func (s *Store) tell(writes []ledger.Write, refused []error) {
	if s.hear == nil {
		return
	}
	made := make([]ledger.Write, 0, len(writes))
	for n := range writes {
		if w := &writes[n]; refused[n] == nil && len(w.Early)+len(w.Changes)+len(w.Entries) > 0 {
			made = append(made, writes[n])
		}
	}
	s.hear(made)
}
