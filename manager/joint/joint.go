// Package joint makes one manager of several that share a network, for those who operate it: what is asked of any of them is answered for all, and an
// order reaches the manager whose share it concerns. A question goes to the owner of a channel, or to all managers, whose answers are put together.
//
// There is one way to ask: a call with the question's name and its argument as JSON, which only managers of the network may make. It carries what a desk
// asks of a running manager (desk.Running), no pages and no files. It is not for what managers must agree on, such as who has which partition: that is in
// their database. What a manager that is away would have said is missing from an answer, and its figures too; an order for its channels waits in the database
// until their next owner reads it.
package joint

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"shoal/channel"
	"shoal/manager"
	"shoal/manager/desk"
)

// Config of a Running.
type Config struct {
	Own   desk.Running // this manager
	Store Channels
	Me    string // this manager's peer id
	// Owner is the peer id of the manager that has a host's partition; empty: none has it now.
	Owner func(channel.HostKey) string
	// Others are the managers that share the network, without this one.
	Others func() []Other
	// Ask asks another manager, which passes the request to its Answer.
	Ask func(ctx context.Context, peer string, req []byte) ([]byte, error)
	// Kept is what other managers, also those that have gone, had counted and noticed of members when they wrote it down last, by their peer ids. Nil: nothing is
	// told of those that have gone.
	Kept func(ctx context.Context) (map[string]manager.Overview, error)
	// Heard is a page of what peers have told this manager of their programs.
	Heard func(Heard) HeardPage
}

// Other is another manager.
type Other struct {
	Peer, Machine string
}

// Channels is what a Running reads of the channel database. manager.Store has it.
type Channels interface {
	Channel(ctx context.Context, id channel.ID) (channel.Channel, error)
	Matching(ctx context.Context, text string, from, n int) (ids []channel.ID, total int, err error)
}

// Running is all managers of a network as one. It implements desk.Running; its methods may be called by several goroutines.
type Running struct {
	desk.Running // this manager, for what is the same at each
	cfg          Config

	mu     sync.Mutex // guards what follows
	seen   map[string]*look
	kept   map[string]manager.Overview // as Config.Kept told when the other managers were these
	with   []string                    // peer ids
	silent map[string]bool             // managers that gave no answer when they were looked at last
}

var _ desk.Running = (*Running)(nil)

// New joins a manager with the others.
func New(cfg Config) *Running { return &Running{Running: cfg.Own, cfg: cfg, seen: map[string]*look{}} }

// Limits of an exchange.
const (
	Timeout   = 5 * time.Second
	MaxAsk    = 1 << 20
	MaxAnswer = 8 << 20
)

// asked is a request.
type asked struct {
	What string          `json:"what"`
	Of   json.RawMessage `json:"of,omitempty"`
}

// told is an answer: a value, or why there is none.
type told struct {
	Value json.RawMessage `json:"value,omitempty"`
	Error string          `json:"error,omitempty"`
	Kind  string          `json:"kind,omitempty"`
}

// kinds are the errors that an asker must tell apart.
var kinds = map[string]error{"ask": manager.ErrAsk, "unknown": channel.ErrUnknown, "stopped": manager.ErrStopped, "stale": channel.ErrStaleEpoch}

// far is an error of another manager.
type far struct {
	text string
	kind error
}

func (f *far) Error() string { return f.text }
func (f *far) Unwrap() error { return f.kind }

// errAway wraps why another manager gave no answer.
var errAway = errors.New("joint: a manager does not answer")

// question is one thing that managers ask each other.
type question[A, B any] struct {
	name string
	do   func(ctx context.Context, c *Config, of A) (B, error)
}

// ask asks another manager.
func (q question[A, B]) ask(ctx context.Context, c *Config, peer string, of A) (out B, err error) {
	ctx, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	arg, err := json.Marshal(of)
	if err != nil {
		return out, err
	}
	req, err := json.Marshal(asked{What: q.name, Of: arg})
	if err != nil {
		return out, err
	}
	b, err := c.Ask(ctx, peer, req)
	if err != nil {
		return out, fmt.Errorf("%w: %w", errAway, err)
	}
	var t told
	if err := json.Unmarshal(b, &t); err != nil {
		return out, fmt.Errorf("%w: what it says of %s cannot be read: %w", errAway, q.name, err)
	}
	if t.Error != "" {
		return out, &far{t.Error, kinds[t.Kind]}
	}
	if err := json.Unmarshal(t.Value, &out); err != nil {
		return out, fmt.Errorf("%w: what it says of %s cannot be read: %w", errAway, q.name, err)
	}
	return out, nil
}

// answer answers it.
func (q question[A, B]) answer(ctx context.Context, c *Config, of json.RawMessage) (any, error) {
	var a A
	if err := json.Unmarshal(of, &a); err != nil {
		return nil, err
	}
	return q.do(ctx, c, a)
}

// said is what a manager answered.
type said[B any] struct {
	by    Other
	value B
	err   error
}

// all asks every manager at once, this one first in what it returns.
func (q question[A, B]) all(ctx context.Context, c *Config, of A) []said[B] {
	others := c.Others()
	out := make([]said[B], 1+len(others))
	var wg sync.WaitGroup
	for i, o := range others {
		wg.Go(func() {
			out[i+1].by = o
			out[i+1].value, out[i+1].err = q.ask(ctx, c, o.Peer, of)
		})
	}
	out[0].by.Peer = c.Me
	out[0].value, out[0].err = q.do(ctx, c, of)
	wg.Wait()
	return out
}

// silent are the machines of the other managers that gave no answer.
func silent[B any](all []said[B]) (machines []string) {
	for _, x := range all[1:] {
		if x.err != nil {
			machines = append(machines, cmp.Or(x.by.Machine, x.by.Peer))
		}
	}
	slices.Sort(machines)
	return machines
}

// Answer answers what another manager asks.
func (r *Running) Answer(ctx context.Context, req []byte) ([]byte, error) {
	var a asked
	if err := json.Unmarshal(req, &a); err != nil {
		return nil, fmt.Errorf("joint: a question that cannot be read: %w", err)
	}
	answer, known := answers[a.What]
	var t told
	if !known {
		t.Error = fmt.Sprintf("this manager's version does not know %q: run one version at all managers", a.What)
		return json.Marshal(t)
	}
	v, err := answer(ctx, &r.cfg, a.Of)
	if err == nil {
		t.Value, err = json.Marshal(v)
	}
	if err != nil {
		t.Error = err.Error()
		for word, kind := range kinds {
			if errors.Is(err, kind) {
				t.Kind = word
			}
		}
	}
	return json.Marshal(t)
}

// owner is the other manager that has a channel; empty: this one has it, or none.
func (r *Running) owner(host string) string {
	if at := r.cfg.Owner(channel.KeyOf(host)); at != r.cfg.Me {
		return at
	}
	return ""
}
