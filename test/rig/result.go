package rig

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/spillway-dev/spillway/internal/files"
)

const lines = 12 // of what a test said that failed

// Tell prints the parts of a Go test that failed by its log, with the last that each said,
// and is an error if there are any or the exit code is not 0.
func Tell(w io.Writer, log, test string, code int) error {
	text, err := os.ReadFile(log)
	if err != nil {
		return err
	}
	failed := failures(string(text), test)
	for _, name := range failed {
		fmt.Fprintf(w, "FAILED  %s\n%s", name, said(string(text), test+"/"+name))
	}
	if code != 0 || len(failed) > 0 {
		return fmt.Errorf("%d tests failed (exit code %d): see %s", len(failed), code, log)
	}
	return nil
}

// Read reads a suite's report, which is YAML. All of its text is returned.
func Read(file string, into any) ([]byte, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	return text, yaml.Unmarshal(text, into)
}

// Keep keeps a report, with a comment at its head.
func Keep(folder, name, head string, report []byte) error {
	return errors.Join(os.MkdirAll(folder, 0o755), files.Replace(filepath.Join(folder, name), append([]byte(head), report...), 0o644))
}

// result is a line by which Go tells how something ended.
var result = regexp.MustCompile(`^\s*(?:--- .*|FAIL|PASS)$`)

var switched = regexp.MustCompile(`^=== (?:RUN|CONT|NAME|PAUSE)\s+(\S+)$`)

// said is the last of what a test said. Tests that run beside each other say it in turns.
func said(log, name string) string {
	var all []string
	mine := false
	for line := range strings.Lines(log) {
		line = strings.TrimSuffix(line, "\n")
		if m := switched.FindStringSubmatch(line); m != nil {
			mine = m[1] == name
		} else if mine && !result.MatchString(line) {
			all = append(all, line)
		}
	}
	return strings.Join(all[max(0, len(all)-lines):], "\n") + "\n"
}

// failures are the parts of a test that failed and have no parts that did.
func failures(log, test string) (out []string) {
	var all []string
	for _, m := range regexp.MustCompile(`(?m)^\s*--- FAIL: `+test+`/(\S+)`).FindAllStringSubmatch(log, -1) {
		all = append(all, m[1])
	}
	for _, name := range all {
		if !slices.ContainsFunc(all, func(o string) bool { return strings.HasPrefix(o, name+"/") }) {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}
