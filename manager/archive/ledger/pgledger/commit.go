package pgledger

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"shoal/channel/postgres"
	"shoal/internal/again"
	"shoal/manager/archive/ledger"
	"shoal/manager/archive/ledger/badgerledger"
)

// Commit implements ledger.Store. Writes that are too large for the copies are not in the log; all others are, with their conditions.
func (s *Store) Commit(writes []ledger.Write) (refused []error, err error) {
	s.writing.Lock()
	defer s.writing.Unlock()
	if err := s.copied.View(func(ledger.Snapshot) error { return nil }); err != nil {
		return nil, err // it is closed
	}
	if s.gone {
		return nil, s.replaced()
	}
	ctx := context.Background()
	if s.epoch == 0 {
		if err := s.own(ctx); err != nil {
			return nil, err
		}
	}
	refused = make([]error, len(writes))
	fit := make([]ledger.Write, 0, len(writes))
	of := make([]int, 0, len(writes))
	for n := range writes {
		if !s.copied.Fits(&writes[n]) {
			refused[n] = fmt.Errorf("%w: %d changes", ledger.ErrTooLarge, len(writes[n].Changes)+len(writes[n].Entries))
			continue
		}
		fit, of = append(fit, writes[n]), append(of, n)
	}
	commit := s.commitAlone
	if s.Several() {
		commit = s.commitBeside
	}
	said, err := s.jumping(fit, func(fit []ledger.Write) ([]error, error) { return commit(ctx, fit) })
	if err != nil {
		return nil, err
	}
	for n, err := range said {
		refused[of[n]] = err
	}
	return refused, nil
}

// jumping is commit, for the first time since the start with a write that has the feeds go on by the clock. The server may have been restored to before entries that
// were told: their numbers are not used again, else an indexer whose cursor lies behind them would miss what is told under them. A copy that knows of those entries
// need not be there any more.
func (s *Store) jumping(fit []ledger.Write, commit func([]ledger.Write) ([]error, error)) ([]error, error) {
	if s.jumped {
		return commit(fit)
	}
	said, err := commit(append([]ledger.Write{{Number: badgerledger.FirstNumber(s.cfg.Clock())}}, fit...))
	if err != nil {
		return nil, err
	}
	s.jumped = true
	return said[1:], nil
}

// commitAlone is Commit for a program that has the log for itself. fit are writes that fit.
func (s *Store) commitAlone(ctx context.Context, fit []ledger.Write) ([]error, error) {
	var key [16]byte
	rand.Read(key[:])
	if err := s.append(ctx, key, s.packer.pack(fit)); err != nil {
		return nil, err
	}
	return s.apply(nil, &badgerledger.Logged{Seq: s.at.Seq + 1, Key: key, Writes: fit})
}

func (s *Store) replaced() error {
	if s.Several() {
		return fmt.Errorf("%w: this one was not heard of for %s, and was shut out", ledger.ErrReplaced, aliveFor)
	}
	return fmt.Errorf("%w: stop the one that is not meant, on whichever machine it runs, and start the other again", ledger.ErrReplaced)
}

// own makes this the log's writer: nothing that another one has under way is appended after that. What it appended before must have been read.
func (s *Store) own(ctx context.Context) error {
	ctx, cancel := s.bound(ctx)
	defer cancel()
	var epoch, seq int64
	err := s.server.Patiently(ctx, func() error {
		return s.server.Transact(ctx, func(ctx context.Context, tx pgx.Tx) error {
			if err := lockHead(ctx, tx); err != nil { // as who becomes one of several writers does
				return err
			}
			if n, err := writers(ctx, tx); err != nil || n > 0 {
				if err == nil {
					err = fmt.Errorf("%w (%d): stop them first, or start this one with --several", ErrSeveral, n)
				}
				return err
			}
			if _, err := tx.Exec(ctx, `DELETE FROM writers WHERE part = $1`, part); err != nil { // the first of several shuts out who has the log for itself
				return err
			}
			return tx.QueryRow(ctx, `UPDATE heads SET epoch = epoch + 1 WHERE part = $1 RETURNING epoch, seq`, part).Scan(&epoch, &seq)
		})
	})
	switch {
	case errors.Is(err, postgres.ErrUnknown): // a number is left out at most
		return fmt.Errorf("%w: %w", ledger.ErrAway, err)
	case errors.Is(err, ErrSeveral):
		s.gone = true
		return fmt.Errorf("%w: %w", ledger.ErrReplaced, err)
	case err != nil:
		return s.away(err)
	case uint64(seq) != s.at.Seq:
		s.gone = true
		return s.replaced()
	}
	s.epoch = epoch
	return nil
}

// bound ends what waits for a server that accepts connections and does not answer, or when the store is about to be closed. A commit that was sent is waited for
// all the same.
func (s *Store) bound(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(ctx, 2*max(s.cfg.Server.Patience, time.Second))
	stop := context.AfterFunc(s.life, cancel)
	return ctx, func() { stop(); cancel() }
}

// away says that nothing was written.
func (s *Store) away(err error) error {
	return fmt.Errorf("%w: %w", ledger.ErrAway, s.server.Explain(err))
}

// append puts an entry into the log, as often as it takes.
func (s *Store) append(ctx context.Context, key [16]byte, body []byte) error {
	ctx, cancel := s.bound(ctx)
	defer cancel()
	err := s.server.Patiently(ctx, func() error {
		err := s.server.Transact(ctx, func(ctx context.Context, tx pgx.Tx) error {
			tag, err := tx.Exec(ctx, `WITH moved AS (UPDATE heads SET seq = seq + 1, key = $4, grown = grown + $6 WHERE part = $1 AND epoch = $2 AND seq = $3 RETURNING part, seq)
				INSERT INTO log (part, seq, key, body) SELECT part, seq, $4, $5 FROM moved`, part, s.epoch, int64(s.at.Seq), key[:], body, len(body))
			if err == nil && tag.RowsAffected() == 0 {
				return s.replaced()
			}
			return err
		})
		if errors.Is(err, postgres.ErrUnknown) {
			return s.settle(key, err)
		}
		return err
	})
	switch {
	case err == nil:
		return nil
	case errors.Is(err, ledger.ErrReplaced):
		s.gone = true
		return err
	case errors.Is(err, errUnsettled):
		return err
	}
	return s.away(err)
}

// errUnsettled says that it is not known whether an entry is in the log.
var errUnsettled = errors.New("archive: it is not known whether the last commit was made")

// pace of asking while the server is away.
var pace = again.Bounds{First: 20 * time.Millisecond, Last: time.Second}

// settle finds out whether the entry that was sent last is in the log. It asks by a write, which waits for a commit that still runs and is
// itself only answered when it is durable.
func (s *Store) settle(key [16]byte, cause error) error {
	s.log.Warn("the answer to a commit was lost; asking whether it was made", "err", s.server.Explain(cause))
	ctx, cancel := context.WithTimeout(s.life, max(s.cfg.Server.Patience, time.Second))
	defer cancel()
	wait := again.Every(pace)
	for {
		there, err := s.holds(ctx, key)
		switch {
		case err == nil && there, errors.Is(err, ledger.ErrReplaced):
			return err
		case err == nil:
			return postgres.ErrAgain
		}
		if wait.Wait(ctx, nil, nil) != nil {
			return fmt.Errorf("%w, and the server does not come back to tell: %w", errUnsettled, s.server.Explain(err))
		}
	}
}

// holds tells whether the entry behind this one's position has a key.
func (s *Store) holds(ctx context.Context, key [16]byte) (there bool, err error) {
	err = s.server.Transact(ctx, func(ctx context.Context, tx pgx.Tx) error {
		var epoch, seq int64
		if err := tx.QueryRow(ctx, `UPDATE heads SET looked = now() WHERE part = $1 RETURNING epoch, seq`, part).Scan(&epoch, &seq); err != nil {
			return err
		}
		if there = false; uint64(seq) > s.at.Seq {
			var is []byte
			if err := tx.QueryRow(ctx, `SELECT key FROM log WHERE part = $1 AND seq = $2`, part, int64(s.at.Seq)+1).Scan(&is); err != nil {
				return err
			}
			there = string(is) == string(key[:])
		}
		if !there && epoch != s.epoch {
			return s.replaced()
		}
		return nil
	})
	return there, err
}
