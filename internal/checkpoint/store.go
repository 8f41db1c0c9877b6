package checkpoint

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/spillway-dev/spillway/internal/files"
	"github.com/spillway-dev/spillway/internal/inc"
)

// Names of the files in the folder.
const (
	fileName = "checkpoint"
	keyName  = "checkpoint.key"
	lockName = "checkpoint.lock"
	badName  = "checkpoint.bad" // the last one that was refused
)

const (
	every    = 500 * time.Millisecond // at most one write in this time; a crash loses what changed in it
	looks    = 10 * time.Second       // after which the files are missed, if nothing is written
	slack    = 4 << 20                // bytes of old rows that are not worth a rewrite
	keepFile = os.FileMode(0o600)
	keepDir  = os.FileMode(0o700)
)

// Options are where a checkpoint is.
type Options struct {
	Dir     string // made if it is not there
	KeyFile string // made if neither it nor a checkpoint is there; default: in Dir, where it is made in any case
	Log     *slog.Logger
	Now     func() time.Time // default [time.Now]
	Ask     func()           // asks for a call of Committed, from any goroutine; may be nil
}

// Store is a checkpoint. Register, Load, Rows, Restore, Complete and Committed belong to
// the goroutine of the graph.
type Store struct {
	Options
	lock   *os.File
	key    [keySize]byte
	tables map[string]table
	found  *contents      // read from disk, until Load
	loaded bool           // the tables have what was found, until Restore
	saved  time.Time      // when what was found was written
	staged map[any]change // of commits that are not over, or not complete
	count  uint64         // of changes, ever
	muted  bool           // restoring: what changes is on disk already
	full   bool           // rows are complete: they may be written
	again  []func()       // each stages all rows of a table

	mu      sync.Mutex
	pending map[any]change // of whole commits, the latest of each row
	short   bool           // pending lacks rows that are in no file any more
	wake    chan struct{}

	counts counts

	// The rest belongs to Run.
	file *log  // nil: there is none yet
	live int64 // size of the file when it held no old rows
}

// change is a row that changed: how to write it down. The record is valid until
// the scratch is used again.
type change interface {
	encode(*scratch) (record, error)
	number() uint64 // of the changes there ever were
}

// scratch is what rows are encoded into, one after the other.
type scratch struct{ key, value bytes.Buffer }

// Open takes a folder for this process alone, and reads what is there. It
// fails only if the folder can't be used.
func Open(o Options) (*Store, error) {
	s := &Store{
		Options: o, tables: map[string]table{}, staged: map[any]change{}, pending: map[any]change{}, wake: make(chan struct{}, 1),
	}
	if s.Now == nil {
		s.Now = time.Now
	}
	if s.KeyFile == "" {
		s.KeyFile = filepath.Join(o.Dir, keyName)
	}
	var err error
	if s.lock, err = takeFolder(o.Dir); err != nil {
		return nil, err
	}
	if s.key, err = s.readKey(); err != nil {
		_ = s.lock.Close()
		return nil, fmt.Errorf("checkpoint: key %s: %w", s.KeyFile, err)
	}
	s.read()
	return s, nil
}

// takeFolder makes a folder and locks it.
func takeFolder(dir string) (*os.File, error) {
	if err := os.MkdirAll(dir, keepDir); err != nil {
		return nil, fmt.Errorf("checkpoint: %w", err)
	}
	lock, err := files.Lock(filepath.Join(dir, lockName))
	if err != nil {
		return nil, fmt.Errorf("checkpoint: folder %s is in use by another spillway, or not writable: %w", dir, err)
	}
	return lock, nil
}

func (s *Store) path() string { return filepath.Join(s.Dir, fileName) }

// read loads the file. Whatever is wrong with it is one warning.
func (s *Store) read() {
	l, found, err := openLog(s.path(), s.key)
	switch {
	case errors.Is(err, os.ErrNotExist):
	case err != nil:
		s.refuse(err)
	default:
		s.file, s.found, s.saved, s.live = l, found, found.at, l.size
		s.counts.wrote(l.size, found.at)
		if found.torn > 0 {
			s.Log.Warn("the last write of the checkpoint was cut off: going on from the one before", "file", s.path(), "written", found.at.UTC(), "bytes", found.torn)
		}
	}
}

// refuse keeps a file that can't be used aside, for whoever can tell more of it.
func (s *Store) refuse(err error) {
	kept := filepath.Join(s.Dir, badName)
	if failed := os.Rename(s.path(), kept); failed != nil {
		kept = "not kept: " + failed.Error()
	}
	s.counts.refused.Store(1)
	s.Log.Warn("checkpoint can't be used: starting without", "file", s.path(), "error", err, "kept", kept)
}

// Found reports whether there is something to restore, and as of when.
func (s *Store) Found() (time.Time, bool) { return s.saved, s.found != nil }

// Load reads all rows that were found, for Rows and Restore. Without any, or if
// one of them can't be read, it reports false.
func (s *Store) Load() bool {
	found := s.found
	s.found = nil
	if found == nil {
		return s.loaded
	}
	if err := s.decode(found); err != nil {
		s.forget()
		s.refuse(err)
		s.file.close()
		s.file = nil
		return false
	}
	s.loaded = true
	return true
}

// Restore commits what Load read, in one commit. If there is nothing, it changes
// nothing and reports false.
func (s *Store) Restore(g *inc.Graph) bool {
	if !s.Load() {
		return false
	}
	s.muted = true
	g.Commit(func(tx *inc.Tx) {
		for _, t := range s.tables {
			t.write(tx)
		}
	})
	s.muted, s.full, s.loaded = false, true, false
	s.forget()
	return true
}

func (s *Store) forget() {
	for _, t := range s.tables {
		t.room(0)
	}
}

// decode reads all rows of the tables that are registered, on all processors.
func (s *Store) decode(found *contents) error {
	const some = 1024 // rows at once
	var all errgroup.Group
	all.SetLimit(runtime.GOMAXPROCS(0))
	for name, t := range s.tables {
		rows := found.of(name)
		t.room(len(rows))
		at := 0
		for chunk := range slices.Chunk(rows, some) {
			first := at
			at += len(chunk)
			all.Go(func() error {
				for i, r := range chunk {
					if err := t.decode(first+i, r.Key, r.Value); err != nil {
						return fmt.Errorf("a row of table %s: %w", name, err)
					}
				}
				return nil
			})
		}
	}
	return all.Wait()
}

// Complete says that the rows are complete, with the next Committed: from
// then on they are written.
func (s *Store) Complete() { s.full = true }

// Committed says that a commit is over: what it changed may be written.
func (s *Store) Committed() {
	if !s.full {
		return
	}
	short := s.lacks()
	if short {
		for _, all := range s.again {
			all()
		}
	}
	if len(s.staged) == 0 && !short {
		return
	}
	s.mu.Lock()
	s.short = s.short && !short
	if len(s.pending) == 0 {
		s.pending, s.staged = s.staged, s.pending
	}
	maps.Copy(s.pending, s.staged)
	s.mu.Unlock()
	if len(s.staged) > 1024 {
		s.staged = map[any]change{} // a map never shrinks
	}
	clear(s.staged)
	s.ring()
}

// lacks tells whether rows that did not change are to be written, too.
func (s *Store) lacks() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.short
}

func (s *Store) ring() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// Run writes until ctx ends, then what is left.
func (s *Store) Run(ctx context.Context) {
	defer s.close()
	look := time.NewTicker(looks)
	defer look.Stop()
	failing := false
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-look.C:
			failing = s.note(s.flush(), failing)
		case <-s.wake:
			rest(ctx) // a change is followed by others: what proxies acknowledge of it
			failing = s.note(s.flush(), failing)
		}
	}
	s.note(s.flush(), failing)
}

// rest lets changes gather.
func rest(ctx context.Context) {
	t := time.NewTimer(every)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}

// note logs the first of a row of failures, and their end.
func (s *Store) note(err error, was bool) (failing bool) {
	switch {
	case err != nil && !was:
		s.Log.Warn("checkpoint not written, trying again", "file", s.path(), "error", err)
	case err == nil && was:
		s.Log.Info("checkpoint is written again", "file", s.path())
	}
	if err != nil {
		s.counts.failures.Add(1)
		s.ring()
	}
	return err != nil
}

func (s *Store) close() {
	if s.file != nil {
		s.file.close()
	}
	_ = s.lock.Close()
}

// Flush writes what is pending. It is for whoever does not run Run.
func (s *Store) Flush() error { return s.flush() }

// flush writes what is pending. What could not be written stays pending.
func (s *Store) flush() error {
	if err := s.mend(); err != nil {
		return err
	}
	s.mu.Lock()
	if s.short {
		s.mu.Unlock()
		return errCut
	}
	batch := s.pending
	s.pending = map[any]change{}
	s.mu.Unlock()
	if len(batch) == 0 {
		return nil
	}
	err := s.write(batch)
	if err != nil {
		s.mu.Lock()
		maps.Copy(batch, s.pending) // the newer ones win
		s.pending = batch
		s.mu.Unlock()
		return err
	}
	s.counts.wrote(s.file.size, s.Now())
	return nil
}

// write appends a batch, or makes a file of it if there is none: it holds all
// rows then.
func (s *Store) write(batch map[any]change) error {
	if s.file == nil {
		return s.rewrite(encoded(batch))
	}
	if err := s.file.append(s.Now(), encoded(batch)); err != nil {
		return err
	}
	if s.file.size > 2*s.live+slack {
		if err := s.compact(); err != nil {
			s.live = s.file.size // try again when it has doubled
			s.Log.Warn("checkpoint not compacted", "file", s.path(), "error", err)
		}
	}
	return nil
}

// encoded are the records of a batch, in the order in which their rows changed.
func encoded(batch map[any]change) iter.Seq2[record, error] {
	return func(yield func(record, error) bool) {
		type numbered struct {
			number uint64
			change
		}
		all := make([]numbered, 0, len(batch))
		for _, c := range batch {
			all = append(all, numbered{c.number(), c})
		}
		slices.SortFunc(all, func(a, b numbered) int { return cmp.Compare(a.number, b.number) })
		var b scratch
		for _, c := range all {
			if !yield(c.encode(&b)) {
				return
			}
		}
	}
}

// rewrite puts a new file in the place of the old one.
func (s *Store) rewrite(records iter.Seq2[record, error]) error {
	l, err := createLog(s.path(), s.key, s.Now(), records)
	if err != nil {
		return err
	}
	if s.file != nil {
		s.file.close()
	}
	s.file, s.live = l, l.size
	return nil
}

// compact writes the file anew without the rows that are out of date.
func (s *Store) compact() error {
	_, found, err := readLog(s.file.file, s.key)
	if err != nil {
		return err
	}
	return s.rewrite(func(yield func(record, error) bool) {
		for name := range s.tables {
			for _, r := range found.of(name) {
				if !yield(r, nil) {
					return
				}
			}
		}
	})
}
