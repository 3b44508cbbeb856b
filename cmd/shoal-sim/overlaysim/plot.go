package overlaysim

import (
	"fmt"
	"image/color"
	"math"
	"slices"
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"shoal/cmd/shoal-sim/figure"
	"shoal/coords"
)

// plane is the plane in which coordinates spread most: their first two principal components, by power iteration.
type plane struct {
	mean coords.Coord
	axes [2][coords.Dims]float64
}

func newPlane(at []coords.Coord) plane {
	var p plane
	n := float64(len(at))
	for i := range at {
		for k := range coords.Dims {
			p.mean.Vec[k] += at[i].Vec[k] / n
		}
	}
	var cov [coords.Dims][coords.Dims]float64
	for i := range at {
		for k := range coords.Dims {
			for l := range coords.Dims {
				cov[k][l] += (at[i].Vec[k] - p.mean.Vec[k]) * (at[i].Vec[l] - p.mean.Vec[l]) / n
			}
		}
	}
	for a := range p.axes {
		v := [coords.Dims]float64{}
		for k := range v {
			v[k] = 1 / float64(k+1+a)
		}
		for range 200 {
			var next [coords.Dims]float64
			for k := range next {
				for l := range next {
					next[k] += cov[k][l] * v[l]
				}
			}
			if a == 1 { // at right angles to the first
				dot := 0.
				for k := range next {
					dot += next[k] * p.axes[0][k]
				}
				for k := range next {
					next[k] -= dot * p.axes[0][k]
				}
			}
			norm := 0.
			for _, x := range next {
				norm += x * x
			}
			if norm = math.Sqrt(norm); norm < 1e-12 {
				break
			}
			for k := range next {
				v[k] = next[k] / norm
			}
		}
		p.axes[a] = v
	}
	return p
}

func (p *plane) point(at *coords.Coord) plotter.XY {
	var xy [2]float64
	for a := range p.axes {
		for k := range coords.Dims {
			xy[a] += (at.Vec[k] - p.mean.Vec[k]) * p.axes[a][k]
		}
	}
	return plotter.XY{X: xy[0], Y: xy[1]}
}

// shades go from near or idle to far or busy, told apart by the colour-blind and in grey (viridis).
var shades = []color.RGBA{{68, 1, 84, 255}, {70, 50, 127, 255}, {54, 92, 141, 255}, {39, 127, 142, 255}, {31, 161, 135, 255}, {74, 194, 109, 255},
	{159, 218, 58, 255}, {223, 200, 20, 255}, {244, 150, 20, 255}}

var (
	hostGrey = color.RGBA{200, 200, 200, 255}
	liarRed  = color.RGBA{213, 94, 0, 255}
	black    = color.RGBA{0, 0, 0, 255}
)

// plottedHosts is how many Web hosts a figure of the swarm shows.
const plottedHosts = 1500

// plotSwarm draws where peers and hosts are in coordinate space: once with the peers coloured by the ring in which one of them would put them, once by how busy
// they are if they are (s is not nil).
func plotSwarm(dir string, c *Command, n *network, s *swarm) error {
	var at []coords.Coord
	up := n.ups()
	for _, i := range up {
		at = append(at, n.members[i].node.Coord())
	}
	flat := newPlane(at)
	var hosts plotter.XYs
	known := n.records()
	for k := range min(c.Hosts, plottedHosts) {
		place := len(n.members) + k
		record := n.survey(place, known)
		if s != nil && s.hosts[place] != nil {
			record = s.hosts[place].record
		}
		if fit, ok := record.Fit(n.rng); ok {
			hosts = append(hosts, flat.point(&fit))
		}
	}
	eye := up[len(up)/2]
	own := n.members[eye].node.Coord()
	ring := func(i int) (int, string) {
		there := n.members[i].node.Coord()
		k := min(max(int(math.Log2(max(coords.Distance(&own, &there), 1))), 1), len(shades)) - 1
		if k == 0 {
			return 0, "< 4 ms"
		}
		return k, fmt.Sprintf("%d to %d ms", 2<<k, 4<<k)
	}
	title := fmt.Sprintf("%d peers by their distance from one of them", len(up))
	if err := scatter(dir, "swarm-rings", title, n, flat, up, hosts, eye, ring); err != nil || s == nil {
		return err
	}
	busy := func(i int) (int, string) {
		if s.crawlers[i] == nil {
			return 0, "0 tasks"
		}
		k := (s.crawlers[i].q.Running() + s.crawlers[i].q.Waiting()) / 2
		return k, fmt.Sprintf("%d or %d tasks", 2*k, 2*k+1)
	}
	return scatter(dir, "swarm-load", fmt.Sprintf("%d peers by their tasks, offered load %g", len(up), c.Load), n, flat, up, hosts, none, busy)
}

// scatter draws a swarm, its peers in the shades that of gives, with a name for each.
func scatter(dir, name, title string, n *network, flat plane, up []int, hosts plotter.XYs, eye int, of func(i int) (int, string)) error {
	f := figure.New(title, "first principal component of the coordinates (ms)", "second principal component (ms)")
	f.Legend.TextStyle.Font.Size = vg.Points(8)
	f.Legend.ThumbnailWidth = vg.Points(10)
	groups, names := make([]plotter.XYs, len(shades)), make([]string, len(shades))
	var liars, swallowers, one plotter.XYs
	for _, i := range up {
		at := n.members[i].node.Coord()
		k, label := of(i)
		groups[k], names[k] = append(groups[k], flat.point(&at)), label
		switch {
		case i == eye:
			one = append(one, flat.point(&at))
		case n.members[i].lies:
			liars = append(liars, flat.point(&at))
		case n.members[i].swallows:
			swallowers = append(swallowers, flat.point(&at))
		}
	}
	add := func(name string, points plotter.XYs, shape draw.GlyphDrawer, c color.Color, size vg.Length) error {
		if len(points) == 0 {
			return nil
		}
		p, err := plotter.NewScatter(points)
		if err != nil {
			return fmt.Errorf("plot %s: %w", name, err)
		}
		p.Shape, p.Color, p.Radius = shape, c, size
		f.Add(p)
		f.Legend.Add(name, p)
		return nil
	}
	err := add("Web hosts", hosts, draw.CircleGlyph{}, hostGrey, vg.Points(1))
	for k := range groups {
		if err == nil {
			err = add(names[k], groups[k], draw.CircleGlyph{}, shades[k], vg.Points(1.9))
		}
	}
	for _, g := range []struct {
		name   string
		points plotter.XYs
		shape  draw.GlyphDrawer
		c      color.Color
	}{{"liars", liars, draw.CrossGlyph{}, liarRed}, {"swallowers", swallowers, draw.BoxGlyph{}, liarRed}, {"that one", one, draw.PyramidGlyph{}, black}} {
		if err == nil {
			err = add(g.name, g.points, g.shape, g.c, vg.Points(3.5))
		}
	}
	if err != nil {
		return err
	}
	f.X.Max += .3 * (f.X.Max - f.X.Min) // for the legend
	// A millisecond is as long in both directions.
	const wide = 1.65 // the figure's inside over its height
	x, y := f.X.Max-f.X.Min, f.Y.Max-f.Y.Min
	if more := wide*y - x; more > 0 {
		f.X.Min, f.X.Max = f.X.Min-more/2, f.X.Max+more/2
	} else {
		f.Y.Min, f.Y.Max = f.Y.Min+more/wide/2, f.Y.Max-more/wide/2
	}
	for _, edge := range []*float64{&f.X.Min, &f.X.Max, &f.Y.Min, &f.Y.Max} {
		*edge = math.Round(*edge) // else the ticks' labels have decimals
	}
	_, err = f.Save(dir, name)
	return err
}

// logarithmic spreads an axis by the logarithm of its values, with a tick at each value that occurs.
func logarithmic(axis *plot.Axis, at []float64) {
	axis.Scale = plot.LogScale{}
	ticks := plot.ConstantTicks{}
	for _, v := range at {
		label := strconv.FormatFloat(v, 'f', -1, 64)
		if v >= 1000 {
			label = fmt.Sprintf("%d,%03d", int(v)/1000, int(v)%1000)
		}
		ticks = append(ticks, plot.Tick{Value: v, Label: label})
	}
	axis.Tick.Marker = ticks
}

// plotRows draws what the rows of a sweep or a scaling run show.
func plotRows(dir string, c *Command, rows []Row) error {
	switch {
	case c.Sweep:
		for _, f := range []struct {
			name, title, y string
			of             func(Row) float64
		}{
			{"load-goodput", "Goodput", "thousand pages of updates a minute", func(r Row) float64 { return r.Goodput }},
			{"load-success", "Success", "updates of the accepted tasks that have ended", func(r Row) float64 { return r.Success }},
			{"load-rtt", "Nearness", "median round trip of the chosen peer to the host (ms)", func(r Row) float64 { return r.RTT50 }},
		} {
			if err := lines(dir, f.name, f.title+" over offered load", "offered load", f.y, rows, func(r Row) float64 { return r.Load }, f.of); err != nil {
				return err
			}
		}
	case c.Scale:
		return plotScale(dir, rows)
	case c.Load == 0:
		return plotNearness(dir, rows)
	}
	return nil
}

// lines draws one line for each overlay, through the means over the seeds.
func lines(dir, name, title, x, y string, rows []Row, at, of func(Row) float64) error {
	f := figure.New(title, x, y)
	f.Y.Min = 0
	var overlays []string
	for _, r := range rows {
		if !slices.Contains(overlays, r.Overlay) {
			overlays = append(overlays, r.Overlay)
		}
	}
	top := 0.
	for _, o := range overlays {
		xs, ys := means(rows, o, at, of)
		if err := f.Marked(o, xs, ys); err != nil {
			return err
		}
		top = max(top, slices.Max(ys))
		logarithmic(&f.X, xs)
	}
	f.Y.Max = 1.5 * top // for the legend
	_, err := f.Save(dir, name)
	return err
}

// means are an overlay's points, over the seeds.
func means(rows []Row, overlay string, at, of func(Row) float64) (xs, ys []float64) {
	var count []float64
	for _, r := range rows {
		if r.Overlay != overlay {
			continue
		}
		k := slices.Index(xs, at(r))
		if k < 0 {
			k = len(xs)
			xs, ys, count = append(xs, at(r)), append(ys, 0), append(count, 0)
		}
		ys[k] += of(r)
		count[k]++
	}
	for k := range ys {
		ys[k] /= count[k]
	}
	return xs, ys
}

// plotScale draws what a lookup and a table cost over the size of the swarm, each as a multiple of what it is in the smallest one, beside log n: what grows no
// faster is below that line.
func plotScale(dir string, rows []Row) error {
	f := figure.New("What grows with the swarm", "peers", "multiple of the value with the fewest peers")
	f.Y.Min = 0
	top := 0.
	for _, l := range []struct {
		name string
		of   func(Row) float64
	}{
		{"log n", func(r Row) float64 { return math.Log2(float64(r.Peers)) }}, {"hops of a lookup", func(r Row) float64 { return r.Hops }},
		{"queries of a lookup", func(r Row) float64 { return r.Queries }}, {"entries of a table", func(r Row) float64 { return r.TableMean }},
		{"messages of a peer a minute", func(r Row) float64 { return r.Messages }},
	} {
		xs, ys := means(rows, "rings", func(r Row) float64 { return float64(r.Peers) }, l.of)
		first, last := ys[0], ys[len(ys)-1]
		if first == 0 {
			continue
		}
		for k := range ys {
			ys[k] /= first
		}
		if err := f.Marked(fmt.Sprintf("%s: %.3g to %.3g", l.name, first, last), xs, ys); err != nil {
			return err
		}
		top = max(top, slices.Max(ys))
		logarithmic(&f.X, xs)
	}
	f.Y.Max = 1.5 * top // for the legend
	_, err := f.Save(dir, "scale")
	return err
}

// plotNearness draws a bar for each overlay: how far the chosen peer is.
func plotNearness(dir string, rows []Row) error {
	var names []string
	var half, most plotter.Values
	for _, r := range rows {
		if !slices.Contains(names, r.Overlay) {
			names = append(names, r.Overlay)
			_, a := means(rows, r.Overlay, func(Row) float64 { return 0 }, func(r Row) float64 { return r.RTT50 })
			_, b := means(rows, r.Overlay, func(Row) float64 { return 0 }, func(r Row) float64 { return r.RTT90 })
			half, most = append(half, a[0]), append(most, b[0])
		}
	}
	f := figure.New("How far the chosen peer is from the host", "", "round trip (ms)")
	for k, v := range []plotter.Values{half, most} {
		bars, err := plotter.NewBarChart(v, vg.Points(14))
		if err != nil {
			return fmt.Errorf("plot nearness: %w", err)
		}
		bars.Color, bars.LineStyle.Width = shades[[]int{2, 6}[k]], 0
		bars.Offset = vg.Points(float64(14*k) - 7)
		f.Add(bars)
		f.Legend.Add([]string{"median", "ninth decile"}[k], bars)
	}
	f.NominalX(names...)
	f.X.Min, f.X.Max = -.6, float64(len(names))-.4
	f.Y.Min, f.Y.Max = 0, 1.15*slices.Max(most)
	f.Legend.Left = true
	f.Legend.XOffs = vg.Points(6)
	_, err := f.Save(dir, "nearness")
	return err
}
