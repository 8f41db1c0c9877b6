package main

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// table is a title, and cells of which the first row names the columns.
type table struct {
	title string
	rows  [][]string
}

func (t *table) row(cells ...string) { t.rows = append(t.rows, cells) }

// text is the table in columns; numbers are to the right.
func (t table) text(w io.Writer) {
	widths := make([]int, len(t.rows[0]))
	for _, r := range t.rows {
		for i, c := range r {
			widths[i] = max(widths[i], utf8.RuneCountInString(c))
		}
	}
	fmt.Fprintf(w, "\n%s\n", t.title)
	for n, r := range t.rows {
		var line strings.Builder
		for i, c := range r {
			pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(c))
			if i == 0 {
				line.WriteString(c + pad)
			} else {
				line.WriteString("  " + pad + c)
			}
		}
		fmt.Fprintln(w, strings.TrimRight(line.String(), " "))
		if n == 0 {
			fmt.Fprintln(w, strings.Repeat("-", utf8.RuneCountInString(line.String())))
		}
	}
}

// markdown is the table as Markdown, below its title.
func (t table) markdown() string {
	var b strings.Builder
	if t.title != "" {
		fmt.Fprintf(&b, "%s\n\n", t.title)
	}
	for n, r := range t.rows {
		fmt.Fprintf(&b, "| %s |\n", strings.Join(r, " | "))
		if n == 0 {
			fmt.Fprintf(&b, "|---|%s\n", strings.Repeat("---:|", len(r)-1))
		}
	}
	return b.String()
}

// number has three significant digits, and thousands are apart.
func number(v float64) string {
	digits := 0
	if a := math.Abs(v); a > 0 && a < 100 {
		digits = min(max(2-int(math.Floor(math.Log10(a))), 0), 4)
	}
	s := strconv.FormatFloat(v, 'f', digits, 64)
	if strings.Contains(s, ".") {
		s = strings.TrimRight(strings.TrimRight(s, "0"), ".")
	}
	whole, rest, _ := strings.Cut(s, ".")
	if rest != "" {
		return s
	}
	return thousands(whole)
}

func thousands(s string) string {
	sign := ""
	if strings.HasPrefix(s, "-") {
		sign, s = "-", s[1:]
	}
	var groups []string
	for len(s) > 3 {
		groups = append(groups, s[len(s)-3:])
		s = s[:len(s)-3]
	}
	groups = append(groups, s)
	slices.Reverse(groups)
	return sign + strings.Join(groups, ",")
}

func withUnit(f figure) string {
	return strings.TrimSpace(number(f.Value) + " " + f.Unit)
}
