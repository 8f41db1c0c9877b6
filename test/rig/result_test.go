package rig

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const log = `=== RUN   TestAll
=== RUN   TestAll/First
=== PAUSE TestAll/First
=== RUN   TestAll/Second
=== PAUSE TestAll/Second
=== CONT  TestAll/First
    a_test.go:1: one
=== NAME  TestAll/Second
    b_test.go:1: other
=== NAME  TestAll/First
    a_test.go:2: two
--- FAIL: TestAll (0.00s)
    --- FAIL: TestAll/First (0.00s)
    --- PASS: TestAll/Second (0.00s)
FAIL
`

func TestTellsWhatFailedAndWhatItSaid(t *testing.T) {
	file := filepath.Join(t.TempDir(), "log")
	if err := os.WriteFile(file, []byte(log), 0o600); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := Tell(&out, file, "TestAll", 1); err == nil || !strings.HasPrefix(err.Error(), "1 tests failed") {
		t.Error(err)
	}
	if want := "FAILED  First\n    a_test.go:1: one\n    a_test.go:2: two\n"; out.String() != want {
		t.Errorf("got %s\nwant %s", &out, want)
	}
}

func TestAPartStandsForTheWhole(t *testing.T) {
	got := failures("    --- FAIL: TestAll/A (0.00s)\n        --- FAIL: TestAll/A/b (0.00s)\n", "TestAll")
	if len(got) != 1 || got[0] != "A/b" {
		t.Error(got)
	}
}
