package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"time"
)

// machine says where and of what the figures are.
func machine(out *figures) {
	say := func(name, text string) {
		*out = append(*out, figure{Name: "machine." + name, Params: params{}, Text: text})
	}
	say("cpu", fmt.Sprintf("%d × %s", runtime.NumCPU(), field("/proc/cpuinfo", "model name")))
	var kib float64
	_, _ = fmt.Sscan(field("/proc/meminfo", "MemTotal"), &kib)
	say("memory", fmt.Sprintf("%.0f GiB", kib/(1<<20)))
	kernel, _ := os.ReadFile("/proc/sys/kernel/osrelease")
	release, _, _ := strings.Cut(strings.TrimSpace(string(kernel)), "-")
	say("kernel", "Linux "+release)
	say("go", runtime.Version())
	say("envoy", envoyVersion())
	commit, _ := exec.CommandContext(context.Background(), "git", "rev-parse", "--short", "HEAD").Output()
	say("commit", strings.TrimSpace(string(commit)))
	say("date", time.Now().UTC().Format(time.DateOnly))
	busy, _ := os.ReadFile("/proc/loadavg")
	say("load", strings.Join(strings.Fields(string(busy))[:1], ""))
}

// field is the first value of a name in a file of "name: value" lines.
func field(path, name string) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer func() { _ = f.Close() }()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		if k, v, ok := strings.Cut(lines.Text(), ":"); ok && strings.TrimSpace(k) == name {
			return strings.TrimSpace(v)
		}
	}
	return ""
}

// envoyVersion is the number in what Envoy says of itself, as
// "PATH  version: COMMIT/1.2.3/...".
func envoyVersion() string {
	binary, err := envoyBinary()
	if err != nil {
		return ""
	}
	out, _ := exec.CommandContext(context.Background(), binary, "--version").Output()
	_, said, _ := strings.Cut(string(out), "version:")
	if parts := strings.Split(said, "/"); len(parts) > 1 {
		return "Envoy " + parts[1]
	}
	return "Envoy"
}
