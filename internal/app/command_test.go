package app

import (
	"bytes"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
)

// startOf runs `spillway serve` without a hub, and returns its error and its log.
func startOf(t *testing.T, args ...string) (log string, err error) {
	t.Helper()
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	before := slog.Default()
	defer slog.SetDefault(before)
	var out bytes.Buffer
	cmd := Command()
	cmd.SetArgs(args)
	cmd.SetOut(&out)
	cmd.SetErr(&out)
	cmd.SilenceUsage, cmd.SilenceErrors = true, true
	err = cmd.ExecuteContext(t.Context())
	return out.String(), err
}

// What a start leaves out of what is promised is told, and nothing else.
func TestStartWarnings(t *testing.T) {
	const state, proxies = "no --state-dir", "no proxy can connect"
	dir := t.TempDir()
	for _, c := range []struct {
		args string
		want []string
	}{
		{"", []string{state, proxies}},
		{"--state-dir=" + dir, []string{proxies}},
		{"--xds-socket=" + dir + "/s", []string{state}},
		{"--envoyxds", []string{state}},
		{"--envoyxds --state-dir=" + dir, nil},
	} {
		log, _ := startOf(t, strings.Fields(c.args)...)
		for _, text := range []string{state, proxies} {
			if strings.Contains(log, text) != strings.Contains(strings.Join(c.want, "\n"), text) {
				t.Errorf("%q: %s", c.args, log)
			}
		}
		if n := strings.Count(log, "level=WARN"); n != len(c.want) {
			t.Errorf("%q: %d warnings: %s", c.args, n, log)
		}
	}
}

// Without a kubeconfig the error says what to do.
func TestNoKubeconfig(t *testing.T) {
	_, err := startOf(t)
	if err == nil || !strings.Contains(err.Error(), "--kubeconfig") || !strings.Contains(err.Error(), "spillway hub") || strings.Contains(err.Error(), "KUBERNETES_MASTER") {
		t.Errorf("%v", err)
	}
}

func TestDNSRateLimit(t *testing.T) {
	for text, want := range map[string]string{
		"--dns-rate-limit=-1": "--dns-rate-limit -1: use 1 or more, or 0 for no limit", "--dns-rate-limit=many": "--dns-rate-limit",
		"--dns-rate-limit=0": "kubeconfig", "--dns-rate-limit=7": "kubeconfig", // there is no hub
	} {
		if _, err := startOf(t, text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
	for flag, want := range map[int]int{0: -1, 7: 7} { // to the server 0 is the default
		if got := dnsLimit(flag); got != want {
			t.Errorf("--dns-rate-limit %d: the server has %d", flag, got)
		}
	}
}
