package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"

	"github.com/spillway-dev/spillway/internal/files"
)

// programs are those of other projects that a user of ACME has.
type programs struct {
	certManager string // its controllers, and with another argument its solver
	pebble      string // the authority
	crds        string // folder of cert-manager's definitions
}

// programsModule is a module of its own: its versions are pinned there, and nothing
// else needs them.
const programsModule = "test/certmanager"

const pebblePackage = "github.com/letsencrypt/pebble/v2/cmd/pebble"

// programPaths is where they are made.
func programPaths() (programs, error) {
	dir, err := filepath.Abs("build")
	return programs{certManager: filepath.Join(dir, "certmanager"), pebble: filepath.Join(dir, "pebble")}, err
}

// buildPrograms makes them, from Go's module proxy. Without a cache that takes minutes.
func buildPrograms(ctx context.Context) (programs, error) {
	p, err := programPaths()
	if err != nil {
		return p, err
	}
	for path, pkg := range map[string]string{p.certManager: ".", p.pebble: pebblePackage} {
		if _, err := goCommand(ctx, "build", "-ldflags", "-s -w", "-o", path, pkg); err != nil {
			return p, err
		}
	}
	module, err := goCommand(ctx, "list", "-m", "-f", "{{.Dir}}", "github.com/cert-manager/cert-manager")
	p.crds = filepath.Join(module, "deploy", "crds")
	return p, err
}

// goCommand runs the go command in their module.
func goCommand(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", args...)
	var out bytes.Buffer
	cmd.Dir, cmd.Stdout, cmd.Stderr = programsModule, &out, os.Stderr
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s: %w", cmd, err)
	}
	return strings.TrimSpace(out.String()), nil
}

// guest is a program that runs in a place of the lab.
type guest struct {
	name, place string
	argv        []string
}

// beside has work done while guests run. One that ends by itself ends the work.
func (w *world) beside(ctx context.Context, guests []guest, work func(context.Context) error) error {
	ctx, end := context.WithCancelCause(ctx)
	var running sync.WaitGroup
	for _, g := range guests {
		running.Go(func() { end(w.run(ctx, g)) })
	}
	err := work(ctx)
	cause := context.Cause(ctx)
	end(nil)
	running.Wait()
	return errors.Join(err, cause)
}

func (w *world) run(ctx context.Context, g guest) error {
	path := w.log(g)
	log, err := os.Create(path)
	if err != nil {
		return err
	}
	defer log.Close()
	code, err := w.Lab.Exec(ctx, g.place, nil, log, log, g.argv...)
	return fmt.Errorf("%s ended by itself with exit code %d (log: %s): %w", g.name, code, path, err)
}

// log is the file of what a guest says.
func (w *world) log(g guest) string { return filepath.Join(w.Lab.Dir(), "logs", g.name+".log") }

// fetch asks for a page from a place, over HTTPS, trusting what is in a file.
func (w *world) fetch(ctx context.Context, place, ca, url string) ([]byte, error) {
	var out, errs bytes.Buffer
	code, err := w.Lab.Exec(ctx, place, nil, &out, &errs, "curl", "--silent", "--show-error", "--fail", "--cacert", ca, url)
	if err == nil && code != 0 {
		err = fmt.Errorf("curl %s: exit code %d: %s", url, code, strings.TrimSpace(errs.String()))
	}
	return out.Bytes(), err
}

// keep writes a file that programs in places read, in a folder of the lab.
func (w *world) keep(name string, text []byte) (string, error) {
	path := filepath.Join(w.Lab.Dir(), "run", name)
	return path, files.Replace(path, text, 0o600)
}
