package e2e

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	fence   = regexp.MustCompile("(?s)```[a-z]*\n(.*?)```")
	comment = regexp.MustCompile(`\s+#.*$`)
	shell   = regexp.MustCompile(`[|;&<>].*$`)
)

// documented finds the spillway commands in the code blocks of a page.
func documented(text string) (commands [][]string) {
	for _, block := range fence.FindAllStringSubmatch(text, -1) {
		for line := range strings.Lines(strings.ReplaceAll(block[1], "\\\n", " ")) {
			line = comment.ReplaceAllString(strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(line), "$ ")), "")
			line = shell.ReplaceAllString(strings.TrimPrefix(line, "bin/"), "")
			args := strings.Fields(line)
			if len(args) > 1 && args[0] == "spillway" {
				commands = append(commands, args[1:])
			}
		}
	}
	return commands
}

// TestDocumentedCommandsExist lets the plain binary parse every command that
// the documentation shows: a command or a flag that is not there fails. Those
// that only print are run.
func TestDocumentedCommandsExist(t *testing.T) {
	binary := binary(t)
	var pages []string
	for _, pattern := range []string{"../../*.md", "../../docs/*.md", "../../docs/*/*.md", "../../examples/*.yaml"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		pages = append(pages, found...)
	}
	total := 0
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, args := range documented(string(text)) {
			total++
			if i := indexOf(args, "--"); i >= 0 {
				args = args[:i]
			}
			if args[0] != "bootstrap" { // which only prints, so it can be run
				args = append(args, "--help")
			}
			out, err := exec.Command(binary, args...).CombinedOutput()
			if err != nil {
				t.Errorf("%s: spillway %s: %v\n%s", page, strings.Join(args, " "), err, out)
				continue
			}
			if first := strings.SplitN(args[0], "=", 2)[0]; first != "bootstrap" && !strings.Contains(string(out), "spillway "+first) {
				t.Errorf("%s: spillway %s: no such command", page, strings.Join(args, " "))
			}
		}
	}
	if total < 5 {
		t.Errorf("found only %d commands: is the documentation read at all?", total)
	}
}

func indexOf(list []string, s string) int {
	for i, v := range list {
		if v == s {
			return i
		}
	}
	return -1
}

var (
	literal = regexp.MustCompile(`"[^"\n]*"`)
	flag    = regexp.MustCompile(`--[a-z][a-z-]+`)
	// others are flags of programs that are not ours.
	others = map[string]bool{"--disable-hot-restart": true, "--use-dynamic-base-id": true, "--replicas": true, "--resolve": true}
)

// TestFlagsThatMessagesNameExist: what an error tells to do can be done.
func TestFlagsThatMessagesNameExist(t *testing.T) {
	binary := binary(t)
	known := map[string]bool{}
	for _, command := range []string{"serve", "hub", "demo", "lab", "lab up", "lab cut", "lab exec", "bootstrap envoy", "bootstrap grpc", "proxy drain", "get", "echo", "member remove", "rollout status", "rollout resume", "demo leaf"} {
		out, err := exec.Command(binary, append(strings.Fields(command), "--help")...).CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v\n%s", command, err, out)
		}
		for _, f := range flag.FindAllString(string(out), -1) {
			known[f] = true
		}
	}
	err := filepath.WalkDir("../../internal", func(path string, _ os.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		for _, said := range literal.FindAllString(string(text), -1) {
			for _, f := range flag.FindAllString(said, -1) {
				if !known[f] && !others[f] {
					t.Errorf("%s: %s: there is no flag %s", path, said, f)
				}
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestReasonsAreDocumented: docs/reference/events.md has each reason that there
// is in the code, and no other.
func TestReasonsAreDocumented(t *testing.T) {
	page, err := os.ReadFile("../../docs/reference/events.md")
	if err != nil {
		t.Fatal(err)
	}
	there := map[string]bool{}
	for _, folder := range []string{"../../api", "../../internal"} {
		err := filepath.WalkDir(folder, func(path string, _ os.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			ast.Inspect(file, func(n ast.Node) bool {
				if spec, ok := n.(*ast.ValueSpec); ok {
					for i, name := range spec.Names {
						if strings.HasPrefix(name.Name, "Reason") && i < len(spec.Values) {
							if lit, ok := spec.Values[i].(*ast.BasicLit); ok {
								there[strings.Trim(lit.Value, `"`)] = true
							}
						}
					}
				}
				return true
			})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	said := map[string]bool{}
	for _, row := range regexp.MustCompile("(?m)^\\|(?: `\\w+` \\|| \\|)? `(\\w+)` \\|").FindAllStringSubmatch(string(page), -1) {
		said[row[1]] = true
	}
	for reason := range there {
		if !said[reason] {
			t.Errorf("docs/reference/events.md does not say what %s is", reason)
		}
	}
	for reason := range said {
		if !there[reason] {
			t.Errorf("docs/reference/events.md has %s, which nobody says", reason)
		}
	}
	if len(there) < 30 {
		t.Errorf("found only %d reasons: is the code read at all?", len(there))
	}
}
