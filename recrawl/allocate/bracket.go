package allocate

import "math"

// sample prices a part of the pages, to find bounds of the price for all of them.
type sample struct {
	*solver
	picks   []int32
	x       []int64 // per part: crawls
	squares []float64
}

// partPages is how many pages of the sample a worker takes at once.
const partPages = chunkPages / 8

func (s *solver) sample() *sample {
	n := len(s.Pages)
	t := &sample{solver: s, picks: make([]int32, 0, samplePages)}
	if n <= 1024 {
		for i := range n {
			t.picks = append(t.picks, int32(i))
		}
	} else {
		size := min(samplePages, n/4)
		for k := range size { // one at random of each stratum of the page order
			from, to := k*n/size, (k+1)*n/size
			t.picks = append(t.picks, int32(from+int(mix(uint64(k))%uint64(to-from))))
		}
	}
	t.x = make([]int64, (len(t.picks)+partPages-1)/partPages)
	t.squares = make([]float64, len(t.x))
	return t
}

// measure is how many crawls the sample buys at a price given by its logarithm, and the sum of their squares by page.
func (t *sample) measure(log float64) (sum, squares float64) {
	price := math.Exp(log)
	t.share(len(t.x), func(c int, w *scratch) {
		var n int64
		sq := 0.
		for _, i := range t.picks[c*partPages : min((c+1)*partPages, len(t.picks))] {
			x := t.scan(int(i), price, price, w, nil) - int(t.Pages[i].Min)
			n += int64(x)
			sq += float64(x) * float64(x)
		}
		t.x[c], t.squares[c] = n, sq
	})
	for c := range t.x {
		sum += float64(t.x[c])
		squares += t.squares[c]
	}
	return sum, squares
}

// find halves the interval of log prices a > b at which the sample buys the target.
func (t *sample) find(target, a, b float64) float64 {
	for a-b > .01 {
		mid := (a + b) / 2
		if sum, _ := t.measure(mid); sum > target {
			b = mid
		} else {
			a = mid
		}
	}
	return (a + b) / 2
}

// beyond steps from a log price, in growing steps, until the sample buys what satisfies enough.
func (t *sample) beyond(log, step float64, enough func(sum float64) bool) float64 {
	log += step
	for range 12 {
		if sum, _ := t.measure(log); enough(sum) {
			break
		}
		log += step
		step *= 1.5
	}
	return log
}

// bracket prices a sample of the pages and widens by four standard errors.
func (s *solver) bracket() (hi, lo float64) {
	t := s.sample()
	target := float64(s.need) * float64(len(t.picks)) / float64(len(s.Pages))
	top := 1.
	for i := range s.Pages {
		top = max(top, s.Pages[i].Weight)
	}
	a, b := math.Log(top), math.Log(top)-2
	for stride := 2.; ; stride *= 2 {
		if sum, _ := t.measure(b); sum > target {
			break
		}
		if b <= math.Log(tiniest) { // even the sample's least gain is bought
			return math.Exp(a), tiniest
		}
		a, b = b, max(b-stride, math.Log(tiniest))
	}
	mid := t.find(target, a, b)
	sum, squares := t.measure(mid)
	m := float64(len(t.picks))
	slack := 4*math.Sqrt(max(squares-sum*sum/m, 0)) + 2
	if len(t.picks) == len(s.Pages) {
		slack = 2
	}
	const step = 2. / 256
	up := t.beyond(mid, step, func(sum float64) bool { return sum < target-slack })
	down := t.beyond(mid, -step, func(sum float64) bool { return sum > target+slack })
	return math.Exp(up), math.Exp(down)
}

// mix is splitmix64: the sample must not follow any pattern of the page order, and must be the same every time.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
