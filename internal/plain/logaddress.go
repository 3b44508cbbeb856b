package plain

import (
	"context"
	"log/slog"
	"net/netip"
	"regexp"
)

// CutAddresses returns a handler that passes records on with every IP address cut to its network: /24 for IPv4, /48 for IPv6. A company's log then says
// where trouble comes from, and not from whose computer.
func CutAddresses(next slog.Handler) slog.Handler { return cutter{next} }

type cutter struct{ next slog.Handler }

func (c cutter) Enabled(ctx context.Context, l slog.Level) bool { return c.next.Enabled(ctx, l) }

func (c cutter) Handle(ctx context.Context, r slog.Record) error {
	out := slog.NewRecord(r.Time, r.Level, cutText(r.Message), r.PC)
	r.Attrs(func(a slog.Attr) bool {
		out.AddAttrs(cutAttr(a))
		return true
	})
	return c.next.Handle(ctx, out)
}

func (c cutter) WithAttrs(attrs []slog.Attr) slog.Handler {
	out := make([]slog.Attr, len(attrs))
	for i, a := range attrs {
		out[i] = cutAttr(a)
	}
	return cutter{c.next.WithAttrs(out)}
}

func (c cutter) WithGroup(name string) slog.Handler { return cutter{c.next.WithGroup(name)} }

func cutAttr(a slog.Attr) slog.Attr {
	v := a.Value.Resolve()
	switch v.Kind() {
	case slog.KindString:
		return slog.String(a.Key, cutText(v.String()))
	case slog.KindGroup:
		var group []any
		for _, b := range v.Group() {
			group = append(group, cutAttr(b))
		}
		return slog.Group(a.Key, group...)
	case slog.KindAny: // errors, addresses, lists of them: what a text handler would make of them
		text := slog.AnyValue(v.Any()).String()
		if cut := cutText(text); cut != text {
			return slog.String(a.Key, cut)
		}
	}
	return slog.Attr{Key: a.Key, Value: v}
}

// address finds what may be an IP address: four numbers, or hexadecimal groups with at least two colons.
var address = regexp.MustCompile(`(?:[0-9a-fA-F]{0,4}:){2,7}(?:(?:\d{1,3}\.){3}\d{1,3}|[0-9a-fA-F]{0,4})|(?:\d{1,3}\.){3}\d{1,3}`)

func cutText(s string) string {
	return address.ReplaceAllStringFunc(s, func(found string) string {
		a, err := netip.ParseAddr(found)
		if err != nil || a.IsLoopback() || a.IsUnspecified() {
			return found
		}
		if a = a.Unmap(); a.Is4() {
			return netip.PrefixFrom(a, 24).Masked().String()
		}
		return netip.PrefixFrom(a, 48).Masked().String()
	})
}
