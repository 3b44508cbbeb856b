package memledger

import (
	"testing"

	"shoal/manager/archive/ledger"
	"shoal/manager/archive/ledger/ledgertest"
)

func TestContract(t *testing.T) {
	ledgertest.Run(t, func(t *testing.T) ledgertest.Subject {
		s := New()
		reopen := func(t *testing.T) ledger.Store {
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			s.Reopen()
			return s
		}
		return ledgertest.Subject{Store: s, Reopen: reopen, Crash: reopen}
	})
}
