package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// good are figures of which nothing is wrong.
func good() figures {
	var f figures
	f.Soak.OK, f.Soak.Requests.Sent = true, 1000
	f.Soak.Lasting.Asked, f.Soak.Lasting.Statuses = 1000, 10
	f.Baseline = phase{Changes: fewest, P99: 30}
	f.Attack = phase{Changes: fewest, P99: 60, ServeRSS: mostMemory}
	f.Done = map[string]deeds{attacks[0].name: {Done: 1}}
	return f
}

func TestJudge(t *testing.T) {
	for _, c := range []struct {
		what  string
		spoil func(*figures)
		wrong string // in what does not hold; empty: all holds
	}{
		{"nothing", func(*figures) {}, ""},
		{"a request failed", func(f *figures) { f.Soak.Requests.Failed = 1 }, "requests failed"},
		{"no requests", func(f *figures) { f.Soak.Requests.Sent = 0 }, "requests failed"},
		{"a wrong DNS answer", func(f *figures) { f.Soak.Lasting.Wrong = 1 }, "DNS"},
		{"no DNS answer", func(f *figures) { f.Soak.Lasting.Unanswered = 1 }, "DNS"},
		{"a lost status", func(f *figures) { f.Soak.Lasting.Lost = 1 }, "statuses"},
		{"few changes", func(f *figures) { f.Attack.Changes-- }, "endpoint changes before"},
		{"slow changes", func(f *figures) { f.Attack.P99 += 0.1 }, "p99"},
		{"slow changes on a small machine", func(f *figures) { f.Attack.P99, f.Untimed = 1000, true }, ""},
		{"slow changes, but who knows", func(f *figures) { f.Baseline.P99, f.Attack.P99 = 1, slower*floor }, ""},
		{"much memory", func(f *figures) { f.Attack.ServeRSS++ }, "memory"},
		{"nobody looked at the memory", func(f *figures) { f.Attack.ServeRSS = 0 }, "memory"},
		{"an edit did not come", func(f *figures) { f.Soak.OK, f.Soak.Error = false, "an edit" }, "an edit"},
		{"an attack that was none", func(f *figures) { f.Done[attacks[0].name] = deeds{} }, attacks[0].name},
	} {
		t.Run(c.what, func(t *testing.T) {
			f := good()
			c.spoil(&f)
			var wrong []string
			for _, one := range f.judge() {
				if !one.ok {
					wrong = append(wrong, one.what)
				}
			}
			if c.wrong == "" && len(wrong) > 0 || c.wrong != "" && (len(wrong) != 1 || !strings.Contains(wrong[0], c.wrong)) {
				t.Errorf("does not hold: %q, want %q", wrong, c.wrong)
			}
		})
	}
}

func TestTimes(t *testing.T) {
	var took []time.Duration
	for i := 300; i > 0; i-- {
		took = append(took, time.Duration(i)*time.Millisecond)
	}
	if got, want := times(took, []time.Duration{time.Millisecond}), (phase{Changes: 300, P50: 151, P99: 298, Max: 300, Write: 1}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if got := times(nil, nil); got != (phase{}) {
		t.Errorf("of nothing: %+v", got)
	}
}

// TestNumbers: a change's number comes back from its address, and addresses of
// pods have none.
func TestNumbers(t *testing.T) {
	for _, n := range []int{0, 1, 249, 250, 24_999} {
		if got, ok := numberOf(addressOf(n)); got != n || !ok {
			t.Errorf("%d: %s is %d, %v", n, addressOf(n), got, ok)
		}
	}
	for _, a := range []string{"10.1.0.5", "10.2.100.1", "fd10::1", ""} {
		if n, ok := numberOf(a); ok {
			t.Errorf("%q is %d", a, n)
		}
	}
}

func TestDrops(t *testing.T) {
	const table = `   sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode ref pointer drops
  100: 0100007F:041D 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 17021 2 0000000000000000 41
  100: 0100007F:041D 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 17022 2 0000000000000000 1
  101: 0100007F:041E 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 17023 2 0000000000000000 7
`
	if got := drops(table, "127.0.0.1:1053"); got != 42 {
		t.Errorf("%d, want 42", got)
	}
}

func TestCagePlaces(t *testing.T) {
	for _, c := range []struct {
		what, own string
		out       []string // that hand out the controller
		want      []string // parents, in order
	}{
		{"version 2", "0::/user.slice/me.scope\n", []string{cgroups + "/user.slice", cgroups}, []string{cgroups + "/user.slice", cgroups}},
		{"version 2, of others", "0::/user.slice/me.scope\n", nil, nil},
		{"version 1", "3:cpuset:/a\n2:cpu,cpuacct:/a/b\n0::/\n", nil, []string{cgroups + "/cpu,cpuacct/a/b"}},
		{"none", "", nil, nil},
	} {
		t.Run(c.what, func(t *testing.T) {
			var got []string
			for _, p := range cagePlaces([]byte(c.own), func(dir string) bool { return slices.Contains(c.out, dir) }) {
				got = append(got, p.parent)
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}

// TestDocumented: the page has the attacks and bounds as they are.
func TestDocumented(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "hostile.md"))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		fmt.Sprintf("at most %d times", slower), fmt.Sprintf("%d ms", floor), fmt.Sprintf("%d changes", fewest), fmt.Sprintf("%d MB", mostMemory), fmt.Sprintf("%v of a CPU", share),
	}
	for _, a := range attacks {
		want = append(want, fmt.Sprintf("| %s | %s | %s |", a.name, a.often(), a.what))
	}
	for _, text := range want {
		if !strings.Contains(string(page), text) {
			t.Errorf("docs/hostile.md lacks %q", text)
		}
	}
}
