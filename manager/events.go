package manager

import (
	"container/list"
	"slices"
	"time"

	"shoal/channel"
)

// Event is one thing that happened to a channel.
type Event struct {
	At   time.Time
	Gen  channel.Gen
	What string
	Peer string
	Note string
}

const (
	eventsKept  = 64   // of one channel
	eventsInAll = 1024 // channels with events; the least recently touched is forgotten
)

// events are what happened of late to the channels touched last.
type events struct {
	by  map[channel.ID]*list.Element
	lru *list.List // of *told, the one touched last in front
}

type told struct {
	id   channel.ID
	what []Event
}

func newEvents() events { return events{map[channel.ID]*list.Element{}, list.New()} }

func (e *events) add(id channel.ID, ev Event) {
	at, ok := e.by[id]
	if !ok {
		at = e.lru.PushFront(&told{id: id})
		e.by[id] = at
		if e.lru.Len() > eventsInAll {
			e.drop(e.lru.Back().Value.(*told).id)
		}
	}
	e.lru.MoveToFront(at)
	t := at.Value.(*told)
	if t.what = append(t.what, ev); len(t.what) > eventsKept {
		t.what = slices.Delete(t.what, 0, len(t.what)-eventsKept)
	}
}

// of are a channel's events, in their order.
func (e *events) of(id channel.ID) []Event {
	if at, ok := e.by[id]; ok {
		return slices.Clone(at.Value.(*told).what)
	}
	return nil
}

// repeat has what is known to have happened to a channel's task happen again, as the last of all. It reports whether it is known.
func (e *events) repeat(id channel.ID, now time.Time, gen channel.Gen, what, peer string) bool {
	at, ok := e.by[id]
	if !ok {
		return false
	}
	t := at.Value.(*told)
	for i, ev := range slices.Backward(t.what) {
		if ev.Gen == gen && ev.What == what && ev.Peer == peer {
			ev.At = now
			t.what = append(slices.Delete(t.what, i, i+1), ev)
			return true
		}
	}
	return false
}

func (e *events) drop(id channel.ID) {
	if at, ok := e.by[id]; ok {
		e.lru.Remove(at)
		delete(e.by, id)
	}
}
