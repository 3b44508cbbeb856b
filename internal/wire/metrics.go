package wire

import (
	"errors"
	"fmt"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/libp2p/go-libp2p/core/metrics"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"
	"github.com/prometheus/client_golang/prometheus"

	"shoal/internal/member"
	"shoal/internal/wire/sockets"
)

// numbers are a node's metrics. libp2p's own would land in the process's default registry, where eight hosts would be one.
type numbers struct {
	refused       *prometheus.CounterVec // by reason; reasons are ours, never the other side's words
	joined        prometheus.Counter
	served        *prometheus.CounterVec // by protocol and code
	servedSeconds *prometheus.HistogramVec
	called        *prometheus.CounterVec
	why           *tally
	traffic       *traffic
	packetsIn     *atomic.Int64
	packetsOut    *atomic.Int64
	registry      prometheus.Registerer
	rides         *atomic.Int64 // requests that came through the home
	punched       *atomic.Int64 // direct connections that began at a relay
}

func newNumbers(r prometheus.Registerer, sock *sockets.Sockets, connections func() (members, waiting int)) (*numbers, error) {
	m := &numbers{registry: r,
		refused: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "shoal_wire_refused_total",
			Help: "Connections, streams and messages refused, by reason."}, []string{"reason"}),
		joined: prometheus.NewCounter(prometheus.CounterOpts{Name: "shoal_wire_joined_total", Help: "Members admitted by this node."}),
		served: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "shoal_wire_served_total",
			Help: "Requests answered, by protocol and code."}, []string{"proto", "code"}),
		servedSeconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "shoal_wire_served_seconds",
			Help: "Time from a request's first byte asked for to its answer's last byte sent.", Buckets: []float64{.001, .01, .1, 1, 10, 100}}, []string{"proto"}),
		called: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "shoal_wire_called_total",
			Help: "Requests asked of others, by protocol and code."}, []string{"proto", "code"}),
		why:     &tally{n: map[string]int64{}},
		traffic: &traffic{}, rides: &atomic.Int64{}, punched: &atomic.Int64{},
	}
	m.packetsIn, m.packetsOut = sock.Packets()
	gauge := func(name, help string, f func() float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, f)
	}
	counter := func(name, help string, v *atomic.Int64) prometheus.Collector {
		return prometheus.NewCounterFunc(prometheus.CounterOpts{Name: name, Help: help}, func() float64 { return float64(v.Load()) })
	}
	for _, c := range []prometheus.Collector{m.refused, m.joined, m.served, m.servedSeconds, m.called,
		gauge("shoal_wire_members", "Connections to members.", func() float64 { members, _ := connections(); return float64(members) }),
		gauge("shoal_wire_waiting", "Connections that are not members' yet.", func() float64 { _, waiting := connections(); return float64(waiting) }),
		counter("shoal_wire_sent_bytes_total", "Bytes sent on streams.", &m.traffic.out),
		counter("shoal_wire_received_bytes_total", "Bytes received on streams.", &m.traffic.in),
		counter("shoal_wire_sent_packets_total", "QUIC packets and TCP writes sent.", m.packetsOut),
		counter("shoal_wire_received_packets_total", "QUIC packets and TCP reads received.", m.packetsIn),
		counter("shoal_wire_rides_total", "Requests of others that came through a server.", m.rides),
		counter("shoal_wire_punched_total", "Direct connections that began at a relay.", m.punched),
	} {
		if err := r.Register(c); err != nil {
			return nil, fmt.Errorf("wire: metrics: %w; each node needs a registry of its own", err)
		}
	}
	return m, nil
}

func (m *numbers) rejected(reason string) {
	m.refused.WithLabelValues(reason).Inc()
	m.why.mu.Lock()
	defer m.why.mu.Unlock()
	m.why.n[reason]++
}

// tally is the refusals once more, for a status.
type tally struct {
	mu sync.Mutex
	n  map[string]int64
}

// Refuse counts a refusal of what runs on the node. Reasons are the program's own words, never the other side's.
func (m *numbers) Refuse(reason string) { m.rejected(reason) }

// Refused are the connections, streams and messages refused since the node started, by reason.
func (m *numbers) Refused() map[string]int64 {
	m.why.mu.Lock()
	defer m.why.mu.Unlock()
	return maps.Clone(m.why.n)
}

// rejectedErr counts a refusal of ours by its reason.
func (m *numbers) rejectedErr(err error) {
	var s *Status
	if errors.As(err, &s) && s.Reason != "" {
		m.rejected(s.Reason)
		return
	}
	m.rejected(member.Reason(err))
}

// Metrics shows the node's metrics, if they are in a registry of its own; else nil.
func (m *numbers) Metrics() prometheus.Gatherer {
	g, _ := m.registry.(prometheus.Gatherer)
	return g
}

// Traffic is what streams have carried since the node started.
func (m *numbers) Traffic() (received, sent int64) { return m.traffic.in.Load(), m.traffic.out.Load() }

// Packets are how many were received and sent since the node started. QUIC's are packets; of TCP each read and write of a socket counts
// as one, keep-alives and acknowledgements of the system do not.
func (m *numbers) Packets() (received, sent int64) { return m.packetsIn.Load(), m.packetsOut.Load() }

// traffic counts bytes. libp2p's own counter keeps meters for each peer and a goroutine for the process.
type traffic struct {
	in, out atomic.Int64
	server  atomic.Pointer[heard] // nil: this node has not been connected to one
}

func (t *traffic) LogSentMessage(int64)                                   {}
func (t *traffic) LogRecvMessage(int64)                                   {}
func (t *traffic) LogSentMessageStream(n int64, _ protocol.ID, _ peer.ID) { t.out.Add(n) }
func (t *traffic) LogRecvMessageStream(n int64, _ protocol.ID, from peer.ID) {
	t.in.Add(n)
	if s := t.server.Load(); n > 0 && s != nil && s.from == from { // n is 0 for a stream that was given up
		s.now()
	}
}
func (t *traffic) GetBandwidthForPeer(peer.ID) metrics.Stats         { return metrics.Stats{} }
func (t *traffic) GetBandwidthForProtocol(protocol.ID) metrics.Stats { return metrics.Stats{} }
func (t *traffic) GetBandwidthTotals() metrics.Stats {
	return metrics.Stats{TotalIn: t.in.Load(), TotalOut: t.out.Load()}
}
func (t *traffic) GetBandwidthByPeer() map[peer.ID]metrics.Stats         { return nil }
func (t *traffic) GetBandwidthByProtocol() map[protocol.ID]metrics.Stats { return nil }
func (t *traffic) Reset()                                                {}
func (t *traffic) TrimIdle(time.Time)                                    {}
