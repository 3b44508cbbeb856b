package tidy

import (
	"strings"
	"testing"
)

type row struct {
	Strategy string    `json:"strategy"`
	Note     string    `json:"note"`
	Load     float64   `json:"load"`
	Seed     int       `json:"seed"`
	Q        float64   `json:"q"`
	Quartile []float64 `json:"quartile"`
	Late     *float64  `json:"late,omitempty"`
	Warm     bool      `json:"warm"`
	Seconds  float64   `json:"seconds"`
}

// Rows of the same are averaged over their seeds; every other figure has a line of its own; nothing of the machine is written.
func TestWrite(t *testing.T) {
	late := 7.
	var out strings.Builder
	err := Write(&out, []row{
		{Strategy: "price", Load: .5, Seed: 1, Q: 1, Quartile: []float64{1, 2}, Seconds: 9},
		{Strategy: "price", Load: .5, Seed: 2, Q: 3, Quartile: []float64{1, 4}, Late: &late},
		{Strategy: "price", Load: 1, Seed: 1, Q: 5, Warm: true},
		{Strategy: "a, b", Load: 1, Seed: 1, Q: 1. / 3},
	}, "load")
	if err != nil {
		t.Fatal(err)
	}
	want := `what,figure,value,sd,n
price load=0.5,q,2,1.41421,2
price load=0.5,quartile_1,1,0,2
price load=0.5,quartile_2,3,1.41421,2
price load=0.5,late,7,0,1
price load=1 warm,q,5,0,1
"a, b load=1",q,0.333333,0,1
`
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", out.String(), want)
	}
	if err := Write(&out, func() {}); err == nil {
		t.Error("what is no JSON is written")
	}
}
