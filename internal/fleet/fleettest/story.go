package fleettest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spillway-dev/spillway/internal/fleet"
	"github.com/spillway-dev/spillway/internal/inc"
)

// Update is the environment variable which, if set, makes Run write what the
// stories print now into their files.
const Update = "SPILLWAY_UPDATE_STORIES"

// Run tells the stories of testdata/*.txt, each in a world of its own.
func Run(t *testing.T, declare func(*inc.Graph, *fleet.Program) map[string]Command) {
	Stories(t, "testdata/*.txt", func(t *testing.T) Teller {
		w := New(declare)
		return Teller{
			Do: func(line string) (string, error) { return w.Do(line) },
			End: func() {
				w.Commit()
				if faults := w.Graph.Faults(); len(faults) > 0 {
					t.Errorf("at fault: %+v", faults)
				}
			},
		}
	})
}

// Teller is a world that a story changes.
type Teller struct {
	Do  func(line string) (string, error) // a command, and what it prints
	End func()
}

// Stories tells the stories of the files that match, each by a teller of its own.
func Stories(t *testing.T, pattern string, begin func(*testing.T) Teller) {
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		t.Fatal("no stories in "+pattern, err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := begin(t).tell(t, string(text))
			if got == string(text) {
				return
			}
			if os.Getenv(Update) == "" {
				t.Fatalf("%s differs; with %s=1 it becomes\n%s", file, Update, got)
			}
			if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// tell returns the story with what is printed now.
func (w Teller) tell(t *testing.T, text string) string {
	var out strings.Builder
	said, expected := "", false
	for line := range strings.Lines(text) {
		switch trimmed := strings.TrimSpace(line); {
		case expected && trimmed != "":
			continue // replaced by what is said
		case trimmed == "----":
			out.WriteString(line + said)
			said, expected = "", true
		case trimmed == "":
			expected = false
			out.WriteString(line)
		default:
			out.WriteString(line)
			more, err := w.Do(trimmed)
			if err != nil {
				t.Fatal(err)
			}
			said += more
		}
	}
	w.End()
	if said != "" {
		t.Errorf("printed without a ---- after it:\n%s", said)
	}
	return out.String()
}
