package echo

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/protobuf/types/known/structpb"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func start(t *testing.T) (*Server, context.CancelFunc) {
	t.Helper()
	const free = "127.0.0.1:0"
	s, err := Listen(Config{HTTP: free, HTTPS: free, TCP: free, UDP: free, Identity: Identity{Pod: "web-1", Member: "eu-1"}, Drain: 10 * time.Second})
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
	return s, cancel
}

// client speaks one HTTP version, in the clear or over TLS.
func client(t *testing.T, version int) *http.Client {
	tr := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true, ServerName: "shop.example"}, Protocols: new(http.Protocols)}
	tr.Protocols.SetHTTP1(version == 1)
	tr.Protocols.SetHTTP2(version == 2)
	tr.Protocols.SetUnencryptedHTTP2(version == 2)
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr, Timeout: 10 * time.Second}
}

func TestHTTP(t *testing.T) {
	s, _ := start(t)
	for _, tc := range []struct {
		scheme, proto string
		version       int
		sni           string
	}{
		{"http", "HTTP/1.1", 1, ""},
		{"http", "HTTP/2.0", 2, ""},
		{"https", "HTTP/1.1", 1, "shop.example"},
		{"https", "HTTP/2.0", 2, "shop.example"},
	} {
		req, _ := http.NewRequest(http.MethodPost, tc.scheme+"://"+s.Addr(tc.scheme).String()+"/cart?item=1&status=202", strings.NewReader("hello"))
		req.Host = "shop.example"
		req.Header.Set("X-Try", "1")
		resp, err := client(t, tc.version).Do(req)
		if err != nil {
			t.Fatal(err)
		}
		var a Answer
		err = json.NewDecoder(resp.Body).Decode(&a)
		resp.Body.Close()
		if err != nil || resp.StatusCode != http.StatusAccepted {
			t.Fatal(resp.Status, err)
		}
		if a.Pod != "web-1" || a.Member != "eu-1" || a.Protocol != tc.proto || a.Method != http.MethodPost || a.Host != "shop.example" ||
			a.Path != "/cart" || a.Query != "item=1&status=202" || a.Received != "hello" || a.Headers["X-Try"][0] != "1" || a.Remote == "" {
			t.Errorf("%s %s: %+v", tc.scheme, tc.proto, a)
		}
		if (a.TLS != nil) != (tc.sni != "") || a.TLS != nil && a.TLS.ServerName != tc.sni {
			t.Errorf("%s %s: TLS %+v", tc.scheme, tc.proto, a.TLS)
		}
	}
}

func TestWishes(t *testing.T) {
	s, _ := start(t)
	for query, want := range map[string]int{"status=503": 503, "status=99": 400, "status=x": 400, "delay=1ms": 200, "delay=-1s": 400, "delay=1h": 400} {
		resp, err := client(t, 1).Get("http://" + s.Addr("http").String() + "/?" + query)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("%s: %d, want %d", query, resp.StatusCode, want)
		}
	}
}

func TestGRPC(t *testing.T) {
	s, _ := start(t)
	c, err := grpc.NewClient(s.Addr("http").String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	in, _ := structpb.NewStruct(map[string]any{"say": "hello"})
	out := new(structpb.Struct)
	if err := c.Invoke(t.Context(), EchoMethod, in, out); err != nil {
		t.Fatal(err)
	}
	got := out.AsMap()
	if got["pod"] != "web-1" || !strings.Contains(got["received"].(string), "hello") || got["protocol"] != "gRPC" {
		t.Error(got)
	}
	resp, err := grpc_health_v1.NewHealthClient(c).Check(t.Context(), &grpc_health_v1.HealthCheckRequest{})
	if err != nil || resp.Status != grpc_health_v1.HealthCheckResponse_SERVING {
		t.Error(resp, err)
	}
}

func TestWebSocket(t *testing.T) {
	s, _ := start(t)
	c, _, err := websocket.DefaultDialer.Dial("ws://"+s.Addr("http").String()+"/chat", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	var a Answer
	if err := c.ReadJSON(&a); err != nil || a.Protocol != "WebSocket" || a.Path != "/chat" {
		t.Fatal(a, err)
	}
	_ = c.WriteMessage(websocket.BinaryMessage, []byte("ping"))
	if kind, m, err := c.ReadMessage(); kind != websocket.BinaryMessage || string(m) != "ping" || err != nil {
		t.Error(kind, m, err)
	}
}

func TestStreams(t *testing.T) {
	s, _ := start(t)
	for _, protocol := range []string{"tcp", "udp"} {
		c, err := net.Dial(protocol, s.Addr(protocol).String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		_ = c.SetDeadline(time.Now().Add(10 * time.Second))
		if _, err := io.WriteString(c, "hello\n"); err != nil {
			t.Fatal(err)
		}
		var a Answer
		if err := json.NewDecoder(bufio.NewReader(c)).Decode(&a); err != nil {
			t.Fatal(err)
		}
		if a.Protocol != strings.ToUpper(protocol) || strings.TrimSpace(a.Received) != "hello" || a.Remote != c.LocalAddr().String() {
			t.Errorf("%+v", a)
		}
	}
}

// Readiness fails once the server is told to leave, and a request that it is
// reading then is still answered.
func TestLeave(t *testing.T) {
	s, leave := start(t)
	c, err := net.Dial("tcp", s.Addr("http").String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(10 * time.Second))
	in := bufio.NewReader(c)
	const request = "POST / HTTP/1.1\r\nHost: shop.example\r\nContent-Length: 5\r\nExpect: 100-continue\r\nConnection: close\r\n\r\n"
	if _, err := io.WriteString(c, request); err != nil {
		t.Fatal(err)
	}
	line, err := in.ReadString('\n') // the server reads the body now
	if err != nil || !strings.Contains(line, "100 Continue") {
		t.Fatal(line, err)
	}
	s.leaving.Store(true)
	health, err := client(t, 1).Get("http://" + s.Addr("http").String() + "/healthz")
	if err != nil || health.StatusCode != http.StatusServiceUnavailable {
		t.Fatal(health, err)
	}
	health.Body.Close()
	leave()
	if _, err := io.WriteString(c, "hello"); err != nil {
		t.Fatal(err)
	}
	rest, err := io.ReadAll(in)
	if err != nil || !strings.Contains(string(rest), `"received":"hello"`) {
		t.Errorf("%s, %v", rest, err)
	}
}
