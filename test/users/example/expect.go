package example

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Protocols that are asked by, beside HTTP's methods.
const (
	HTTP   = "HTTP"
	GRPC   = "GRPC"
	TCP    = "TCP"
	UDP    = "UDP"
	TLS    = "TLS"
	Object = "" // nothing is asked: an object's status is read
)

// Header is one that is there, with any value if it says none, or is not.
type Header struct {
	Name, Value string
	Absent      bool
}

// Expectation is a line.
type Expectation struct {
	File string
	Line int
	Text string // of the line

	Protocol   string
	Method     string   // of HTTP
	URL        string   // of HTTP and GRPC
	Send       []Header // of HTTP
	As         string   // whose certificate the client shows
	Host, Port string   // of TLS both, of TCP and UDP the port
	Kind, Name string   // of an object

	Status        string // of HTTP and GRPC
	Closed        bool
	From, In      string // a Service and a member
	Path, PodHost string // that the pod got
	Shown         string // whose certificate the pod was shown
	Later         bool   // it holds after the change that the file is about
	Gets, Answers []Header
	Copied        string // the Service that gets a copy
	Tried         int    // requests that Service From gets
	Again         bool   // who shows what the answer has gets it from the same pod
	Condition     string
	Not           bool   // it is not True
	At            string // an address
}

// String is where it is said, and what.
func (e Expectation) String() string { return fmt.Sprintf("%s:%d: %s", e.File, e.Line, e.Text) }

// Counted is whether it is about how many requests come to a Service.
func (e Expectation) Counted() (service string, want int, is bool) {
	if e.Copied != "" {
		return e.Copied, 1, true
	}
	return e.From, e.Tried, e.Tried > 0
}

const arrow = " -> "

const again = "again by the same pod"

// Read returns the expectations in the comments of a file.
func Read(file, text string) (out []Expectation, err error) {
	n := 0
	for line := range strings.Lines(text) {
		n++
		comment, is := strings.CutPrefix(strings.TrimSpace(line), "#")
		if !is || !strings.Contains(comment, "->") {
			continue
		}
		e := Expectation{File: file, Line: n, Text: strings.TrimSpace(comment)}
		if wrong := e.parse(); wrong != nil {
			err = errors.Join(err, fmt.Errorf("%s: %w", e, wrong))
			continue
		}
		out = append(out, e)
	}
	return out, err
}

func (e *Expectation) parse() error {
	asked, comes, ok := strings.Cut(e.Text, arrow)
	if !ok {
		return fmt.Errorf("write what is asked,%qand what comes", arrow)
	}
	asked, e.Later = strings.CutPrefix(asked, "later ")
	if err := e.ask(asked); err != nil {
		return err
	}
	return e.expect(comes)
}

var methods = []string{"GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS"}

// ask reads what is before the arrow.
func (e *Expectation) ask(text string) error {
	verb, rest, _ := strings.Cut(text, " ")
	e.Protocol = verb
	switch {
	case slices.Contains(methods, verb):
		e.Protocol, e.Method = HTTP, verb
		return e.request(rest)
	case verb == GRPC:
		return e.request(rest)
	case verb == TCP, verb == UDP:
		return e.place(rest, "")
	case verb == TLS:
		return e.place(rest, "a host and ")
	}
	e.Protocol = Object
	words := strings.Fields(text)
	if len(words) != 2 || !regexp.MustCompile(`^[A-Z][A-Za-z]+$`).MatchString(words[0]) {
		return fmt.Errorf("%q is neither %s, GRPC, TCP, UDP nor TLS, nor the kind and the name of an object", text, strings.Join(methods, ", "))
	}
	e.Kind, e.Name = words[0], words[1]
	return nil
}

// place reads HOST:PORT or :PORT.
func (e *Expectation) place(text, host string) (err error) {
	e.Host, e.Port, err = net.SplitHostPort(text)
	n, wrong := strconv.Atoi(e.Port)
	if err != nil || wrong != nil || n < 1 || n > 65535 || (e.Host == "") != (host == "") {
		return fmt.Errorf("%s %q: write %sa port, such as %s:5432", e.Protocol, text, host, map[bool]string{false: "shop.example"}[host == ""])
	}
	return nil
}

// request reads URL [with HEADER]... [as CLIENT].
func (e *Expectation) request(text string) error {
	to, rest, _ := strings.Cut(text, " ")
	u, err := url.Parse(to)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" {
		return fmt.Errorf("%q: write a URL, such as http://shop.example/cart", to)
	}
	e.URL = to
	if rest == "" {
		return nil
	}
	for _, c := range clauses(rest, "with ", "as ") {
		word, what, _ := strings.Cut(c, " ")
		h := header(what)
		switch {
		case word == "as" && what != "" && !strings.Contains(what, " "):
			e.As = what
		case word == "with" && h.Value != "" && e.Protocol == HTTP:
			e.Send = append(e.Send, h)
		default:
			return fmt.Errorf("%q after the URL: write `with NAME: VALUE` (of HTTP), or `as` and whose certificate it is", c)
		}
	}
	return nil
}

// clauses splits at commas after which one begins: values may have commas, too.
func clauses(text string, begin ...string) (out []string) {
	for _, part := range strings.Split(text, ", ") {
		begins := slices.ContainsFunc(begin, func(b string) bool { return strings.HasPrefix(part, b) })
		if begins || len(out) == 0 {
			out = append(out, part)
			continue
		}
		out[len(out)-1] += ", " + part
	}
	return out
}

func header(text string) Header {
	if name, no := strings.CutPrefix(text, "no "); no {
		return Header{Name: name, Absent: true}
	}
	name, value, _ := strings.Cut(text, ": ")
	return Header{Name: name, Value: value}
}

// expect reads what is after the arrow.
func (e *Expectation) expect(text string) error {
	all := clauses(text, "gets ", "answers ", "copied ", "tried ", again)
	if err := e.result(all[0]); err != nil {
		return err
	}
	for _, c := range all[1:] {
		if err := e.clause(c); err != nil {
			return err
		}
	}
	return nil
}

// forms of a result by what was asked, each with how it is written.
var forms = map[string]struct {
	of  *regexp.Regexp
	say string
}{
	HTTP:   {regexp.MustCompile(`^(?P<status>[1-5][0-9][0-9])(?: from (?P<from>[a-z0-9]+)(?: in (?P<in>\S+))?)?$`), "a status, such as `200 from web`"},
	GRPC:   {regexp.MustCompile(`^(?P<status>[A-Z_]+)(?: from (?P<from>[a-z0-9]+)(?: in (?P<in>\S+))?)?$`), "a code, such as `OK from web`"},
	TCP:    {regexp.MustCompile(`^from (?P<from>[a-z0-9]+)(?: in (?P<in>\S+))?$`), "`from SERVICE`"},
	Object: {regexp.MustCompile(`^(?:(?P<not>not )?(?P<condition>[A-Z][A-Za-z]+)|at (?P<at>\S+))$`), "a condition, `not` and a condition, or `at ADDRESS`"},
}

// result reads the first of what comes.
func (e *Expectation) result(text string) error {
	if e.Closed = text == "closed"; e.Closed && e.Protocol != Object && e.Protocol != UDP {
		return nil
	}
	form, ok := forms[e.Protocol]
	if !ok {
		form = forms[TCP]
	}
	m := form.of.FindStringSubmatch(text)
	if m == nil {
		return fmt.Errorf("%q is not what can come: write %s", text, form.say)
	}
	for i, name := range form.of.SubexpNames() {
		if to, ok := map[string]*string{"status": &e.Status, "from": &e.From, "in": &e.In, "condition": &e.Condition, "at": &e.At}[name]; ok {
			*to = m[i]
		}
		e.Not = e.Not || name == "not" && m[i] != ""
	}
	return nil
}

// clause reads one of those after the result.
func (e *Expectation) clause(text string) error {
	word, what, _ := strings.Cut(text, " ")
	switch {
	case e.Status == "":
		return fmt.Errorf("%q: only answers of HTTP and GRPC have more than the first", text)
	case word == "gets" && e.From == "":
		return fmt.Errorf("%q: say `from` which Service, since no pod gets what it does not answer", text)
	case word == "gets" && strings.HasPrefix(what, "path "):
		e.Path = what[len("path "):]
	case word == "gets" && strings.HasPrefix(what, "certificate "):
		e.Shown = what[len("certificate "):]
	case word == "gets" && strings.HasPrefix(what, "host "):
		e.PodHost = what[len("host "):]
	case word == "gets":
		e.Gets = append(e.Gets, header(what))
	case e.Protocol != HTTP:
		return fmt.Errorf("%q: only of HTTP", text)
	case word == "answers":
		e.Answers = append(e.Answers, header(what))
	case word == "copied" && strings.HasPrefix(what, "to "):
		e.Copied = what[len("to "):]
	case text == again && e.From != "":
		e.Again = true
	default:
		return e.tries(text)
	}
	return nil
}

func (e *Expectation) tries(text string) error {
	if text == "tried once" {
		text = "tried 1 times"
	}
	var unit string
	if n, err := fmt.Sscanf(text, "tried %d %s", &e.Tried, &unit); n != 2 || err != nil || e.Tried < 1 || unit != "times" || e.From == "" {
		return fmt.Errorf("%q: write `gets`, `answers`, `copied to SERVICE`, `again by the same pod` of a Service, or of a Service that answers `tried once` or `tried 3 times`", text)
	}
	return nil
}
