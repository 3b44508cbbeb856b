package allocate

import "slices"

// Uniform gives every page the same number of crawls, and the remainder to the first pages. With weighted it gives crawls in proportion to
// weight, which the paper's section 5 calls weighted uniform. It ignores bounds: the optimum is compared with these schemes.
func Uniform(pages []Page, r int64, weighted bool) []int32 {
	return proportion(len(pages), r, func(i int) float64 {
		if weighted {
			return pages[i].Weight
		}
		return 1
	})
}

// Proportional gives crawls in proportion to update rates; with weighted, to weight times rate.
func Proportional(pages []Page, span float64, r int64, weighted bool) []int32 {
	return proportion(len(pages), r, func(i int) float64 {
		if weighted {
			return pages[i].Weight * pages[i].Model.Rate(span)
		}
		return pages[i].Model.Rate(span)
	})
}

// proportion rounds by largest remainders, ties in page order.
func proportion(n int, r int64, share func(i int) float64) []int32 {
	x := make([]int32, n)
	s := make([]float64, n)
	sum := 0.
	for i := range s {
		s[i] = share(i)
		sum += s[i]
	}
	if !(sum > 0) || r <= 0 {
		return x
	}
	left := r
	order := make([]int32, n)
	for i := range s {
		want := s[i] / sum * float64(r)
		x[i] = int32(min(want, MaxCrawls))
		s[i] = want - float64(x[i])
		left -= int64(x[i])
		order[i] = int32(i)
	}
	slices.SortFunc(order, func(a, b int32) int {
		switch {
		case s[a] > s[b]:
			return -1
		case s[a] < s[b]:
			return 1
		}
		return int(a - b)
	})
	for k := 0; left > 0; k = (k + 1) % n {
		if x[order[k]] < MaxCrawls {
			x[order[k]]++
		}
		left--
	}
	return x
}
