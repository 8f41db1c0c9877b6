package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"unicode"

	"sigs.k8s.io/yaml"
)

// checkFormat is nil if a format is one of those that there are.
func checkFormat(format string, all ...string) error {
	if slices.Contains(all, format) {
		return nil
	}
	last := len(all) - 1
	return fmt.Errorf("--output %q: use %s or %s", format, strings.Join(all[:last], ", "), all[last])
}

// encode writes JSON as it is, indented, or as YAML.
func encode(w io.Writer, format string, body []byte) error {
	var out bytes.Buffer
	if err := json.Indent(&out, bytes.TrimSpace(body), "", "  "); err != nil {
		return fmt.Errorf("the answer is no JSON: %w", err)
	}
	out.WriteByte('\n')
	if format == "yaml" {
		b, err := yaml.JSONToYAML(body)
		if err != nil {
			return fmt.Errorf("the answer is no JSON: %w", err)
		}
		out.Reset()
		out.Write(b)
	}
	_, err := out.WriteTo(w)
	return err
}

// table writes columns for people.
func table(w io.Writer, heads []head, rows [][]string, wide bool) error {
	if len(rows) == 0 {
		_, err := fmt.Fprintln(w, "none")
		return err
	}
	t := tabwriter.NewWriter(w, 0, 8, 3, ' ', 0)
	line := func(cell func(i int) string) {
		var cells []string
		for i, h := range heads {
			if wide || !h.wide {
				cells = append(cells, cell(i))
			}
		}
		fmt.Fprintln(t, strings.Join(cells, "\t"))
	}
	line(func(i int) string { return heads[i].text })
	for _, row := range rows {
		line(func(i int) string { return printable(row[i]) })
	}
	return t.Flush()
}

// printable leaves out what a terminal would obey: names and messages come from
// users and from proxies.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return '�'
	}, s)
}
