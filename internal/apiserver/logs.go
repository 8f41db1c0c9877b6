package apiserver

import (
	"context"
	"log/slog"
	"os"
	"sync"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
)

// maxHeld is how many records of a start are held back.
const maxHeld = 100

// logs carries what Kubernetes and etcd log, at warning or above, into one
// slog handler. An API server that starts on an empty database complains of
// much that it then makes itself, and one that stops complains of all it loses.
// So records wait until the start is over, are shown when it failed, and those
// after the stop are dropped.
type logs struct {
	out  slog.Handler
	gate *gate
}

// A gate is held at first, then open, then shut.
type gate struct {
	mu   sync.Mutex
	held []func() // nil unless still held
	shut bool
	last string // the last message below a warning: klog.Fatal says its own there
}

// routeLogs takes over the process-wide logger of Kubernetes.
func routeLogs(log *slog.Logger) logs {
	l := logs{out: log.Handler(), gate: &gate{held: make([]func(), 0, maxHeld)}}
	klog.SetSlogLogger(slog.New(l))
	klog.OsExit = l.fatal
	rest.SetDefaultWarningHandler(rest.NoWarnings{})
	return l
}

// ready drops what was held and lets records through.
func (l logs) ready() {
	l.gate.mu.Lock()
	defer l.gate.mu.Unlock()
	l.gate.held = nil
}

// failed shows what was held and lets records through.
func (l logs) failed() {
	l.gate.mu.Lock()
	defer l.gate.mu.Unlock()
	for _, show := range l.gate.held {
		show()
	}
	l.gate.held = nil
}

// fatal ends the process for klog.Fatal. Parts of a server that is told to stop
// while it starts call it; that is no failure.
func (l logs) fatal(code int) {
	l.gate.mu.Lock()
	stopping, last := l.gate.shut, l.gate.last
	l.gate.mu.Unlock()
	if stopping {
		os.Exit(0)
	}
	l.failed()
	slog.New(l.out).Error(last)
	os.Exit(code)
}

// mute drops what was held and all that comes.
func (l logs) mute() {
	l.gate.mu.Lock()
	defer l.gate.mu.Unlock()
	l.gate.held, l.gate.shut = nil, true
}

// Enabled implements slog.Handler.
func (l logs) Enabled(ctx context.Context, level slog.Level) bool {
	return level == slog.LevelInfo || level >= slog.LevelWarn && l.out.Enabled(ctx, level)
}

// Handle implements slog.Handler. What a part of Kubernetes calls an error it
// mostly tries again: here it is a warning.
func (l logs) Handle(ctx context.Context, r slog.Record) error {
	l.gate.mu.Lock()
	defer l.gate.mu.Unlock()
	if r.Level < slog.LevelWarn {
		l.gate.last = r.Message
		return nil
	}
	r.Level = slog.LevelWarn
	switch {
	case l.gate.shut:
		return nil
	case l.gate.held == nil:
		return l.out.Handle(ctx, r)
	case len(l.gate.held) < maxHeld:
		r = r.Clone()
		l.gate.held = append(l.gate.held, func() { _ = l.out.Handle(context.WithoutCancel(ctx), r) })
	}
	return nil
}

// WithAttrs implements slog.Handler.
func (l logs) WithAttrs(a []slog.Attr) slog.Handler { return logs{l.out.WithAttrs(a), l.gate} }

// WithGroup implements slog.Handler.
func (l logs) WithGroup(g string) slog.Handler { return logs{l.out.WithGroup(g), l.gate} }

// zap returns a logger for etcd that ends in the same place.
func (l logs) zap() *zap.Logger { return zap.New(zapCore{slog.New(l).With("component", "etcd")}) }

// zapCore is a zapcore.Core over slog.
type zapCore struct{ log *slog.Logger }

// Enabled implements zapcore.LevelEnabler.
func (c zapCore) Enabled(l zapcore.Level) bool { return l >= zapcore.WarnLevel }

// With implements zapcore.Core.
func (c zapCore) With(f []zapcore.Field) zapcore.Core { return zapCore{c.log.With(zapAttrs(f)...)} }

// Check implements zapcore.Core.
func (c zapCore) Check(e zapcore.Entry, ce *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if c.Enabled(e.Level) {
		return ce.AddCore(e, c)
	}
	return ce
}

// Write implements zapcore.Core.
func (c zapCore) Write(e zapcore.Entry, f []zapcore.Field) error {
	c.log.Warn(e.Message, zapAttrs(f)...)
	return nil
}

// Sync implements zapcore.Core.
func (c zapCore) Sync() error { return nil }

func zapAttrs(fields []zapcore.Field) []any {
	enc := zapcore.NewMapObjectEncoder()
	for _, f := range fields {
		f.AddTo(enc)
	}
	attrs := make([]any, 0, len(enc.Fields))
	for _, f := range fields {
		if v, ok := enc.Fields[f.Key]; ok {
			attrs = append(attrs, slog.Any(f.Key, v))
		}
	}
	return attrs
}
