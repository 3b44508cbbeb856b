package recrawlsim

// published is what the paper's tables 1 to 4 say (P), and what a reconstruction of its experiment gave (R; where the text and the
// numbers of the paper contradict each other, R says what follows from the text).
type published struct {
	tasks, tasksR         float64 // million
	intervals, intervalsR []float64
	q, qR, qw, qwR        float64
}

var literature = map[string]map[string]published{
	"rec": {
		"fixed": {8.030, 8.030, []float64{60, 120, 240, 480, 960}, []float64{60, 120, 240, 480, 960}, .5571, .572, 1.9987, 2.04},
		"iir":   {3.485, 3.71, []float64{216, 326, 473, 811, 1412}, []float64{253, 336, 439, 621, 927}, .4936, .467, 2.0266, 1.81},
		"icr":   {4.160, 4.26, []float64{104, 230, 477, 972, 1964}, []float64{117, 230, 468, 945, 2009}, .4331, .421, 2.0176, 1.93},
	},
	"ruc": {
		"fixed": {8.030, 3.99, []float64{60, 120, 240, 480, 960}, []float64{120, 240, 480, 960, 1920}, 1.0013, .875, 4.7873, 4.15},
		"iir":   {8.650, 7.28, []float64{74, 110, 214, 399, 782}, []float64{148, 174, 219, 303, 460}, 1.9827, 1.84, 9.1474, 7.00},
		"icr":   {8.953, 7.85, []float64{56, 112, 190, 544, 1119}, []float64{63, 123, 250, 504, 1047}, 1.9701, 1.61, 8.2611, 7.32},
	},
}

// publishedDelta is the encouragement that the published figures were made with, 0 where none is known.
func publishedDelta(experiment, strategy string) float64 {
	switch {
	case strategy == "icr":
		return .38
	case strategy == "iir" && experiment == "rec":
		return .33
	case strategy == "iir":
		return .40
	}
	return 0
}
