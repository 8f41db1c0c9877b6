package cli

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
)

// admin is how to reach a running serve.
type admin struct {
	address, ca, token string
	match, format      string
	limit              int
}

// getCommand shows what a running serve has.
func getCommand() *cobra.Command {
	a := admin{}
	cmd := &cobra.Command{
		Use:   "get findings|streams|tables|TABLE",
		Short: "Show what a running spillway serve knows and does",
		Long: "Show what a running `spillway serve` knows and does, read from its admin listener.\n\n" +
			"  findings   what is wrong with objects, and what to do\n" +
			"  streams    the proxies and gRPC clients that are connected\n" +
			"  tables     the tables of the program\n" +
			"  TABLE      the rows of one table, for example hosts, members, plans, paths",
		Example: "  spillway get findings\n  spillway get hosts --match shop.example\n  spillway get streams -o json",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.get(cmd.Context(), cmd.OutOrStdout(), args[0])
		},
	}
	f := cmd.Flags()
	f.StringVar(&a.address, "admin-address", "127.0.0.1:18080", "admin listener of spillway serve; https://HOST:PORT off loopback")
	f.StringVar(&a.ca, "admin-ca", "", "CA file of the admin listener's certificate")
	f.StringVar(&a.token, "admin-token-file", "", "file with a token of the hub, needed off loopback")
	f.StringVar(&a.match, "match", "", "rows of a table whose key contains this")
	f.IntVar(&a.limit, "limit", 1000, "rows at most")
	outputFlag(cmd, &a.format)
	return cmd
}

// columns are the fields shown of a kind of answer, in order.
var columns = map[string][]string{
	"findings": {"severity", "object", "reason", "field", "message"},
	"tables":   {"name", "kind", "rows", "evaluations"},
	"streams":  {"edge", "node", "envoy", "grpc", "since", "inSync", "bytesSent"},
	"":         {"key", "value"},
}

func (a admin) get(ctx context.Context, w io.Writer, what string) error {
	path := "/v1/" + what
	if _, known := columns[what]; !known {
		path = "/v1/tables/" + url.PathEscape(what) + "?" + url.Values{"match": {a.match}, "limit": {fmt.Sprint(a.limit)}}.Encode()
	}
	body, err := a.fetch(ctx, path)
	if err != nil {
		return err
	}
	if a.format != "table" {
		var v any
		if err := json.Unmarshal(body, &v); err != nil {
			return err
		}
		return encode(w, a.format, v)
	}
	var rows []map[string]any
	if err := json.Unmarshal(body, &rows); err != nil {
		return fmt.Errorf("the answer is not a list; try -o json: %w", err)
	}
	cols, ok := columns[what]
	if !ok {
		cols = columns[""]
	}
	return table(w, cols, rows)
}

func table(w io.Writer, cols []string, rows []map[string]any) error {
	if len(rows) == 0 {
		_, err := fmt.Fprintln(w, "none")
		return err
	}
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintln(t, strings.ToUpper(strings.Join(cols, "\t")))
	for _, row := range rows {
		cells := make([]string, len(cols))
		for i, c := range cols {
			if v := row[c]; v != nil {
				cells[i] = fmt.Sprint(v)
			}
		}
		fmt.Fprintln(t, strings.Join(cells, "\t"))
	}
	return t.Flush()
}

func (a admin) fetch(ctx context.Context, path string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	base := a.address
	if !strings.Contains(base, "://") {
		base = "http://" + base
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, base+path, http.NoBody)
	if err != nil {
		return nil, fmt.Errorf("admin address %q: %w", a.address, err)
	}
	client, err := a.client()
	if err != nil {
		return nil, err
	}
	if a.token != "" {
		token, err := os.ReadFile(a.token)
		if err != nil {
			return nil, fmt.Errorf("token of the hub: %w", err)
		}
		req.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("no spillway serve at %s (start it, or name its --admin-address): %w", a.address, err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: %s", resp.Status, strings.TrimSpace(string(body)))
	}
	return body, nil
}

func (a admin) client() (*http.Client, error) {
	if a.ca == "" {
		return http.DefaultClient, nil
	}
	pem, err := os.ReadFile(a.ca)
	if err != nil {
		return nil, fmt.Errorf("CA of the admin listener: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, errors.New("CA of the admin listener: no certificate in " + a.ca)
	}
	return &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}}}, nil
}
