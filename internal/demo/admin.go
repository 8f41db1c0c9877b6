package demo

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

const askTimeout = 10 * time.Second

// admin reads the admin listeners of `spillway serve` and of Envoy.
type admin struct {
	address string // of serve
	client  *http.Client
}

func newAdmin(address string) *admin {
	return &admin{address: address, client: &http.Client{Timeout: askTimeout}}
}

func (a *admin) get(ctx context.Context, address, path string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+path, nil)
	if err != nil {
		return nil, err
	}
	resp, err := a.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 64<<20))
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s answers %d: %s", path, resp.StatusCode, shorten(strings.TrimSpace(string(body))))
	}
	return body, err
}

func (a *admin) read(ctx context.Context, path string, into any) error {
	body, err := a.get(ctx, a.address, path)
	if err != nil {
		return err
	}
	return json.Unmarshal(body, into)
}

// ready is nil once serve has published.
func (a *admin) ready(ctx context.Context) error {
	_, err := a.get(ctx, a.address, "/readyz")
	return err
}

// row is a row of a table of the program, as text.
type row struct {
	Key   string `json:"key"`
	Value string `json:"value"`
}

func (a *admin) table(ctx context.Context, name string) (rows []row, err error) {
	return rows, a.read(ctx, "/v1/tables/"+url.PathEscape(name), &rows)
}

// stream is a proxy's stream.
type stream struct {
	Number    uint64 `json:"stream"`
	Edge      string `json:"edge"`
	BytesSent int64  `json:"bytesSent"`
	InSync    bool   `json:"inSync"`
}

func (a *admin) streams(ctx context.Context) (all []stream, err error) {
	return all, a.read(ctx, "/v1/streams", &all)
}

// finding is what is wrong with an object.
type finding struct {
	Object  string `json:"object"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

func (a *admin) findings(ctx context.Context) (all []finding, err error) {
	return all, a.read(ctx, "/v1/findings", &all)
}

// numbers reads lines of "name value" or "name: value": Prometheus metrics and
// Envoy's stats. Lines of another form are left out.
func numbers(text string) map[string]float64 {
	out := map[string]float64{}
	in := bufio.NewScanner(strings.NewReader(text))
	for in.Scan() {
		name, value, ok := strings.Cut(in.Text(), " ")
		if n, err := strconv.ParseFloat(value, 64); ok && err == nil {
			out[strings.TrimSuffix(name, ":")] = n
		}
	}
	return out
}

func (a *admin) metrics(ctx context.Context) (map[string]float64, error) {
	body, err := a.get(ctx, a.address, "/metrics")
	return numbers(string(body)), err
}

// holding is what an Envoy holds, and how often it has lost something.
type holding struct {
	clusters, listeners            int // active
	clustersRemoved, listenersGone int // ever
	endpoints                      int // in all clusters
}

func (a *admin) holding(ctx context.Context, envoy string) (holding, error) {
	body, err := a.get(ctx, envoy, "/stats?filter="+url.QueryEscape(`^(cluster_manager\.(active_clusters|cluster_removed)|listener_manager\.(total_listeners_active|listener_removed)|cluster\..*\.membership_total)$`))
	if err != nil {
		return holding{}, err
	}
	var h holding
	for name, n := range numbers(string(body)) {
		switch name {
		case "cluster_manager.active_clusters":
			h.clusters = int(n)
		case "cluster_manager.cluster_removed":
			h.clustersRemoved = int(n)
		case "listener_manager.total_listeners_active":
			h.listeners = int(n)
		case "listener_manager.listener_removed":
			h.listenersGone = int(n)
		default:
			h.endpoints += int(n)
		}
	}
	return h, nil
}
