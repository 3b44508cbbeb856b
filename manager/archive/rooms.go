package archive

import (
	"shoal/manager/archive/ledger"
	"shoal/manager/archive/pages"
	"shoal/manager/archive/upkeep"
)

// The types of the rooms, so that other packages import this one alone.
type ( //nolint:revive // each is explained where it is defined
	Entry       = ledger.TaskEvent
	FencedError = ledger.FencedError

	Capture       = pages.Capture
	Change        = pages.Change
	Content       = pages.Content
	Event         = pages.Event
	ExportOptions = pages.ExportOptions
	Format        = pages.Format
	Known         = pages.Known
	Line          = pages.Line
	Page          = pages.Page

	Compacted = upkeep.Compacted
	Problem   = upkeep.Problem
	Ranked    = upkeep.Ranked
	Rebuilt   = upkeep.Rebuilt
	Repaired  = upkeep.Repaired
	Retained  = upkeep.Retained
	Retention = upkeep.Retention
	Tidied    = upkeep.Tidied
	Verified  = upkeep.Verified
	Withdrawn = upkeep.Withdrawn
)

// Limits and constants of the rooms.
const (
	MaxFeed      = ledger.MaxFeed
	MaxPages     = ledger.MaxPages
	DefaultShare = upkeep.DefaultShare

	Created = pages.Created
	Changed = pages.Changed
	Gone    = pages.Gone

	FormatWARC = pages.FormatWARC
	FormatJSON = pages.FormatJSON
	FormatText = pages.FormatText
)

// What goes wrong. Errors are wrapped with what was tried.
var (
	ErrClosed    = ledger.ErrClosed
	ErrStorage   = ledger.ErrStorage
	ErrFull      = ledger.ErrFull
	ErrFenced    = ledger.ErrFenced
	ErrBadTask   = ledger.ErrBadTask
	ErrBadChunk  = ledger.ErrBadChunk
	ErrCursor    = ledger.ErrCursor
	ErrTrimmed   = ledger.ErrTrimmed
	ErrSchema    = ledger.ErrSchema
	ErrState     = ledger.ErrState
	ErrLocked    = ledger.ErrLocked
	ErrNotFound  = pages.ErrNotFound
	ErrFormat    = pages.ErrFormat
	ErrNotBackup = upkeep.ErrNotBackup
	ErrNotEmpty  = upkeep.ErrNotEmpty
)
