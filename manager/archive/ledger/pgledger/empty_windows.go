package pgledger

import (
	"fmt"
	"os"

	"shoal/manager/archive/ledger"
)

// empty removes what is in the folder of a database, unless a program has it open: Windows removes no file that one has.
func empty(dir string) error {
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("%w: %w", ledger.ErrLocked, err)
	}
	return nil
}
