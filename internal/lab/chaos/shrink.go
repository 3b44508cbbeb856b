package chaos

import "slices"

// Shrink leaves faults out of a script that fails for as long as the rest still fails. It asks at most tries times. With enough tries, each fault
// that is left is needed: without it the script does not fail any more.
//
// It is the algorithm ddmin of Zeller and Hildebrandt, "Simplifying and Isolating Failure-Inducing Input" (IEEE TSE 2002), with complements alone:
// it leaves out halves first, then smaller and smaller parts.
func Shrink(s Script, tries int, fails func(Script) bool) Script {
	left := slices.Clone(s.Faults)
	for parts := 2; len(left) > 0; {
		shorter, found := s, false
		for i := 0; i < parts && tries > 0; i++ {
			from, to := i*len(left)/parts, (i+1)*len(left)/parts
			if from == to {
				continue
			}
			tries--
			shorter.Faults = slices.Concat(left[:from], left[to:])
			if found = fails(shorter); found {
				break
			}
		}
		switch {
		case found:
			left, parts = shorter.Faults, max(parts-1, 2)
		case tries == 0 || parts >= len(left):
			s.Faults = left
			return s
		default:
			parts = min(2*parts, len(left))
		}
	}
	s.Faults = nil
	return s
}
