package pages

import (
	pb "shoal/manager/archive/archivepb"
	"shoal/manager/archive/ledger"
	"shoal/manager/archive/schema"
)

// earned is what was corroborated of one deliverer.
type earned struct{ deliverer, bytes uint64 }

// earn notes that a version is corroborated: it is the credit of who delivered it, and of those who saw it alike before it was.
func (v *verdicts) earn(w *pb.Version, bytes uint64) {
	v.earned = append(v.earned, earned{w.By, bytes})
	for _, n := range w.Also {
		v.earned = append(v.earned, earned{n, bytes})
	}
}

// credit adds what was earned to the accounts' credits of this week.
func (v *verdicts) credit() error {
	if len(v.earned) == 0 {
		return nil
	}
	week := schema.Week(v.now)
	accounts := map[uint64]uint64{} // of deliverers
	sums := map[uint64]*pb.Credit{}
	var order []uint64
	for _, e := range v.earned {
		account, known := accounts[e.deliverer]
		if !known {
			var d pb.Deliverer
			if _, err := ledger.Get(v.snap, schema.Key(schema.Deliverer, e.deliverer), &d); err != nil {
				return err
			}
			if d.Account != "" {
				account = v.p.ledger.DelivererNumber(d.Account)
			}
			accounts[e.deliverer] = account
		}
		if account == 0 {
			continue // delivered before accounts were kept
		}
		if sums[account] == nil {
			sums[account] = new(pb.Credit)
			if _, err := ledger.Get(v.snap, schema.CreditKey(week, account, v.p.cfg.Writer), sums[account]); err != nil {
				return err
			}
			order = append(order, account)
		}
		sums[account].Pages++
		sums[account].Bytes += e.bytes
	}
	for _, account := range order {
		var err error
		if v.changes, err = ledger.Put(v.changes, schema.CreditKey(week, account, v.p.cfg.Writer), sums[account]); err != nil {
			return err
		}
	}
	return nil
}
