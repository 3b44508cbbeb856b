package main

import (
	"bytes"
	"encoding/binary"
	"errors"
	"image"
	"image/color"
	"image/png"

	"shoal/peer/control"
	"shoal/peer/queue"
)

// trayCmd shows the running peer beside the clock. It is a process of its own: the peer works without it.
type trayCmd struct {
	Data string `help:"Folder of the peer." type:"path" placeholder:"DIR"`
}

// errNoDesktop says that there is no place for an icon.
var errNoDesktop = errors.New("no place for an icon")

// mood is what the icon shows.
type mood int

const (
	moodAway    mood = iota // no peer runs, or it has no connection: a ring
	moodResting             // paused, finishing or drained: two bars
	moodWorking             // a full disc; idle looks the same, since nothing is wrong
)

// trayView is what the icon and its menu show.
type trayView struct {
	mood  mood
	says  string // the peer's own sentence
	pause bool   // the menu offers a pause; otherwise it offers to go on
	there bool   // there is a peer to give orders to, with a page
}

// viewOf words the peer's answer.
func viewOf(st *status, err error) trayView {
	switch {
	case errors.Is(err, control.ErrNoAgent):
		return trayView{says: "No peer runs. Start it with: shoal-peer service start"}
	case err != nil:
		return trayView{says: brief(err.Error())}
	}
	v := trayView{says: st.Says, there: true, pause: true}
	switch st.State {
	case statePaused, stateFinishing, stateDraining:
		v.mood, v.pause = moodResting, st.Mode == queue.Open.String() // held by a limit, which resume would not end
	case stateWorking, stateIdle:
		v.mood = moodWorking
	}
	return v
}

// maxTip bounds the text beside the icon: Windows shows 127 characters.
const maxTip = 127

func (v *trayView) tip() string {
	r := []rune(v.says)
	if len(r) > maxTip {
		return string(r[:maxTip-1]) + "…"
	}
	return v.says
}

const iconSize = 32

// picture draws a mood: shapes that differ without colours too.
func picture(m mood) *image.NRGBA {
	img := image.NewNRGBA(image.Rect(0, 0, iconSize, iconSize))
	for y := range iconSize {
		for x := range iconSize {
			dx, dy := 2*x-iconSize+1, 2*y-iconSize+1 // from the middle, in half pixels
			r := dx*dx + dy*dy
			inside := r <= 29*29
			switch m {
			case moodAway:
				inside = inside && r >= 21*21
			case moodResting:
				inside = inside && (max(dx, -dx) > 13 || max(dx, -dx) < 4 || max(dy, -dy) > 15)
			}
			if inside {
				img.SetNRGBA(x, y, map[mood]color.NRGBA{moodAway: {0x80, 0x80, 0x80, 0xff}, moodResting: {0xd0, 0x8a, 0x1e, 0xff}, moodWorking: {0x1e, 0x9a, 0xb0, 0xff}}[m])
			}
		}
	}
	return img
}

// asPNG encodes a picture for Linux.
func asPNG(img image.Image) []byte {
	var b bytes.Buffer
	_ = png.Encode(&b, img) // a buffer takes all
	return b.Bytes()
}

// asICO encodes a picture for Windows: one bitmap of 32 bits a pixel, bottom row first, and a mask that is not used.
func asICO(img *image.NRGBA) []byte {
	w, h := img.Rect.Dx(), img.Rect.Dy()
	mask := (w + 31) / 32 * 4 * h
	size := 40 + 4*w*h + mask
	var b bytes.Buffer
	le := func(values ...any) {
		for _, v := range values {
			_ = binary.Write(&b, binary.LittleEndian, v) // a buffer takes all
		}
	}
	le(uint16(0), uint16(1), uint16(1), uint8(w), uint8(h), uint8(0), uint8(0), uint16(1), uint16(32), uint32(size), uint32(22))
	le(uint32(40), int32(w), int32(2*h), uint16(1), uint16(32), uint32(0), uint32(0), int32(0), int32(0), uint32(0), uint32(0))
	for y := h - 1; y >= 0; y-- {
		for x := range w {
			c := img.NRGBAAt(x, y)
			le([]byte{c.B, c.G, c.R, c.A})
		}
	}
	b.Write(make([]byte, mask))
	return b.Bytes()
}
