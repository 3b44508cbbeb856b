package e2e

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// axeScript is axe-core, which finds what keeps people with a keyboard or a screen reader from using a page. It comes from the npm registry.
func axeScript(t *testing.T) string {
	t.Helper()
	const why = "SHOAL_AXE names no folder: cd FOLDER; npm install axe-core@4.10.3"
	if dir := os.Getenv("SHOAL_AXE"); dir != "" {
		script, err := os.ReadFile(filepath.Join(dir, "node_modules", "axe-core", "axe.min.js"))
		if err != nil {
			t.Fatal(err)
		}
		return string(script)
	}
	if os.Getenv("SHOAL_TEST_STRICT") == "1" {
		t.Fatal(why)
	}
	t.Skip(why)
	return ""
}

// fault is a rule of axe-core that a page breaks.
type fault struct {
	ID, Impact, Help string
	Nodes            []struct {
		Target  []any
		Summary string `json:"failureSummary"`
	}
}

// operatorPages are all pages, each with a text that it shows.
var operatorPages = []struct{ path, shows string }{
	{"/", "Errors by kind"}, {"/channels", "Add sites"}, {"/channels?state=active", "Add sites"}, {"/channel/1", "What happened"}, {"/channel/1/split", "Further directories"},
	{"/hosts", "Block a host"}, {"/peers", "coordinate space"}, {"/strategy", "Recrawl strategy"}, {"/strategy?try=price", "for the next"},
	{"/login", "operator.token"}, {"/nowhere", "There is no such page"},
}

// TestPagesForAll looks at every page with axe-core, on a wide screen and a phone's, light and dark: nothing serious is wrong. With SHOAL_PICTURES it
// leaves a picture of each in that folder.
func TestPagesForAll(t *testing.T) {
	drivesPrograms(t)
	t.Parallel()
	axe := axeScript(t)
	b := openBrowser(t)
	p := start(t, "shoal", "up", "--peers", "2", "--hosts", "12", "--pages", "60", "--data", t.TempDir(), "--page", "127.0.0.1:0", "--board", "127.0.0.1:0")
	g, board := pageOf(p, "page "), p.word("board ")
	p.until("has an update", func() bool { return g.overview().Updates > 0 })
	b.open(g.base+"/login", "Log in as operator")
	b.eval("document.querySelector('main label').replaceWith(document.querySelector('input[name=token]')); true")
	if f := b.faults(axe); len(f) != 1 || f[0].ID != "label" {
		t.Errorf("a field without a label is found as %+v", f)
	}
	b.open(g.base+"/login", "Log in as operator")
	b.navigate(fmt.Sprintf("document.querySelector('input[name=token]').value = %q; document.querySelector('main form').submit()", g.token))
	b.shows("Log out")
	for _, page := range append(operatorPages, struct{ path, shows string }{board, "Nobody is listed here"}) {
		if page.path == board {
			b.open(board, page.shows)
			page.path = "/board"
		} else {
			b.open(g.base+page.path, page.shows)
		}
		for _, width := range []int{1280, 360} {
			b.call(b.session, "Emulation.setDeviceMetricsOverride", map[string]any{"width": width, "height": 740, "deviceScaleFactor": 1, "mobile": width < 500}, nil)
			for _, light := range []string{"light", "dark"} {
				b.call(b.session, "Emulation.setEmulatedMedia", map[string]any{"features": []map[string]string{{"name": "prefers-color-scheme", "value": light}}}, nil)
				where := fmt.Sprintf("%s, %d pixels wide, %s", page.path, width, light)
				b.picture(fmt.Sprintf("%s-%d-%s", strings.Trim(strings.NewReplacer("/", "_", "?", "_", "=", "_").Replace(page.path), "_"), width, light))
				if over := b.eval("document.documentElement.scrollWidth - document.documentElement.clientWidth"); over != "0" { // a bar to scroll down takes room too
					t.Errorf("%s: the page is %s pixels wider than its window", where, over)
				}
				for _, f := range b.faults(axe, rulesOf(light)...) {
					t.Errorf("%s: %s: %s: %s", where, f.Impact, f.Help, f.places())
				}
			}
		}
	}
	p.end()
}

// rulesOf are the rules to look at in a colour scheme; none: all. In the dark only colours differ, and all else was looked at in the light.
func rulesOf(light string) []string {
	if light == "dark" {
		return []string{"color-contrast", "link-in-text-block"}
	}
	return nil
}

// faults runs axe-core in the page that is shown, all of it or some rules, and gives what is serious or worse.
func (b *browser) faults(axe string, rules ...string) []fault {
	b.t.Helper()
	if b.eval("!!window.axe") != "true" { // half a megabyte, once for each page
		b.eval(axe + "; true")
	}
	only := ""
	if len(rules) > 0 {
		only = ", runOnly: ['" + strings.Join(rules, "','") + "']"
	}
	var r struct {
		Result struct{ Value string }
	}
	b.call(b.session, "Runtime.evaluate", map[string]any{"awaitPromise": true, "returnByValue": true,
		"expression": "axe.run(document, {resultTypes: ['violations']" + only + "}).then(r => JSON.stringify(r.violations.filter(v => v.impact === 'serious' || v.impact === 'critical')))"}, &r)
	var out []fault
	if err := json.Unmarshal([]byte(r.Result.Value), &out); err != nil {
		b.t.Fatalf("axe-core said %.200q: %v", r.Result.Value, err)
	}
	return out
}

// places are the first places where a page breaks a rule.
func (f fault) places() string {
	var at []string
	for _, n := range f.Nodes[:min(3, len(f.Nodes))] {
		at = append(at, fmt.Sprint(n.Target, " ", strings.ReplaceAll(n.Summary, "\n", " ")))
	}
	return fmt.Sprintf("%d places: %s", len(f.Nodes), strings.Join(at, "; "))
}

// picture keeps a picture of the whole page in the folder that SHOAL_PICTURES names, if it names one.
func (b *browser) picture(name string) { b.t.Helper(); b.pictureOf(name, nil) }

// pictureOf is picture for a part of the page, as the browser's protocol names it; nil: all of it.
func (b *browser) pictureOf(name string, clip map[string]any) {
	b.t.Helper()
	dir := os.Getenv("SHOAL_PICTURES")
	if dir == "" {
		return
	}
	var shot struct{ Data string }
	how := map[string]any{"format": "png", "captureBeyondViewport": true}
	if clip != nil {
		how["clip"] = clip
	}
	b.call(b.session, "Page.captureScreenshot", how, &shot)
	shown, err := base64.StdEncoding.DecodeString(shot.Data)
	if err == nil {
		shown, err = fewColours(shown)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, name+".png"), shown, 0o644)
	}
	if err != nil {
		b.t.Fatal(err)
	}
}

// colours is how many colours a picture keeps: pages have few, and a picture with a palette takes a third of the room. Of the rare ones it keeps those that
// are the least like any other, such as a legend's.
const colours, rare = 160, 60

// unlike is how far a colour is from the nearest of a palette.
func unlike(p color.Palette, c color.RGBA) (sum int) {
	n := p.Convert(c).(color.RGBA)
	for _, d := range []int{int(n.R) - int(c.R), int(n.G) - int(c.G), int(n.B) - int(c.B)} {
		sum += d * d
	}
	return sum
}

// fewColours turns a PNG into one with a palette of its most frequent colours. The others become the nearest of these.
func fewColours(in []byte) ([]byte, error) {
	img, err := png.Decode(bytes.NewReader(in))
	if err != nil {
		return nil, err
	}
	count := map[color.RGBA]int{}
	box := img.Bounds()
	at := func(x, y int) color.RGBA { return color.RGBAModel.Convert(img.At(x, y)).(color.RGBA) }
	for y := box.Min.Y; y < box.Max.Y; y++ {
		for x := box.Min.X; x < box.Max.X; x++ {
			count[at(x, y)]++
		}
	}
	most := slices.SortedFunc(maps.Keys(count), func(a, b color.RGBA) int { return cmp.Compare(count[b], count[a]) })
	var palette color.Palette
	for _, c := range most[:min(colours-rare, len(most))] {
		palette = append(palette, c)
	}
	for len(palette) < min(colours, len(most)) {
		palette = append(palette, slices.MaxFunc(most, func(a, b color.RGBA) int { return cmp.Compare(unlike(palette, a), unlike(palette, b)) }))
	}
	index := map[color.RGBA]uint8{}
	for c := range count {
		index[c] = uint8(palette.Index(c))
	}
	out := image.NewPaletted(box, palette)
	for y := box.Min.Y; y < box.Max.Y; y++ {
		for x := box.Min.X; x < box.Max.X; x++ {
			out.SetColorIndex(x, y, index[at(x, y)])
		}
	}
	var b bytes.Buffer
	err = (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&b, out)
	return b.Bytes(), err
}
