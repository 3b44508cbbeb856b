package main

import (
	"math"
	"runtime/metrics"
	"time"

	"shoal/peer/limit"
	"shoal/peer/words"
)

// machineChecks says what is known of the computer's use, and which source is believed.
func (p *program) machineChecks(add func(name, level string, says words.Text)) {
	p.useChecks(add)
	if busy := p.busy.Load(); busy >= 0 {
		add("busy", levelOK, words.T("health.busy.says", busy))
	} else {
		add("busy", levelNote, words.T("health.unknown"))
	}
	memory := words.Num(memoryMiB())
	switch share := math.Float64frombits(p.share.Load()); {
	case p.busy.Load() < 0:
		add("own", levelOK, words.T("health.own.memory", memory))
	case share < 1:
		add("own", levelOK, words.T("health.own.little", memory))
	default:
		add("own", levelOK, words.T("health.own.says", int(share+.5), memory))
	}
	for _, c := range []struct {
		name string
		ask  func() (bool, error)
	}{{"battery", limit.OnBattery}, {"metered", limit.OnMetered}} {
		switch on, err := c.ask(); {
		case err != nil:
			add(c.name, levelNote, words.T("health.unknown"))
		case on:
			add(c.name, levelOK, words.T("health."+c.name+".on"))
		default:
			add(c.name, levelOK, words.T("health."+c.name+".off"))
		}
	}
}

func (p *program) useChecks(add func(name, level string, says words.Text)) {
	u, last := p.use.Load(), p.looked.Swap(time.Now().Unix())
	if time.Since(time.Unix(last, 0)) > lookedFor {
		wake(p.wake) // to be asked at once
	}
	if u == nil {
		add("use", levelNote, words.T("health.use.soon"))
		return
	}
	if u.Believed == "" {
		add("use", levelNote, words.T("health.use.unknown"))
	} else {
		add("use", levelOK, words.T("health.use.says", trialText(limit.Trial{Known: true, InUse: u.InUse, Idle: u.Idle}), words.T("use.by."+u.Believed)))
	}
	for _, t := range u.Trials {
		level := levelOK
		if !t.Known {
			level = levelNote
		}
		add("asked", level, words.T("health.asked.says", words.T("use.by."+t.Source), trialText(t)))
	}
	switch {
	case u.FullBy == "":
		add("full", levelNote, words.T("health.full.unknown"))
	case u.Full:
		add("full", levelOK, words.T("health.full.on", fullBy(u.FullBy)))
	default:
		add("full", levelOK, words.T("health.full.off", fullBy(u.FullBy)))
	}
}

// memoryMiB is the memory that this program has of the system, without the program's own file.
func memoryMiB() int {
	of := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	metrics.Read(of)
	return int((of[0].Value.Uint64() - of[1].Value.Uint64()) >> 20)
}

// fullBy names what told of a full screen.
func fullBy(source string) words.Text {
	if source == limit.SourceWindow {
		return words.T("use.by.window")
	}
	return words.Raw(source)
}

// trialText says what a source said.
func trialText(t limit.Trial) words.Text {
	switch {
	case !t.Known:
		return words.T("use.untold", t.Why)
	case t.InUse:
		return words.T("use.inuse")
	case t.Idle > 0:
		return words.T("use.idle", words.Span(t.Idle))
	}
	return words.T("use.free")
}
