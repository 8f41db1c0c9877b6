package bootstrap

import (
	"bytes"
	"strings"
	"testing"
)

func TestFiles(t *testing.T) {
	for files, want := range map[uint64]uint32{0: 1, 512: 1, 1024: 256, 1500: 494, FilesFor(50_000) - 1: 49_999, FilesFor(50_000): 50_000, 1 << 62: 50_000} {
		got := ConnectionsWithin(files)
		if got != want || files > 1000 && FilesFor(got) > files {
			t.Errorf("%d connections fit into %d files, want %d", got, files, want)
		}
	}
}

// The limit of connections is in the configuration, and the files that it needs are
// said to whoever makes that, beside it.
func TestMaxConnections(t *testing.T) {
	for _, c := range []struct{ flags, limit, files string }{
		{"", "50000", "100512"},
		{"--max-connections=700", "700", "1912"},
	} {
		var out, said bytes.Buffer
		cmd := Command()
		cmd.SetArgs(append([]string{"envoy", "--edge=fra", "--node-id=1", "--xds-socket=/s"}, strings.Fields(c.flags)...))
		cmd.SetOut(&out)
		cmd.SetErr(&said)
		if err := cmd.Execute(); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(out.String(), `"max_active_downstream_connections": "`+c.limit+`"`) {
			t.Errorf("%q: %s", c.flags, out.String())
		}
		if !strings.Contains(said.String(), "ulimit -Hn "+c.files) {
			t.Errorf("%q: %s", c.flags, said.String())
		}
	}
	cmd := Command()
	cmd.SetArgs([]string{"envoy", "--edge=fra", "--node-id=1", "--xds-socket=/s", "--max-connections=0"})
	cmd.SetOut(&bytes.Buffer{})
	cmd.SilenceUsage, cmd.SilenceErrors = true, true
	if err := cmd.Execute(); err == nil || !strings.Contains(err.Error(), "--max-connections") {
		t.Errorf("no connections: %v", err)
	}
}
