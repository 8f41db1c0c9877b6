package fleettest

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"github.com/spillway-dev/spillway/internal/model"
)

// Rules are written in one word, from what matches to what becomes of it:
//
//	HOST MATCH[;MATCH...] -> ACTION     without the spaces
//	MATCH                               [=|~|%]PATH[@CONDITION,...]   a prefix, an exact path, a regular expression, a late one
//	CONDITION                           METHOD, NAME:VALUE, NAME~REGEX (a header), ?NAME=VALUE, ?NAME~REGEX (of the query)
//	ACTION                              SERVICE:PORT, reply=STATUS, redirect=STATUS,URL, or nothing: no backend; then {FILTER;...} if any
//
// A URL may lack any part; a path that ends with "*" replaces the prefix alone.

var pathKinds = map[byte]model.PathKind{'=': model.PathExact, '~': model.PathRegex, '%': model.PathLate}

// ParseMatches reads the matches of a rule.
func ParseMatches(text string) ([]model.Match, error) {
	var out []model.Match
	for one := range strings.SplitSeq(text, ";") {
		m := model.Match{Kind: model.PathPrefix}
		if kind, ok := pathKinds[(one + " ")[0]]; ok {
			m.Kind, one = kind, one[1:]
		}
		path, conditions, _ := strings.Cut(one, "@")
		if !strings.HasPrefix(path, "/") {
			return nil, fmt.Errorf("%q is no match: [=|~|%%]/PATH[@CONDITION,...]", one)
		}
		m.Path, m.When = path, parseConditions(conditions)
		out = append(out, m)
	}
	return out, nil
}

func parseConditions(text string) model.Conditions {
	var k model.ConditionsKey
	var headers, query []model.ValueMatch
	for one := range strings.SplitSeq(text, ",") {
		if of, ok := strings.CutPrefix(one, "?"); ok {
			query = append(query, parseValue(of, "="))
		} else if strings.ContainsAny(one, ":~") {
			headers = append(headers, parseValue(one, ":"))
		} else {
			k.Method = one
		}
	}
	k.Headers, k.Query = model.ValuesOf(headers...), model.ValuesOf(query...)
	return k.Conditions()
}

func parseValue(text, equal string) model.ValueMatch {
	if name, value, regex := strings.Cut(text, "~"); regex {
		return model.ValueMatch{Name: name, Value: value, Regex: true}
	}
	name, value, _ := strings.Cut(text, equal)
	return model.ValueMatch{Name: name, Value: value}
}

// ParseReply reads an answer of the proxy; nil if the text is something else.
func ParseReply(text string) (*model.Reply, error) {
	kind, rest, _ := strings.Cut(text, "=")
	if kind != "reply" && kind != "redirect" {
		return nil, nil
	}
	status, to, _ := strings.Cut(rest, ",")
	n, err := strconv.ParseUint(status, 10, 16)
	if err != nil {
		return nil, fmt.Errorf("%q: %w", text, err)
	}
	out := &model.Reply{Status: uint16(n)}
	if kind == "reply" {
		out.Body = to
		return out, nil
	}
	u, err := url.Parse(to)
	if err != nil {
		return nil, fmt.Errorf("%q: %w", text, err)
	}
	port, _ := strconv.ParseUint(u.Port(), 10, 16)
	path, prefix := strings.CutSuffix(u.Path, "*")
	out.Redirect = &model.Redirect{Scheme: u.Scheme, Host: u.Hostname(), Port: uint16(port), Path: path, Prefix: prefix}
	return out, nil
}

// rule reads a rule.
func (a *Args) rule(text, namespace string, field model.Field) (model.Host, model.Rule) {
	from, to, ok := strings.Cut(text, "->")
	i := strings.Index(from, "/")
	if !ok || i < 0 {
		a.Fail("%q is no HOST/PATH->SERVICE:PORT", text)
		return "", model.Rule{}
	}
	to, filters := CutFilters(to)
	host := strings.TrimRight(from[:i], "=~")
	r := model.Rule{Field: field}
	var err error
	if r.Matches, err = ParseMatches(from[len(host):]); err == nil {
		r.Reply, err = ParseReply(to)
	}
	if err == nil {
		r.Filters, err = ParseFilters(filters, func(text string) model.Backend { return a.backend(text, namespace) })
	}
	if err != nil {
		a.Fail("%w", err)
		return "", model.Rule{}
	}
	if to != "" && r.Reply == nil {
		r.Backends = []model.WeightedBackend{{Backend: a.backend(to, namespace), Weight: 1}}
	}
	return model.Host(host), r
}
