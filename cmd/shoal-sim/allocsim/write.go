package allocsim

import (
	"encoding/csv"
	"errors"
	"fmt"
	"os"
	"strconv"

	"shoal/recrawl/allocate"
)

func writeAllocation(name string, ids []string, x []int32) (err error) {
	f, err := os.Create(name)
	if err != nil {
		return fmt.Errorf("allocsim: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	w := csv.NewWriter(f)
	if err := w.Write([]string{"id", "crawls"}); err != nil {
		return err
	}
	for i, n := range x {
		id := strconv.Itoa(i)
		if ids != nil {
			id = ids[i]
		}
		if err := w.Write([]string{id, strconv.Itoa(int(n))}); err != nil {
			return err
		}
	}
	w.Flush()
	return w.Error()
}

func writeSchedule(name string, ids []string, p allocate.TimetableProblem, s *allocate.Schedule) (err error) {
	f, err := os.Create(name)
	if err != nil {
		return fmt.Errorf("allocsim: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	w := csv.NewWriter(f)
	if err := w.Write([]string{"id", "crawler", "slot", "time"}); err != nil {
		return err
	}
	for i := range p.Ideal {
		id := strconv.Itoa(i)
		if ids != nil {
			id = ids[i]
		}
		k, l, t := s.At(i)
		if err := w.Write([]string{id, strconv.Itoa(k), strconv.Itoa(l), strconv.FormatFloat(t, 'g', 17, 64)}); err != nil {
			return err
		}
	}
	w.Flush()
	return w.Error()
}
