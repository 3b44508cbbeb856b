package archive

import (
	"shoal/manager/archive/evidence"
	"shoal/manager/archive/ledger"
	"shoal/manager/archive/pages"
	"shoal/manager/archive/upkeep"
)

type (
	// Entry is ledger.TaskEvent.
	Entry = ledger.TaskEvent
	// Lane is ledger.Lane.
	Lane = ledger.Lane
	// Errand is ledger.Errand.
	Errand = ledger.Errand
	// FencedError is ledger.FencedError.
	FencedError = ledger.FencedError

	// AccountCredit is pages.AccountCredit.
	AccountCredit = pages.AccountCredit
	// Board is pages.Board.
	Board = pages.Board
	// Week is pages.Week.
	Week = pages.Week
	// BoardRow is pages.BoardRow.
	BoardRow = pages.BoardRow
	// Profile is pages.Profile.
	Profile = pages.Profile
	// Capture is pages.Capture.
	Capture = pages.Capture
	// Change is pages.Change.
	Change = pages.Change
	// Content is pages.Content.
	Content = pages.Content
	// Event is pages.Event.
	Event = pages.Event
	// ExportOptions is pages.ExportOptions.
	ExportOptions = pages.ExportOptions
	// Credit is pages.Credit.
	Credit = pages.Credit
	// Filter is pages.Filter.
	Filter = pages.Filter
	// Format is pages.Format.
	Format = pages.Format
	// Delivery is pages.Delivery.
	Delivery = pages.Delivery
	// Delivered is pages.Delivered.
	Delivered = pages.Delivered
	// Judged is pages.Judged.
	Judged = pages.Judged
	// Worth is pages.Worth.
	Worth = pages.Worth
	// Older is pages.Older.
	Older = pages.Older
	// Deliverer is ledger.Deliverer.
	Deliverer = ledger.Deliverer
	// EvidenceCase is evidence.Case.
	EvidenceCase = evidence.Case
	// EvidenceFetch is evidence.Fetch.
	EvidenceFetch = evidence.Fetch
	// Known is pages.Known.
	Known = pages.Known
	// Line is pages.Line.
	Line = pages.Line
	// Page is pages.Page.
	Page = pages.Page

	// Compacted is upkeep.Compacted.
	Compacted = upkeep.Compacted
	// Problem is upkeep.Problem.
	Problem = upkeep.Problem
	// Ranked is upkeep.Ranked.
	Ranked = upkeep.Ranked
	// Rebuilt is upkeep.Rebuilt.
	Rebuilt = upkeep.Rebuilt
	// Repaired is upkeep.Repaired.
	Repaired = upkeep.Repaired
	// Retained is upkeep.Retained.
	Retained = upkeep.Retained
	// Retention is upkeep.Retention.
	Retention = upkeep.Retention
	// Tidied is upkeep.Tidied.
	Tidied = upkeep.Tidied
	// Verified is upkeep.Verified.
	Verified = upkeep.Verified
	// Work is upkeep.Work.
	Work = upkeep.Work
	// Withdrawing is upkeep.Withdrawing.
	Withdrawing = upkeep.Withdrawing
	// Suspension is upkeep.Suspension.
	Suspension = upkeep.Suspension
	// Withdrawn is upkeep.Withdrawn.
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
	// TakenBack is pages.Withdrawn.
	TakenBack = pages.Withdrawn
	// Corroborated is pages.Verified.
	Corroborated = pages.Verified
	// Doubted is pages.Unverified.
	Doubted = pages.Unverified

	FormatWARC = pages.FormatWARC
	FormatJSON = pages.FormatJSON
	FormatText = pages.FormatText
)

// DelivererOf is ledger.DelivererOf.
func DelivererOf(name string) uint64 { return ledger.DelivererOf(name) }

// DelivererName is ledger.DelivererName.
func DelivererName(number uint64) string { return ledger.DelivererName(number) }

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
	ErrBehind    = ledger.ErrBehind
	ErrSchema    = ledger.ErrSchema
	ErrState     = ledger.ErrState
	ErrLocked    = ledger.ErrLocked
	ErrNotFound  = pages.ErrNotFound
	ErrFormat    = pages.ErrFormat
	ErrDeliverer = pages.ErrDeliverer
	ErrProfile   = pages.ErrProfile
	ErrNotBackup = upkeep.ErrNotBackup
	ErrNotEmpty  = upkeep.ErrNotEmpty
)

// NameKey is pages.NameKey.
func NameKey(name string) string { return pages.NameKey(name) }
