package model

import (
	"cmp"
	"strings"
)

// Health has three values. Unknown is the absence of evidence, never a verdict.
type Health uint8

// The values of Health, as of a condition: Unknown, True, False.
const (
	Unknown Health = iota
	Up
	Down
)

// Equal reports whether both are the same.
func (a Health) Equal(b Health) bool { return a == b }

// String is the status of the condition.
func (a Health) String() string { return [...]string{"Unknown", "True", "False"}[a] }

// ReportID names a report: what one proxy of an edge sees of a member.
type ReportID struct {
	Edge   Edge
	Proxy  string // node.id
	Member Member
}

// Compare orders reports by edge, member and proxy.
func (a ReportID) Compare(b ReportID) int {
	return cmp.Or(a.Edge.Compare(b.Edge), a.Member.Compare(b.Member), strings.Compare(a.Proxy, b.Proxy))
}

// String is "fra/envoy-1 eu-1".
func (a ReportID) String() string { return string(a.Edge) + "/" + a.Proxy + " " + string(a.Member) }

// Report is a verdict of one proxy about a member's canaries. A shell deletes
// it when it expires: an old report is no evidence.
type Report struct {
	Canaries int
	Failing  int
}

// Equal reports whether both are the same.
func (a Report) Equal(b Report) bool { return a == b }

// Path is the way from a place with edges to a member.
type Path struct {
	From   Place
	Member Member
}

// Compare orders paths by place and member.
func (a Path) Compare(b Path) int { return cmp.Or(a.From.Compare(b.From), a.Member.Compare(b.Member)) }

// String is "eu/fra -> us-1".
func (a Path) String() string { return a.From.String() + " -> " + string(a.Member) }
