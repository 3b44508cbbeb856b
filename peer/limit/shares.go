package limit

// Shares divides a whole number by weights. Each part is at least 1 where the whole is large enough for that, and the parts add up to the
// whole. Equal remainders go to those that come first.
func Shares(whole int, weights []int) []int {
	out := make([]int, len(weights))
	sum, left := 0, whole
	for _, w := range weights {
		sum += w
	}
	if sum == 0 {
		return out
	}
	least := 0
	if whole >= len(weights) {
		least = 1
	}
	for i, w := range weights {
		if w > 0 {
			out[i] = max(whole*w/sum, least)
			left -= out[i]
		}
	}
	for ; left != 0; left += sign(-left) {
		at := -1
		for i, w := range weights { // who has the least, or too much, for its weight
			if w == 0 || left < 0 && out[i] <= least {
				continue
			}
			if at < 0 || left > 0 && short(whole, sum, w, out[i]) > short(whole, sum, weights[at], out[at]) || left < 0 && short(whole, sum, w, out[i]) < short(whole, sum, weights[at], out[at]) {
				at = i
			}
		}
		out[at] += sign(left)
	}
	return out
}

// short is what a part lacks of its exact size, times the sum of all weights.
func short(whole, sum, weight, part int) int { return whole*weight - part*sum }

func sign(n int) int {
	if n < 0 {
		return -1
	}
	return 1
}
