package main

import (
	"cmp"
	"fmt"
	"html"
	"math"
	"slices"
	"strings"
)

// plot is lines over two logarithmic axes.
type plot struct {
	title, x string
	lines    []line
}

// line is one series; points are sorted by x, all above zero.
type line struct {
	name   string
	points []point
}

type point struct{ x, y float64 }

// Where things are in a plot, in pixels.
const (
	plotWidth, plotHeight   = 720, 340
	left, right, top, below = 70.0, 190.0, 40.0, 50.0
)

// colors tell lines apart, also for those who see no red or green.
var colors = []string{"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9"}

// axis maps values to pixels.
type axis struct {
	low, high float64 // decades: log10
	from, to  float64 // pixels
}

func (a axis) at(v float64) float64 {
	return a.from + (math.Log10(v)-a.low)/(a.high-a.low)*(a.to-a.from)
}

// newAxis spans whole decades.
func newAxis(values []float64, from, to float64) axis {
	low, high := math.Floor(math.Log10(slices.Min(values))), math.Ceil(math.Log10(slices.Max(values)))
	if high <= low {
		high = low + 1
	}
	return axis{low, high, from, to}
}

// svg draws the plot. Without a point above zero there is nothing to draw.
func (p plot) svg() (string, bool) {
	var xs, ys []float64
	for _, l := range p.lines {
		for _, q := range l.points {
			if q.x > 0 && q.y > 0 {
				xs, ys = append(xs, q.x), append(ys, q.y)
			}
		}
	}
	if len(xs) == 0 {
		return "", false
	}
	x, y := newAxis(xs, left, plotWidth-right), newAxis(ys, plotHeight-below, top)
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %[1]d %[2]d" font-family="sans-serif" font-size="12">`+"\n", plotWidth, plotHeight)
	fmt.Fprintf(&b, `<rect width="%d" height="%d" fill="#fff"/>`+"\n", plotWidth, plotHeight)
	text(&b, left, 22, "start", "bold", p.title)
	grid(&b, x, y)
	text(&b, (x.from+x.to)/2, plotHeight-12, "middle", "normal", p.x)
	for i, l := range p.lines {
		l.draw(&b, x, y, colors[i%len(colors)], float64(i))
	}
	b.WriteString("</svg>\n")
	return b.String(), true
}

func text(b *strings.Builder, x, y float64, anchor, weight, s string) {
	fmt.Fprintf(b, `<text x="%.1f" y="%.1f" text-anchor="%s" font-weight="%s" fill="#222">%s</text>`+"\n", x, y, anchor, weight, html.EscapeString(s))
}

// grid draws a line and a number at each decade.
func grid(b *strings.Builder, x, y axis) {
	stroke := func(x1, y1, x2, y2 float64) {
		fmt.Fprintf(b, `<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" stroke="#ddd"/>`+"\n", x1, y1, x2, y2)
	}
	for d := x.low; d <= x.high; d++ {
		at := x.at(math.Pow(10, d))
		stroke(at, y.from, at, y.to)
		text(b, at, y.from+18, "middle", "normal", number(math.Pow(10, d)))
	}
	for d := y.low; d <= y.high; d++ {
		at := y.at(math.Pow(10, d))
		stroke(x.from, at, x.to, at)
		text(b, x.from-8, at+4, "end", "normal", number(math.Pow(10, d)))
	}
}

// draw adds the line, its points, and its name with the last value.
func (l line) draw(b *strings.Builder, x, y axis, color string, place float64) {
	points := slices.Clone(l.points)
	points = slices.DeleteFunc(points, func(p point) bool { return p.x <= 0 || p.y <= 0 })
	slices.SortFunc(points, func(a, b point) int { return cmp.Compare(a.x, b.x) })
	if len(points) == 0 {
		return
	}
	var path []string
	for _, p := range points {
		path = append(path, fmt.Sprintf("%.1f,%.1f", x.at(p.x), y.at(p.y)))
		fmt.Fprintf(b, `<circle cx="%.1f" cy="%.1f" r="3.5" fill="%s"/>`+"\n", x.at(p.x), y.at(p.y), color)
	}
	fmt.Fprintf(b, `<polyline points="%s" fill="none" stroke="%s" stroke-width="2"/>`+"\n", strings.Join(path, " "), color)
	row := top + 8 + 20*place
	fmt.Fprintf(b, `<rect x="%.1f" y="%.1f" width="12" height="12" fill="%s"/>`+"\n", x.to+14, row-10, color)
	text(b, x.to+32, row, "start", "normal", l.name+": "+number(points[len(points)-1].y))
}
