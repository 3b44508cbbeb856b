package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"shoal/internal/lab/chaos"
	"shoal/internal/lab/clocklab"
	"shoal/internal/lab/rogue"
)

// fullLeft is what a disk has left that is called full: less than a manager keeps free, by default 256 MiB, and a peer, 500 MiB, or nothing.
var fullLeft = []int64{100 << 20, 0}

func leftOf(f chaos.Fault) int64 { return fullLeft[int(f.At/time.Millisecond)%len(fullLeft)] }

// chaosDown are the kinds whose end starts the manager again, if it has ended.
var chaosDown = []chaos.Kind{chaos.KillManager, chaos.EndManager, chaos.RotateKey, chaos.FullDisk, chaos.FailDisk}

func (c *chaosRun) begin(f chaos.Fault) {
	if strings.HasSuffix(string(f.Kind), "-peer") && f.Target >= c.cast.Peers || f.Target >= max(c.cast.Hosts, c.cast.Peers) {
		c.t.Fatalf("%v: there are %d peers and %d hosts", f, c.cast.Peers, c.cast.Hosts)
	}
	c.began[f.Kind]++
	c.alive() // one that may end by itself may just have done so
	if string(f.Kind) == os.Getenv(chaosPlantEnv) {
		if err := c.judge.Purged(chaosHost(0), time.Now()); err != nil {
			c.t.Fatal(err)
		}
	}
	if c.manager == nil && slices.Contains([]chaos.Kind{chaos.KillManager, chaos.StopManager, chaos.SuspendManager, chaos.EndManager, chaos.RotateKey}, f.Kind) {
		c.failed[f.Kind]++ // it has ended by itself, as it may
		c.spared[f.At] = true
		return
	}
	if slices.Contains(chaosDown, f.Kind) {
		c.down = true
	}
	host := chaosHost(f.Target)
	switch f.Kind {
	case chaos.KillPeer:
		c.peers[f.Target].kill()
		c.peers[f.Target] = nil
	case chaos.StopPeer, chaos.SuspendPeer:
		c.judge.StandsStill(time.Now())
		c.signal(c.peers[f.Target], syscall.SIGSTOP)
	case chaos.EndPeer:
		c.leaving[f.Target], c.peers[f.Target] = c.peers[f.Target], nil
		c.signal(c.leaving[f.Target], syscall.SIGTERM)
	case chaos.CutPeer:
		c.wires.cut(f.Target)
	case chaos.LossPeer:
		c.wires.lossy(f.Target)
	case chaos.DelayPeer:
		c.wires.delay(f.Target, f.Name)
	case chaos.StepPeer:
		c.clocks[f.Target].Step(c.step(f))
	case chaos.StepManager:
		by := c.step(f)
		c.clock.Step(by)
		c.behind = by <= -chaosFar
		c.misled[c.manager] = c.misled[c.manager] || c.behind
	case chaos.FullPeer:
		c.crowded[f.Target], c.met[c.peers[f.Target]] = true, true
		resize(c.t, c.dirs[f.Target], leftOf(f))
	case chaos.KillManager:
		c.manager.kill()
		c.manager = nil
	case chaos.StopManager, chaos.SuspendManager:
		c.signal(c.manager, syscall.SIGSTOP)
	case chaos.EndManager, chaos.RotateKey:
		c.ending, c.manager = c.manager, nil
		c.signal(c.ending, syscall.SIGTERM)
	case chaos.FullDisk:
		left := leftOf(f)
		c.mayEnd, c.scarce = left == 0, true
		c.met[c.manager] = true // it may be starting
		c.disk.fill(left)
	case chaos.HangDisk:
		c.disk.freeze()
	case chaos.SlowDisk:
		c.disk.slow()
	case chaos.FailDisk:
		c.mayEnd = true
		c.disk.fail()
	case chaos.LieNames:
		c.named.lies(f.Name)
	case chaos.Liar:
		c.lie(f)
	case chaos.Rogue:
		attack, err := rogue.Named(f.Name)
		if err != nil {
			c.t.Fatal(err)
		}
		c.takePart(f, attack)
	default:
		if !c.operate(f, host) {
			c.failed[f.Kind]++
		}
	}
}

// step is by how much a clock is wrong from now on. The judge is told.
func (c *chaosRun) step(f chaos.Fault) time.Duration {
	by, err := time.ParseDuration(f.Name)
	if err != nil {
		c.t.Fatal(err)
	}
	if !clocklab.Supported {
		c.failed[f.Kind]++
	}
	c.judge.Stepped(clockOf(f), by, time.Now())
	return by
}

func (c *chaosRun) righted(f chaos.Fault) { c.judge.Righted(clockOf(f), time.Now()) }

func clockOf(f chaos.Fault) string { return fmt.Sprint(f.Kind, f.Target) }

// operate asks the manager for what an operator asks for, and reports whether any of it was done.
func (c *chaosRun) operate(f chaos.Fault, host string) (done bool) {
	switch f.Kind {
	case chaos.Strategy:
		c.judge.Choosing(f.Name, time.Now())
		if done = c.ask(f.Kind, http.MethodPut, "/strategy", map[string]any{"name": f.Name}); done {
			c.judge.Chose()
		}
	case chaos.Block:
		return c.block(f.Kind, host, time.Now(), "/hosts/block")
	case chaos.Purge:
		c.gone[host] = true
		if err := c.judge.Purging(host); err != nil {
			c.t.Fatal(err)
		}
		at := time.Now()
		if done = c.block(f.Kind, host, at, "/hosts/purge"); done {
			if err := c.judge.Purged(host, at); err != nil {
				c.t.Fatal(err)
			}
		}
	case chaos.Remove:
		c.removing(host)
		for _, id := range c.channelsOf(f.Kind, host) {
			c.gone[host] = true
			done = c.ask(f.Kind, http.MethodDelete, fmt.Sprint("/channels/", id), nil) || done
		}
	case chaos.Import:
		return c.importList()
	case chaos.Split:
		return c.split(f)
	case chaos.Backup:
		c.backups++
		dir := filepath.Join(c.t.TempDir(), strconv.Itoa(c.backups))
		if done = c.ask(f.Kind, http.MethodPost, "/backup", map[string]any{"dir": dir}); done {
			c.backup = dir
		}
	case chaos.Compact:
		return c.ask(f.Kind, http.MethodPost, "/archive/compact?share=0.9", nil)
	default:
		c.t.Fatalf("no test injects %s", f.Kind)
	}
	return done
}

func (c *chaosRun) end(f chaos.Fault) {
	if c.spared[f.At] {
		return
	}
	if slices.Contains(chaosDown, f.Kind) {
		c.down = false
	}
	switch f.Kind {
	case chaos.KillPeer:
		c.startPeer(f.Target)
	case chaos.StopPeer:
		c.signal(c.peers[f.Target], syscall.SIGCONT)
		c.judge.GoesOn(time.Now())
	case chaos.EndPeer:
		c.hasEnded(c.leaving[f.Target])
		delete(c.leaving, f.Target)
		c.upgrade("shoal-peer")
		c.startPeer(f.Target)
	case chaos.CutPeer, chaos.LossPeer, chaos.DelayPeer:
		c.wires.mend(f.Target)
	case chaos.StepPeer:
		c.clocks[f.Target].Step(0)
		c.righted(f)
	case chaos.StepManager:
		c.clock.Step(0)
		c.righted(f)
		if c.alive(); c.manager == nil && !c.down {
			c.startManager()
		}
		c.behind = false
	case chaos.FullPeer:
		resize(c.t, c.dirs[f.Target], roomSize)
		c.crowded[f.Target] = false
		if c.alive(); c.peers[f.Target] == nil {
			c.startPeer(f.Target)
		}
	case chaos.SuspendPeer:
		c.clocks[f.Target].Slept(f.For)
		c.signal(c.peers[f.Target], syscall.SIGCONT)
		c.judge.GoesOn(time.Now())
	case chaos.SuspendManager:
		c.clock.Slept(f.For)
		c.signal(c.manager, syscall.SIGCONT)
	case chaos.KillManager:
		c.startManager()
	case chaos.StopManager:
		c.signal(c.manager, syscall.SIGCONT)
	case chaos.EndManager, chaos.RotateKey:
		c.hasEnded(c.ending)
		c.upgrade("shoal")
		if f.Kind == chaos.RotateKey {
			k := start(c.t, "shoal", "key", "rotate", "--data", c.data())
			if <-k.done; k.cmd.ProcessState.ExitCode() != 0 {
				c.t.Errorf("key rotate: %s", k.said())
			}
		}
		c.startManager()
	case chaos.FullDisk:
		c.disk.empty()
		c.alive()
		if c.mayEnd, c.scarce = false, false; c.manager == nil {
			c.startManager()
		}
	case chaos.HangDisk:
		c.disk.thaw()
	case chaos.SlowDisk:
		c.disk.brisk()
	case chaos.FailDisk:
		if c.alive(); c.manager != nil {
			c.manager.kill()
		}
		c.mayEnd = false
		c.disk.renew()
		c.startManager()
	case chaos.LieNames:
		if c.named.lies("") == 0 { // nobody has heard it
			c.failed[f.Kind]++
		}
	case chaos.Rogue, chaos.Liar:
		c.rogues[f.At]()
	case chaos.Block:
		c.unblock(chaosHost(f.Target))
	case chaos.Import:
		for _, host := range c.named.hosts[chaosNamed:] {
			c.removing(host)
			for _, id := range c.channelsOf(f.Kind, host) {
				c.ask(f.Kind, http.MethodDelete, fmt.Sprint("/channels/", id), nil)
			}
		}
	case chaos.Purge, chaos.Remove:
		if host := chaosHost(f.Target); c.gone[host] {
			c.back(f.Kind, host)
		}
	}
}

// removing tells the judge that channels of a host are to be removed.
func (c *chaosRun) removing(host string) {
	if err := c.judge.Removing(host); err != nil {
		c.t.Fatal(err)
	}
}

// upgrade has a program go on in its present version.
func (c *chaosRun) upgrade(program string) {
	if c.old[program] {
		c.old[program] = false
		c.upgrades++
	}
}

// chaosEnds is how long a program that was asked to end may take on a busy machine, with a manager that is down or a disk that hangs.
const chaosEnds = time.Minute

// clockBehind is what a manager says that starts with a clock far behind, and ends.
const clockBehind = "the clock of this computer is behind"

// hasEnded waits for a program that was asked to end, and expects success.
func (c *chaosRun) hasEnded(p *process) {
	for over, ended := c.own.bound(chaosEnds), false; !ended; {
		select {
		case <-p.done:
			ended = true
		case <-time.After(time.Second / 10):
			if over() {
				_ = p.cmd.Process.Signal(syscall.SIGQUIT)
				<-p.done
				c.t.Errorf("%s has not ended %v after it was asked to:\n%s", p.name, chaosEnds, p.said())
				return
			}
		}
	}
	if is, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus); ok && is.Signaled() && is.Signal() == syscall.SIGTERM {
		return // it was asked before it had begun to listen
	}
	if code := p.cmd.ProcessState.ExitCode(); code != 0 && !strings.Contains(p.said(), clockBehind) {
		c.t.Errorf("%s was asked to end and ended with status %d:\n%s", p.name, code, lastLines(p.said(), 10))
	}
}

// signal reaches nothing where a program has ended by itself. Whether it might is for alive.
func (c *chaosRun) signal(p *process, s os.Signal) {
	if p == nil {
		return
	}
	if err := p.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		c.t.Errorf("%s: %v", p.name, err)
	}
}

// block asks for what blocks a host at once, and reports whether it was done.
func (c *chaosRun) block(k chaos.Kind, host string, at time.Time, path string) bool {
	c.blocked[host] = true
	if err := c.judge.Blocking(host, at); err != nil {
		c.t.Fatal(err)
	}
	if !c.ask(k, http.MethodPost, path, map[string]any{"host": host, "why": "chaos", "unknown": true}) {
		return false
	}
	if err := c.judge.Blocked(host, at); err != nil {
		c.t.Fatal(err)
	}
	return true
}

// unblock asks to lift a block. From that moment on the host may be fetched, whether the manager answers or not.
func (c *chaosRun) unblock(host string) {
	// A block that was not acknowledged, as the manager was down, is none, or is lifted in the end.
	if err := c.judge.Unblocked(host, time.Now()); err == nil {
		c.lift(chaos.Block, host)
	}
}

// lift asks to lift a block of which the judge was told that it is over, and reports whether it was done.
func (c *chaosRun) lift(k chaos.Kind, host string) bool {
	if !c.ask(k, http.MethodPost, "/hosts/unblock", map[string]any{"host": host}) {
		return false
	}
	if err := c.judge.Lifted(host); err != nil {
		c.t.Fatal(err)
	}
	return true
}

// back imports a host again that was removed or taken down.
func (c *chaosRun) back(k chaos.Kind, host string) {
	_ = c.judge.Unblocked(host, time.Now()) // it may not have come to a block
	unblocked := !c.blocked[host] || c.lift(k, host)
	if unblocked && c.send(k, http.MethodPost, "/channels/import?name=list.txt", []byte("http://"+host+"/\n")) {
		delete(c.gone, host)
		c.imports++
	}
}

// channelsOf are the channels of a host.
func (c *chaosRun) channelsOf(k chaos.Kind, host string) (ids []int64) {
	var list struct {
		Channels []struct {
			ID   int64
			Host string
		}
	}
	for from := 0; ; from += len(list.Channels) {
		body, ok := c.answer(k, http.MethodGet, fmt.Sprintf("/channels?n=1000&from=%d", from), nil)
		list.Channels = nil
		if !ok || json.Unmarshal(body, &list) != nil || len(list.Channels) == 0 {
			return ids
		}
		for _, r := range list.Channels {
			if r.Host == "http://"+host {
				ids = append(ids, r.ID)
			}
		}
	}
}

// chaosList is how many known hosts are in a list that is imported.
const chaosList = 50

// importList imports hosts that are new, and beside them some that are known, which must change nothing.
func (c *chaosRun) importList() (done bool) {
	var list strings.Builder
	for _, host := range c.named.hosts[chaosNamed:] {
		fmt.Fprintf(&list, "http://%s/\n", host)
	}
	for i := range min(chaosList, c.cast.Hosts) {
		if host := chaosHost(i); !c.gone[host] {
			fmt.Fprintf(&list, "http://%s/\n", host)
		}
	}
	return c.send(chaos.Import, http.MethodPost, "/channels/import?name=list.txt", []byte(list.String()))
}

// split makes the first directory of a large host a channel of its own, unless that was done before.
func (c *chaosRun) split(f chaos.Fault) (done bool) {
	var large []int
	for n, h := range c.world.Hosts()[:c.cast.Hosts] {
		if strings.HasSuffix(c.world.Path(n, min(1, h.Pages-1)), "/") && h.Pages > 1 {
			large = append(large, n)
		}
	}
	if len(large) == 0 {
		c.t.Fatal("no host of the pond has a directory")
	}
	n := large[f.Target%len(large)]
	ids := c.channelsOf(f.Kind, chaosHost(n))
	return len(ids) == 1 && c.ask(f.Kind, http.MethodPost, fmt.Sprintf("/channels/%d/split", ids[0]), map[string]any{"dirs": []string{c.world.Path(n, 1)}})
}

// chaosAnswer is how long the operator waits for an answer of a manager that may be stopped.
const chaosAnswer = 3 * time.Second

// ask sends an operator's request and reports whether the manager did it.
func (c *chaosRun) ask(k chaos.Kind, method, path string, in any) bool {
	b, err := json.Marshal(in)
	if err != nil {
		c.t.Fatal(err)
	}
	return c.send(k, method, path, b)
}

func (c *chaosRun) send(k chaos.Kind, method, path string, body []byte) bool {
	_, ok := c.answer(k, method, path, body)
	return ok
}

// answer sends a request and returns the answer. A manager that is there and refuses is an error, unless it says that it cannot work now.
func (c *chaosRun) answer(k chaos.Kind, method, path string, in []byte) (out []byte, ok bool) {
	status, body, err := c.page.ask(c.t, chaosAnswer+c.rest(), method, path, in)
	if err != nil {
		c.vain[k]++
		c.lately = err.Error()
		return nil, false
	}
	if status == http.StatusOK {
		return body, true
	}
	c.judge.Told(method+" "+path, string(body))
	switch {
	case status >= 500: // it starts or ends, or its disk is full
		c.vain[k]++
		c.lately = string(body)
	case status == http.StatusBadRequest && path == "/hosts/unblock" && strings.Contains(string(body), "is not blocked"): // its block came to nothing
		return body, true
	case status == http.StatusBadRequest && path == "/peers/purge" && strings.Contains(string(body), "has delivered nothing"): // nor is it known since the manager's start
		return body, true
	case status == http.StatusNotFound && slices.Contains([]chaos.Kind{chaos.Remove, chaos.Import, chaos.Split}, k): // gone meanwhile
	default:
		c.t.Errorf("%s: %s %s: %d: %.300s", k, method, path, status, body)
	}
	return nil, false
}

// backedUp has the program restore the newest backup that the manager said to have written, and read all of it. The judge knows no files.
func (c *chaosRun) backedUp() {
	if c.backup == "" {
		return
	}
	data := filepath.Join(c.t.TempDir(), "restored")
	for _, args := range [][]string{{"restore", c.backup, "--data", data}, {"archive", "verify", "--data", data}} {
		p := start(c.t, "shoal", args...)
		if <-p.done; p.cmd.ProcessState.ExitCode() != 0 {
			c.t.Errorf("the newest of %d backups is damaged: shoal %v: %s\n%s", c.backups, args, p.out.String(), lastLines(p.said(), 10))
			return
		}
	}
}

// texts has the judge look at what programs have said that shows how they are made, and not what happened.
func (c *chaosRun) texts() {
	for _, p := range c.all {
		for _, line := range strings.Split(p.said(), "\n") {
			if crude(line, c.met[p]) {
				c.judge.Told(p.name, line)
			}
		}
	}
}
