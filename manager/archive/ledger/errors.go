package ledger

import (
	"errors"
	"fmt"

	"shoal/channel"
	"shoal/internal/wire/uplink"
)

// What goes wrong. Errors are wrapped with what was tried.
var (
	ErrClosed   = fmt.Errorf("archive: closed: %w", uplink.ErrLater)
	ErrStorage  = fmt.Errorf("archive: storage failed: %w", uplink.ErrLater)
	ErrFull     = fmt.Errorf("archive: disk is full: %w", uplink.ErrLater)
	ErrFenced   = errors.New("archive: generation is behind the fence")
	ErrBadTask  = fmt.Errorf("archive: bad task: %w", uplink.ErrBad)
	ErrBadChunk = fmt.Errorf("archive: bad chunk: %w", uplink.ErrBad)
	ErrCursor   = errors.New("archive: cursor is damaged, or of another archive than this")
	ErrTrimmed  = errors.New("archive: the feed keeps nothing as old as this cursor")
	ErrBehind   = fmt.Errorf("archive: this manager does not have yet what another one has told up to this cursor: ask again: %w", uplink.ErrLater)
	ErrSchema   = errors.New("archive: data is of another version")
	ErrState    = errors.New("archive: database cannot be opened")
	ErrLocked   = errors.New("archive: folder is in use by another process")
	ErrDamaged  = errors.New("archive: database is not what was written")
)

// FencedError says up to which generation a channel's fence has moved; the manager goes on above. It is an ErrFenced.
type FencedError struct {
	Channel channel.ID
	Gen     channel.Gen
	Highest channel.Gen
}

func (e *FencedError) Error() string {
	return fmt.Sprintf("%v: channel %d, generation %d, highest is %d", ErrFenced, e.Channel, e.Gen, e.Highest)
}

// Is makes a FencedError an ErrFenced.
func (e *FencedError) Is(target error) bool { return target == ErrFenced }
