package trust

import "math"

// tail is what the scores of honest peers have been like: the highest value of each excursion from zero that came back to zero. A liar's never does.
type tail struct {
	peaks  [tailBins]uint32 // excursions that ended, by their highest value, rounded down
	checks uint64           // audits that were valid
	lost   uint64           // audits lost before the arbiter
	days   float64          // that established peers have worked, added up
}

const tailBins = 32

func (t *tail) end(peak float64) {
	i := min(max(int(peak), 0), tailBins-1)
	if t.peaks[i] < math.MaxUint32 {
		t.peaks[i]++
	}
}

// Worked tells the Machine that so many days have passed for the established peers together.
func (m *Machine) Worked(days float64) {
	if days > 0 {
		m.tail.days += days
	}
}

// Proposal is what the shadow has taught.
type Proposal struct {
	Q          float64 // share of audits lost
	T          float64 // score that an honest peer reaches less than once in 1,000 years; 0: too little is known
	Excursions int     // from zero and back
	PeerYears  float64
}

// Limits of what is proposed.
const (
	leastExcursions = 200  // before T is proposed
	leastYears      = 10.  // of peers
	perYear         = 1e-3 // honest peers suspended in a year
	leastT, mostT   = 12, 60
)

// Propose says which T and q the scores so far ask for. The operator decides. The tail of a CUSUM's excursions is exponential: its slope is fitted to the upper
// tenth of them, and prolonged to one in a thousand peer-years.
func (m *Machine) Propose() Proposal {
	t := &m.tail
	p := Proposal{Q: m.cfg.Q, PeerYears: t.days / 365.25}
	if t.lost+t.checks > 1000 {
		p.Q = float64(t.lost) / float64(t.lost+t.checks)
	}
	for _, n := range t.peaks {
		p.Excursions += int(n)
	}
	if p.Excursions < leastExcursions || p.PeerYears < leastYears {
		return p
	}
	from, above := tailBins-1, 0
	for ; from > 0; from-- {
		if above += int(t.peaks[from]); above*10 >= p.Excursions {
			break
		}
	}
	if from < 1 {
		from, above = 1, p.Excursions-int(t.peaks[0])
	}
	beyond := 0. // by how much they exceed from, added up
	for i := from; i < tailBins; i++ {
		beyond += float64(t.peaks[i]) * (float64(i-from) + .5)
	}
	if above < 5 || beyond == 0 {
		p.T = leastT
		return p
	}
	slope := float64(above) / beyond
	p.T = min(max(float64(from)+math.Log(float64(above)/(p.PeerYears*perYear))/slope, leastT), mostT)
	return p
}
