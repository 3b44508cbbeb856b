package main

import (
	"bytes"
	"encoding/binary"
	"errors"
	"image/png"
	"strings"
	"testing"

	"shoal/peer/control"
	"shoal/peer/queue"
)

// TestTrayView: the icon says what the peer says; it offers a pause where one helps, and to go on where the volunteer has paused.
func TestTrayView(t *testing.T) {
	at := func(state string, mode queue.Mode) *status {
		st := &status{State: state, Says: "It does " + state + "."}
		st.Mode = mode.String()
		return st
	}
	for _, x := range []struct {
		name         string
		st           *status
		err          error
		mood         mood
		there, pause bool
		says         string
	}{
		{"works", at(stateWorking, queue.Open), nil, moodWorking, true, true, "It does working."},
		{"idle", at(stateIdle, queue.Open), nil, moodWorking, true, true, "It does idle."},
		{"paused", at(statePaused, queue.Paused), nil, moodResting, true, false, "It does paused."},
		{"held by a limit", at(statePaused, queue.Open), nil, moodResting, true, true, "It does paused."},
		{"drained", at(stateDraining, queue.Drain), nil, moodResting, true, false, "It does draining."},
		{"cannot reach", at(stateAway, queue.Open), nil, moodAway, true, true, "It does away."},
		{"not there", nil, control.ErrNoAgent, moodAway, false, false, "shoal-peer service start"},
		{"trouble", nil, errors.New("the folder is not yours"), moodAway, false, false, "the folder is not yours"},
	} {
		v := viewOf(x.st, x.err)
		if v.mood != x.mood || v.there != x.there || v.pause != x.pause || !strings.Contains(v.says, x.says) {
			t.Errorf("%s: %+v", x.name, v)
		}
	}
	long := trayView{says: strings.Repeat("ä", 200)}
	if n := len([]rune(long.tip())); n != maxTip {
		t.Errorf("a tip of %d characters", n)
	}
}

// TestTrayPictures: each mood has a picture of its own shape, and both encodings hold it.
func TestTrayPictures(t *testing.T) {
	seen := map[string]mood{}
	for _, m := range []mood{moodAway, moodResting, moodWorking} {
		img := picture(m)
		shape := make([]byte, 0, iconSize*iconSize)
		for y := range iconSize {
			for x := range iconSize {
				shape = append(shape, img.NRGBAAt(x, y).A)
			}
		}
		if other, ok := seen[string(shape)]; ok {
			t.Errorf("moods %d and %d have one shape", m, other)
		}
		seen[string(shape)] = m
		back, err := png.Decode(bytes.NewReader(asPNG(img)))
		if err != nil || back.Bounds().Dx() != iconSize {
			t.Errorf("%v %v", back, err)
		}
		ico := asICO(img)
		if size, at := binary.LittleEndian.Uint32(ico[14:]), binary.LittleEndian.Uint32(ico[18:]); int(size+at) != len(ico) || at != 22 {
			t.Errorf("the icon's directory says %d bytes at %d of %d", size, at, len(ico))
		}
		middle := ico[22+40+4*(iconSize*(iconSize/2)+1):] // a pixel near the left edge
		if want := img.NRGBAAt(1, iconSize/2-1); middle[0] != want.B || middle[3] != want.A {
			t.Errorf("mood %d: pixel %v, want %v", m, middle[:4], want)
		}
	}
}
