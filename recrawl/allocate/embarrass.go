package allocate

import "math"

// Clicks holds c_jk, how often a client clicks on position j of result page k: Clicks[k][j], from 0.
type Clicks [][]float64

// ZipfClicks is the click curve of section 2.2: Zipf-like over all positions with skew theta (0 is true Zipf, 1 is uniform). A client goes on to
// the next result page with probability next. The curve adds up to 1 when every client sees every page.
func ZipfClicks(pages, positions int, theta, next float64) Clicks {
	c := make(Clicks, pages)
	sum := 0.
	for k := range c {
		c[k] = make([]float64, positions)
		for j := range c[k] {
			p := math.Pow(float64(k*positions+j+1), theta-1)
			sum += p
			c[k][j] = p * math.Pow(next, float64(k))
		}
	}
	for k := range c {
		for j := range c[k] {
			c[k][j] /= sum
		}
	}
	return c
}

// Exposure is the sum over j and k of c_jk b_ijk, where returned[k*positions+j] is b_ijk: how often page i is shown there for a query. With d_i, the
// probability that a stale copy answers the query wrongly, w_i = d_i * Exposure is equation 8.
func (c Clicks) Exposure(returned []float64) float64 {
	w, l := 0., 0
	for k := range c {
		for j := range c[k] {
			if l < len(returned) {
				w += c[k][j] * returned[l]
			}
			l++
		}
	}
	return w
}

// TruncatedNormal spreads one appearance over n positions, normally around center (in positions from 0) with the given deviation.
func TruncatedNormal(n int, center, deviation float64) []float64 {
	p := make([]float64, n)
	sum := 0.
	for i := range p {
		d := (float64(i) + .5 - center) / deviation
		p[i] = math.Exp(-d * d / 2)
		sum += p[i]
	}
	for i := range p {
		p[i] /= sum
	}
	return p
}
