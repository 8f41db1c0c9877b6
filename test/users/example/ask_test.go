package example

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/spillway-dev/spillway/internal/lab/echo"
)

// pod starts a server of the lab, and returns text with its ports in place of the names of
// protocols.
func pod(t *testing.T, text string) string {
	t.Helper()
	const free = "127.0.0.1:0"
	s, err := echo.Listen(echo.Config{HTTP: free, HTTPS: free, TCP: free, UDP: free, Identity: echo.Identity{Pod: "web-1-a", Member: "eu-1"}, Drain: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	for _, protocol := range []string{"https", "http", "tcp", "udp"} {
		_, port, _ := net.SplitHostPort(s.Addr(protocol).String())
		text = strings.ReplaceAll(text, ":"+protocol, ":"+port)
	}
	return text
}

// ask has a line asked once.
func ask(t *testing.T, line string) error {
	t.Helper()
	all, err := Read("a.yaml", "#\n# "+line+"\n")
	if err != nil || len(all) != 1 {
		t.Fatal(err)
	}
	q, err := json.Marshal(Question{Address: "127.0.0.1", All: all})
	if err != nil {
		t.Fatal(err)
	}
	return Serve(t.Context(), bytes.NewReader(q))
}

func TestWhatHolds(t *testing.T) {
	for _, line := range []string{
		"GET http://a.example:http/x/y with X-A: 1, 2 -> 200 from web in eu-1, gets X-A: 1,2, gets X-A, gets no X-B, gets path /x/y, answers Content-Type: application/json, answers no X-A",
		"POST http://a.example:http/?status=503 -> 503 from web, gets path /",
		"GET http://a.example:http/ -> 200 from web, answers Content-Type, again by the same pod",
		"GRPC http://a.example:http/spillway.lab.v1.Echo/Echo -> OK from web, gets Content-Type: application/grpc",
		"GRPC http://a.example:http/spillway.lab.v1.Other/Call -> UNIMPLEMENTED",
		"TCP :tcp -> from web in eu-1",
		"UDP :udp -> from web",
		"TCP :closes -> closed",
		"GET http://a.example:closes/ -> closed",
		"TLS a.example:closes -> closed",
	} {
		if err := ask(t, closing(t, pod(t, line))); err != nil {
			t.Errorf("%s\n%v", line, err)
		}
	}
}

// closing has a server that ends connections once something came, in place of its name.
func closing(t *testing.T, text string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = c.Read(make([]byte, 4096))
			_ = c.Close()
		}
	}()
	t.Cleanup(func() { _ = l.Close(); <-done })
	return strings.ReplaceAll(text, ":closes", fmt.Sprintf(":%d", l.Addr().(*net.TCPAddr).Port))
}

func TestWhatDoesNotHold(t *testing.T) {
	for line, want := range map[string]string{
		"GET http://a.example:http/ -> 404":                                   "the answer is 200",
		"GET http://a.example:http/ -> closed":                                "the answer is 200",
		"GET http://a.example:http/ -> 200 from cart":                         `the pod's Service is "web"`,
		"GET http://a.example:http/ -> 200 from web in eu-2":                  `the pod's member is "eu-1"`,
		"GET http://a.example:http/x -> 200 from web, gets path /":            `the pod's path is "/x"`,
		"GET http://a.example:http/ with X-A: 1 -> 200 from web, gets no X-A": `the pod has X-A: "1"`,
		"GET http://a.example:http/ -> 200 from web, gets X-A":                `the pod has X-A: ""`,
		"GET http://a.example:http/ -> 200 from web, gets User-Agent: x":      "the pod has User-Agent",
		"GET http://a.example:http/ -> 200, answers X-A: 1":                   `the answer has X-A: ""`,
		"GET https://a.example:https/ -> closed":                              "certificate",
		"GET https://a.example:https/ as nobody -> 200":                       `there is no certificate "nobody"`,
		"GET http://a.example:http/healthz -> 200 from web":                   "the answer is of no pod",
		"GRPC http://a.example:http/spillway.lab.v1.Echo/Echo -> NOT_FOUND":   "the answer is OK",
		"TCP :tcp -> from db":                                                 `the pod's Service is "web"`,
		"TCP :tcp -> closed":                                                  "the answer is",
		"TLS a.example:https -> closed":                                       "certificate",
		"TCP :1 -> closed":                                                    "connect",
	} {
		text := pod(t, line)
		err := ask(t, text)
		if err == nil || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), "a.yaml:2: "+text) {
			t.Errorf("%s\ngot %v, want %q", line, err, want)
		}
	}
}
