package demo

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/spillway-dev/spillway/internal/lab"
)

// teller writes the story. With --check it writes a line a chapter; else it
// also says what happens, and on a terminal shows what it waits for.
type teller struct {
	out   io.Writer
	brief bool
	live  bool // lines may be overwritten

	mu    sync.Mutex
	shown bool // the last line is to be overwritten
	began time.Time
}

func newTeller(out io.Writer, brief bool) *teller {
	t := &teller{out: out, brief: brief, began: time.Now()}
	if file, ok := out.(*os.File); ok {
		st, err := file.Stat()
		t.live = err == nil && st.Mode()&os.ModeCharDevice != 0
	}
	return t
}

// line writes a whole line, over what is shown for the moment.
func (t *teller) line(format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.clear()
	fmt.Fprintf(t.out, format+"\n", args...)
}

func (t *teller) clear() {
	if t.shown {
		fmt.Fprint(t.out, "\r\x1b[K")
		t.shown = false
	}
}

// moment shows a line until the next one comes, on a terminal only.
func (t *teller) moment(text string) {
	if !t.live {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.clear()
	if line := []rune(fmt.Sprintf("%6.1fs  … %s", time.Since(t.began).Seconds(), text)); len(line) > 0 {
		fmt.Fprint(t.out, string(line[:min(len(line), 100)]))
		t.shown = true
	}
}

func (t *teller) waiting(what string, seen error) {
	t.moment("waiting for " + what + " (" + strings.ReplaceAll(seen.Error(), "\n", " ") + ")")
}

func (t *teller) raising(s lab.Step) {
	if t.brief || !s.Done {
		t.moment(s.Name)
		return
	}
	t.line("%6.1fs  %s is up", s.Elapsed.Seconds(), s.Name)
}

func (t *teller) begin(c chapter) {
	if !t.brief {
		t.line("\n%s\n  what happens:    %s\n  what must hold:  %s", strings.ToUpper(c.name), c.does, c.holds)
	}
}

// result tells how a chapter went.
func (t *teller) result(s Step) {
	verdict := "ok  "
	if !s.OK {
		verdict = "FAIL"
	}
	text := s.Detail
	if s.Error != "" {
		text = s.Error
		if s.Detail != "" {
			text += " (before: " + s.Detail + ")"
		}
	}
	took := round(time.Duration(s.TookMS) * time.Millisecond)
	if t.brief {
		t.line("%s %-16s %7s  %s", verdict, s.Name, took, text)
		return
	}
	t.line("  %s  %s", verdict, took)
	for part := range strings.SplitSeq(text, "; ") {
		t.line("    - %s", part)
	}
}
