package desk

import (
	"encoding/json"
	"fmt"
	"math"
	"time"
)

// Seconds is a length of time that JSON has as a number of seconds, under a key that ends in _s.
type Seconds time.Duration

const mostSeconds = float64(math.MaxInt64 / time.Second)

// MarshalJSON implements json.Marshaler.
func (s Seconds) MarshalJSON() ([]byte, error) { return json.Marshal(time.Duration(s).Seconds()) }

// UnmarshalJSON implements json.Unmarshaler.
func (s *Seconds) UnmarshalJSON(b []byte) error {
	var f float64
	if err := json.Unmarshal(b, &f); err != nil {
		return fmt.Errorf("%s is no number of seconds", b)
	}
	if math.Abs(f) > mostSeconds {
		return fmt.Errorf("%s seconds are more than a time can have", b)
	}
	*s = Seconds(math.Round(f * float64(time.Second)))
	return nil
}

// Duration is the same as Go has it.
func (s Seconds) Duration() time.Duration { return time.Duration(s) }

func seconds(all []time.Duration) []Seconds {
	out := make([]Seconds, len(all))
	for i, d := range all {
		out[i] = Seconds(d)
	}
	return out
}
