package manager

import (
	"context"
	"errors"
	"testing"
	"time"
)

// TestRequestsGivenUp has callers give their requests up before the loop comes to them. Nothing is done for them any more: what a request would
// have changed is the caller's again, and may be read or used for something else.
func TestRequestsGivenUp(t *testing.T) {
	i := newInbox(time.Now)
	i.begin()
	ctx, giveUp := context.WithCancel(t.Context())
	giveUp()
	for range 20 { // whether a request is queued then is up to chance
		batch := []int{1, 2, 3}
		err := i.onLoop(ctx, func(time.Time) { batch[0]++ })
		if !errors.Is(err, context.Canceled) {
			t.Fatalf("a request that is given up: %v", err)
		}
		i.drain()
		if batch[0] != 1 {
			t.Fatal("a request ran that its caller had given up")
		}
	}
}

// TestRequestsUnderWay has a caller give a request up while the loop runs it: the caller goes on when that is over, as the request may be writing what the
// caller reads next.
func TestRequestsUnderWay(t *testing.T) {
	i := newInbox(time.Now)
	i.begin()
	ctx, giveUp := context.WithCancel(t.Context())
	began, goOn := make(chan struct{}), make(chan struct{})
	loop := make(chan struct{})
	go func() {
		defer close(loop)
		(<-i.requests)(time.Now())
	}()
	go func() {
		<-began
		giveUp()
		close(goOn)
	}()
	out := 0
	err := i.onLoop(ctx, func(time.Time) {
		close(began)
		<-goOn
		out = 1
	})
	if out != 1 || err != nil {
		t.Errorf("a request under way when it was given up: %d, %v", out, err)
	}
	<-loop
}

// TestRequestsAfterTheEnd asks a loop that has ended: the answer is that it has, also for those that wait without end.
func TestRequestsAfterTheEnd(t *testing.T) {
	i := newInbox(time.Now)
	i.begin()
	waits := make(chan error)
	go func() { waits <- i.surely(func(time.Time) { t.Error("an ended loop ran a request") }) }()
	close(i.ended)
	if err := <-waits; !errors.Is(err, ErrStopped) {
		t.Errorf("a request that waited when the loop ended: %v", err)
	}
	for range 2 * inboxBurst { // more than are queued
		if err := i.surely(func(time.Time) { t.Error("an ended loop ran a request") }); !errors.Is(err, ErrStopped) {
			t.Fatalf("a request after the loop's end: %v", err)
		}
	}
}
