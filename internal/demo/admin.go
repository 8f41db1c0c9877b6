package demo

import (
	"bufio"
	"context"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/spillway-dev/spillway/internal/lab/user"
)

const askTimeout = 10 * time.Second

// admin reads the admin listeners of `spillway serve` and of Envoy.
type admin struct{ user.Admin }

func newAdmin(address string) *admin {
	return &admin{user.Admin{Address: address, Client: &http.Client{Timeout: askTimeout}}}
}

// ready is nil once serve has published.
func (a *admin) ready(ctx context.Context) error {
	_, err := a.Page(ctx, a.Address, "/readyz")
	return err
}

// row is a row of a table of the program, as text.
type row struct {
	Key   string `json:"key"`
	Value string `json:"value"`
}

func (a *admin) table(ctx context.Context, name string) (rows []row, err error) {
	err = a.Read(ctx, "/v1/tables/"+url.PathEscape(name), &rows)
	return rows, err
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
	body, err := a.Page(ctx, a.Address, "/metrics")
	return numbers(string(body)), err
}

// holding is what an Envoy holds, and how often it has lost something.
type holding struct {
	clusters, listeners            int // active
	clustersRemoved, listenersGone int // ever
	endpoints                      int // in all clusters
}

func (a *admin) holding(ctx context.Context, envoy string) (holding, error) {
	body, err := a.Page(ctx, envoy, "/stats?filter="+url.QueryEscape(`^(cluster_manager\.(active_clusters|cluster_removed)|listener_manager\.(total_listeners_active|listener_removed)|cluster\..*\.membership_total)$`))
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
