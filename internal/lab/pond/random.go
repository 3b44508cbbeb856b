package pond

// Every property of a World is a hash of what it belongs to, so that each part can be computed alone and in any
// order.

const (
	saltSize uint64 = iota + 1
	saltClass
	saltHost
	saltPath
	saltLink
	saltChange
	saltKind
	saltText
	saltPlace
	saltNode
	saltBad
	saltTrouble
)

// mix is the finaliser of splitmix64 (Steele, Lea, Flood 2014).
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

func (w *World) hash(keys ...uint64) uint64 {
	x := mix(w.cfg.Seed)
	for _, k := range keys {
		x = mix(x ^ k)
	}
	return x
}

// unit returns a number uniform in [0, 1).
func (w *World) unit(keys ...uint64) float64 { return toUnit(w.hash(keys...)) }

func toUnit(x uint64) float64 { return float64(x>>11) / (1 << 53) }

// stream is a sequence of draws from one key.
type stream struct{ x uint64 }

func (s *stream) next() uint64 {
	s.x += 0x9e3779b97f4a7c15
	return mix(s.x)
}

func (s *stream) unit() float64 { return toUnit(s.next()) }

func (s *stream) intn(n int) int { return int(s.next() % uint64(n)) }

func shuffle[T any](v []T, seed uint64) {
	s := stream{seed}
	for i := len(v) - 1; i > 0; i-- {
		j := s.intn(i + 1)
		v[i], v[j] = v[j], v[i]
	}
}
