//go:build linux || windows

package main

import (
	"context"
	"os"
	"os/exec"
	"runtime"
	"time"

	"fyne.io/systray"

	"shoal/peer/control"
)

// trayEvery is how often the icon asks the peer how it is.
const trayEvery = 5 * time.Second

// Run shows the icon until the user closes it or ctx ends.
func (c *trayCmd) Run(ctx context.Context, s streams, top *cli) error {
	ctx, left, err := desktop(ctx)
	if err != nil {
		return err
	}
	defer left()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	t := &trayIcon{ask: func(ctx context.Context) (*status, *control.Client, error) {
		cl, _, err := client(s, top, c.Data)
		if err != nil {
			return nil, nil, err
		}
		var st status
		err = cl.Status(ctx, &st)
		return &st, cl, err
	}, open: func() error { return openPage(ctx, top, c.Data) }}
	runtime.LockOSThread() // the windows of Windows belong to a thread
	defer runtime.UnlockOSThread()
	ended := make(chan struct{})
	systray.Run(func() {
		// The library gives no panel the menu before this returns, and on Linux it announces the menu once more shortly after the first panel has read it,
		// without a lock. So the menu is whole here.
		t.build()
		cl := t.look(ctx)
		go func() {
			defer close(ended)
			t.follow(ctx, cl)
			systray.Quit()
		}()
	}, cancel)
	<-ended
	return nil
}

// openPage has another process of this program open the page, as its command does.
func openPage(ctx context.Context, top *cli, data string) error {
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	args := []string{"open"}
	if top.Config != "" {
		args = append(args, "--config", top.Config)
	}
	if data != "" {
		args = append(args, "--data", data)
	}
	return exec.CommandContext(ctx, exe, args...).Run()
}

// trayIcon is the icon with its menu; it belongs to the goroutine that follows the peer.
type trayIcon struct {
	ask  func(context.Context) (*status, *control.Client, error)
	open func() error
	now  trayView

	says, pause, resume, page, quit *systray.MenuItem
}

// build makes the menu.
func (t *trayIcon) build() {
	t.says = systray.AddMenuItem("...", "")
	t.says.Disable()
	systray.AddSeparator()
	t.pause = systray.AddMenuItem("Pause for an hour", "Fetch nothing for an hour")
	t.resume = systray.AddMenuItem("Go on", "End the pause")
	t.page = systray.AddMenuItem("Open the page", "What this computer does, in your browser")
	for _, item := range []*systray.MenuItem{t.pause, t.resume, t.page} {
		item.Hide() // until a peer is there
	}
	systray.AddSeparator()
	t.quit = systray.AddMenuItem("Close this icon", "The peer goes on")
}

// follow shows what the peer does, and carries out what the user chooses. cl is the peer of the first look.
func (t *trayIcon) follow(ctx context.Context, cl *control.Client) {
	every := time.NewTicker(trayEvery)
	defer every.Stop()
	for ; ; cl = t.look(ctx) {
		var err error
		select {
		case <-ctx.Done():
			return
		case <-t.quit.ClickedCh:
			return
		case <-every.C:
		case <-t.pause.ClickedCh:
			err = instruct(ctx, cl, "pause", map[string]string{"for": "1h"})
		case <-t.resume.ClickedCh:
			err = instruct(ctx, cl, "resume", nil)
		case <-t.page.ClickedCh:
			err = t.open()
		}
		if err != nil && ctx.Err() == nil {
			t.says.SetTitle(brief(err.Error()))
			if pause(ctx, trayEvery) != nil { // long enough to be read
				return
			}
			t.now = trayView{says: err.Error()} // so that it is shown again
		}
	}
}

// instruct gives the peer an order, if there is one.
func instruct(ctx context.Context, cl *control.Client, order string, args map[string]string) error {
	if cl == nil {
		return control.ErrNoAgent
	}
	return cl.Do(ctx, order, args)
}

// look asks the peer and shows its answer.
func (t *trayIcon) look(ctx context.Context) *control.Client {
	asked, cancel := context.WithTimeout(ctx, trayEvery)
	defer cancel()
	st, cl, err := t.ask(asked)
	v := viewOf(st, err)
	if v == t.now {
		return cl
	}
	t.now = v
	img := picture(v.mood)
	if runtime.GOOS == "windows" {
		systray.SetIcon(asICO(img))
	} else {
		systray.SetIcon(asPNG(img))
	}
	systray.SetTitle("Shoal")
	systray.SetTooltip(v.tip())
	t.says.SetTitle(v.says)
	for item, is := range map[*systray.MenuItem]bool{t.pause: v.there && v.pause, t.resume: v.there && !v.pause, t.page: v.there} {
		if is {
			item.Show()
		} else {
			item.Hide()
		}
	}
	return cl
}
