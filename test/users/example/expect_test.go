package example

import (
	"reflect"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestRead(t *testing.T) {
	for line, want := range map[string]Expectation{
		"GET http://shop.example/cart -> 200 from cart":     {Protocol: HTTP, Method: "GET", URL: "http://shop.example/cart", Status: "200", From: "cart"},
		"POST https://a.example:8443/ as b -> closed":       {Protocol: HTTP, Method: "POST", URL: "https://a.example:8443/", As: "b", Closed: true},
		"GET http://a/ with A: 1, 2, with B: 3 -> 404":      {Protocol: HTTP, Method: "GET", URL: "http://a/", Send: []Header{{Name: "A", Value: "1, 2"}, {Name: "B", Value: "3"}}, Status: "404"},
		"GET http://a/ -> 200 from w in eu-1, gets path /b": {Protocol: HTTP, Method: "GET", URL: "http://a/", Status: "200", From: "w", In: "eu-1", Path: "/b"},
		"GET http://a/ -> 200 from w, gets A: 1, 2, gets no B, gets C, answers D: e": {
			Protocol: HTTP, Method: "GET", URL: "http://a/", Status: "200", From: "w",
			Gets: []Header{{Name: "A", Value: "1, 2"}, {Name: "B", Absent: true}, {Name: "C"}}, Answers: []Header{{Name: "D", Value: "e"}},
		},
		"GET http://a/ -> 200 from w, copied to c, gets host x":           {Protocol: HTTP, Method: "GET", URL: "http://a/", Status: "200", From: "w", Copied: "c", PodHost: "x"},
		"GET http://a/ -> 503 from w, tried 3 times":                      {Protocol: HTTP, Method: "GET", URL: "http://a/", Status: "503", From: "w", Tried: 3},
		"GET http://a/ -> 503 from w, tried once":                         {Protocol: HTTP, Method: "GET", URL: "http://a/", Status: "503", From: "w", Tried: 1},
		"GRPC http://a/p.S/M -> UNIMPLEMENTED":                            {Protocol: GRPC, URL: "http://a/p.S/M", Status: "UNIMPLEMENTED"},
		"later GET http://a/ -> 200 from w, gets certificate c":           {Protocol: HTTP, Method: "GET", URL: "http://a/", Status: "200", From: "w", Shown: "c", Later: true},
		"TCP :5432 -> from db":                                            {Protocol: TCP, Port: "5432", From: "db"},
		"UDP :53 -> from dns in eu-2":                                     {Protocol: UDP, Port: "53", From: "dns", In: "eu-2"},
		"TLS a.example:8443 -> closed":                                    {Protocol: TLS, Host: "a.example", Port: "8443", Closed: true},
		"Gateway web -> Programmed":                                       {Kind: "Gateway", Name: "web", Condition: "Programmed"},
		"HTTPRoute web -> not ResolvedRefs":                               {Kind: "HTTPRoute", Name: "web", Condition: "ResolvedRefs", Not: true},
		"Gateway web -> at 192.0.2.80":                                    {Kind: "Gateway", Name: "web", At: "192.0.2.80"},
		"GET http://a/ -> 200 from w, answers X-S, again by the same pod": {Protocol: HTTP, Method: "GET", URL: "http://a/", Status: "200", From: "w", Answers: []Header{{Name: "X-S"}}, Again: true},
	} {
		want.File, want.Line, want.Text = "a.yaml", 2, line
		got, err := Read("a.yaml", "# Words.\n# "+line+"\nkind: Gateway # more\n")
		if err != nil || len(got) != 1 || !reflect.DeepEqual(got[0], want) {
			t.Errorf("%s\ngot  %+v, %v\nwant %+v", line, got, err, want)
		}
	}
}

func TestReadTellsWhatIsWrong(t *testing.T) {
	for line, want := range map[string]string{
		"GET http://a/->200":                          "write what is asked",
		"FETCH http://a/ now -> 200":                  "is neither GET",
		"gateway web -> Programmed":                   "is neither GET",
		"GET shop.example/ -> 200":                    "write a URL, such as",
		"GET http://a/ with X -> 200":                 "write `with NAME: VALUE`",
		"GRPC http://a/ with X: y -> OK":              "write `with NAME: VALUE`",
		"GET http://a/ as -> 200":                     "whose certificate",
		"GET http://a/ -> ok":                         "a status, such as",
		"GET http://a/ -> 200 from":                   "a status, such as",
		"GRPC http://a/ -> 200":                       "a code, such as",
		"TCP 5432 -> from db":                         "write a port, such as :5432",
		"TCP a:5432 -> from db":                       "write a port, such as :5432",
		"TLS :8443 -> closed":                         "write a host and a port, such as shop.example:5432",
		"TCP :70000 -> from db":                       "a port, such as",
		"UDP :53 -> closed":                           "write `from SERVICE`",
		"TLS a:1 -> db":                               "write `from SERVICE`",
		"Gateway web -> programmed":                   "a condition",
		"Gateway web -> closed":                       "a condition",
		"TCP :1 -> from db, gets A":                   "only answers of HTTP and GRPC",
		"GET http://a/ -> 301, gets A: b":             "say `from` which Service",
		"GRPC http://a/ -> OK from a, answers B":      "only of HTTP",
		"GET http://a/ -> 200 from a, tried twice":    "write `gets`, `answers`",
		"GET http://a/ -> 200, again by the same pod": "`again by the same pod` of a Service",
		"GET http://a/ -> 503, tried once":            "of a Service that answers",
		"GET http://a/ -> 200 from a, copied b":       "copied to SERVICE",
	} {
		got, err := Read("a.yaml", "# "+line+"\n# TCP :1 -> from db\n")
		if err == nil || len(got) != 1 || !strings.HasPrefix(err.Error(), "a.yaml:1: "+line+": ") || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, %v; want an error with %q", line, got, err, want)
		}
	}
}
