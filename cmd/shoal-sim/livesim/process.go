package livesim

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// process is a running program whose words go to a file.
type process struct {
	name string
	cmd  *exec.Cmd
	log  *os.File
	out  io.ReadCloser
	done chan struct{} // closed when it has ended
	err  error         // valid then
}

const endTime = 15 * time.Second // that a program has to end when it is asked to

// start runs a program. Its standard error, and its standard output unless piped, go to dir/name.log.
func start(bin, dir, name string, piped bool, program string, args ...string) (*process, error) {
	log, err := os.OpenFile(filepath.Join(dir, name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("a file for the words of %s: %w", name, err)
	}
	p := &process{name: name, cmd: exec.Command(filepath.Join(bin, program), args...), log: log, done: make(chan struct{})}
	p.cmd.Stderr, p.cmd.Stdout = log, log
	if piped {
		p.cmd.Stdout = nil
		if p.out, err = p.cmd.StdoutPipe(); err != nil {
			return nil, errors.Join(err, log.Close())
		}
	}
	if err := p.cmd.Start(); err != nil {
		return nil, errors.Join(fmt.Errorf("start %s: %w", program, err), log.Close())
	}
	if !piped {
		go p.wait()
	}
	return p, nil
}

func (p *process) wait() {
	p.err = p.cmd.Wait()
	_ = p.log.Close() // the program wrote it, not we
	close(p.done)
}

// firstLine reads the first line of its standard output, and leaves the rest.
func (p *process) firstLine(ctx context.Context) (string, error) {
	type read struct {
		line string
		err  error
	}
	got := make(chan read, 1)
	go func() {
		r := bufio.NewReader(p.out)
		line, err := r.ReadString('\n')
		got <- read{line, err}
		_, _ = io.Copy(io.Discard, r) // until it ends
		p.wait()
	}()
	select {
	case r := <-got:
		if r.err != nil {
			return "", fmt.Errorf("%s ended before it was ready: %s", p.name, p.said())
		}
		return strings.TrimSpace(r.line), nil
	case <-ctx.Done():
		return "", ctx.Err()
	case <-time.After(time.Minute):
		return "", fmt.Errorf("%s is not ready after a minute: %s", p.name, p.said())
	}
}

// said is the end of what it wrote.
func (p *process) said() string {
	b, err := os.ReadFile(p.log.Name())
	if err != nil {
		return err.Error()
	}
	return strings.TrimSpace(string(b[max(len(b)-1000, 0):]))
}

// running says whether it has not ended.
func (p *process) running() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// ask asks it to end; end waits for that, and kills what does not.
func (p *process) ask() {
	if p.cmd.Process.Signal(os.Interrupt) != nil { // it has ended, or the system knows no such signal
		_ = p.cmd.Process.Kill()
	}
}

func (p *process) end() {
	p.ask()
	select {
	case <-p.done:
	case <-time.After(endTime):
		p.kill()
	}
}

func (p *process) kill() {
	_ = p.cmd.Process.Kill() // it may have ended
	<-p.done
}

func wait(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}
