// Command racepkgs prints the packages of this module that `make race` tests: those that
// do not depend on k8s.io/kubernetes, which is too dear there, and that are not pure, which
// have nothing to find. Nor have those of without.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"

	"github.com/spillway-dev/spillway/test/levels"
)

const embedded = "k8s.io/kubernetes"

// without are packages whose tests find no race, and why. Those of a folder end in "/".
var without = map[string]string{
	"github.com/spillway-dev/spillway/internal/sim": "runs a program in one goroutine",
	"github.com/spillway-dev/spillway/deploy/rbac":  "runs binaries that are built without the detector",
	"github.com/spillway-dev/spillway/test/":        "run whole fleets, of the same binaries; their own tests are small, and cost more to link than all others",
}

// findsNothing reports whether a package is one of without.
func findsNothing(name string) bool {
	for of := range without {
		if name == of || strings.HasSuffix(of, "/") && strings.HasPrefix(name, of) {
			return true
		}
	}
	return false
}

func main() {
	if err := run(os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "racepkgs:", err)
		os.Exit(1)
	}
}

func run(w io.Writer) error {
	out, err := exec.CommandContext(context.Background(), "go", "list", "-test", "-json=ImportPath,ForTest,Deps", "./...").Output()
	if err != nil {
		return fmt.Errorf("go list: %w", err)
	}
	heavy, all := map[string]bool{}, map[string]bool{}
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p struct {
			ImportPath, ForTest string
			Deps                []string
		}
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return err
		}
		name := strings.TrimSuffix(strings.Fields(p.ImportPath)[0], "_test")
		name = strings.TrimSuffix(name, ".test")
		if p.ForTest != "" {
			name = p.ForTest
		}
		all[name] = true
		if slices.ContainsFunc(p.Deps, func(d string) bool { return d == embedded || strings.HasPrefix(d, embedded+"/") }) {
			heavy[name] = true
		}
	}
	var names []string
	for name := range all {
		if !heavy[name] && !levels.IsPure(name) && !findsNothing(name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	_, err = fmt.Fprintln(w, strings.Join(names, " "))
	return err
}
