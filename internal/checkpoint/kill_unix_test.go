//go:build unix

package checkpoint

import (
	"bufio"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
)

// writerEnv has a process of this test be one that writes: FOLDER FULL, where FULL
// is the size that a file may have at first, 0: any.
const writerEnv = "SPILLWAY_CHECKPOINT_WRITER"

// Rows of the writer: number n is in all of them by commit n, with as many bytes
// as make the file be rewritten now and then.
const (
	writerRows  = 5
	writerBytes = 100_000
)

// TestWriter writes until it is killed, and says which number is on disk, or that
// it can't write.
func TestWriter(t *testing.T) {
	var dir string
	var full uint64
	if n, _ := fmt.Sscan(os.Getenv(writerEnv), &dir, &full); n != 2 {
		t.Skip("a part of TestKill and TestFullDisk")
	}
	s, err := Open(Options{Dir: dir, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	g, table := numbers(s)
	limit(t, full)
	s.Complete()
	for n := int64(1); ; n++ {
		g.Commit(func(tx *inc.Tx) {
			for i := range writerRows {
				table.Set(tx, model.SecretID{Name: fmt.Sprint(i)}, model.Certificate{NotAfter: n, Chain: make([]byte, writerBytes)})
			}
		})
		s.Committed()
		for err := s.Flush(); err != nil; err = s.Flush() {
			if !errors.Is(err, syscall.EFBIG) {
				t.Fatal(err)
			}
			fmt.Println("full", n)
			limit(t, 0)
		}
		fmt.Println("wrote", n)
	}
}

// limit is how large files may become: as on a disk that is full, a part of a write
// is done.
func limit(t *testing.T, bytes uint64) {
	var r syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &r); err != nil {
		t.Fatal(err)
	}
	if r.Cur = r.Max; bytes > 0 {
		r.Cur = bytes
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &r); err != nil {
		t.Fatal(err)
	}
}

func numbers(s *Store) (*inc.Graph, *inc.Table[model.SecretID, model.Certificate]) {
	g := inc.New()
	table := inc.Input[model.SecretID, model.Certificate](g, "certificates")
	Register(s, "certificates", table)
	return g, table
}

// killed runs a writer until it has said a line so many times, kills it, and
// returns the last number that was on disk by then. What it says meanwhile counts.
func killed(t *testing.T, dir string, full int, line string, times int) (wrote int64) {
	t.Helper()
	writer := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestWriter$")
	writer.Env = append(os.Environ(), fmt.Sprintf("%s=%s %d", writerEnv, dir, full))
	out, err := writer.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := writer.Start(); err != nil {
		t.Fatal(err)
	}
	var said []string
	for lines := bufio.NewScanner(out); lines.Scan(); {
		text := lines.Text()
		said = append(said, text)
		if n, ok := strings.CutPrefix(text, "wrote "); ok {
			if wrote, err = strconv.ParseInt(n, 10, 64); err != nil {
				t.Fatal(err)
			}
		}
		if strings.HasPrefix(text, line) {
			if times--; times == 0 {
				_ = writer.Process.Kill()
			}
		}
	}
	_ = writer.Wait()
	if times > 0 {
		t.Fatalf("it ended by itself: %q", said)
	}
	return wrote
}

// found is the number that a start finds, and that it is in all rows.
func found(t *testing.T, dir string) int64 {
	t.Helper()
	s, err := Open(Options{Dir: dir, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	g, table := numbers(s)
	if !s.Restore(g) || table.Len() != writerRows {
		t.Fatalf("%d rows", table.Len())
	}
	var number int64
	for i, id := range table.Keys() {
		row, _ := table.Get(nil, id)
		if i > 0 && row.NotAfter != number {
			t.Fatalf("a state that never was: %d and %d", number, row.NotAfter)
		}
		number = row.NotAfter
	}
	return number
}

// TestKill: whenever a process is killed, the next one finds what was written,
// and nothing by halves.
func TestKill(t *testing.T) {
	dir := t.TempDir()
	for times := range 8 {
		wrote := killed(t, dir, 0, "wrote", 1+5*times)
		if got := found(t, dir); got < wrote {
			t.Fatalf("found %d, and %d was on disk", got, wrote)
		}
	}
	if left, err := filepath.Glob(filepath.Join(dir, badName)); err != nil || len(left) > 0 {
		t.Errorf("a file was refused: %v, %v", left, err)
	}
}

// TestFullDisk: what does not fit is written when there is room, and a process that
// is killed meanwhile has lost no more.
func TestFullDisk(t *testing.T) {
	dir := t.TempDir()
	const room = 4*writerRows*writerBytes + writerBytes/2 // for four writes, and a part of one
	wrote := killed(t, dir, room, "full", 1)
	if got := found(t, dir); wrote == 0 || got < wrote {
		t.Errorf("killed when it was full: found %d, and %d was on disk", got, wrote)
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	wrote = killed(t, dir, room, "wrote", 8)
	if got := found(t, dir); wrote < 8 || got < wrote {
		t.Errorf("there was room again: found %d, and %d was on disk", got, wrote)
	}
}
