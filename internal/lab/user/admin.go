package user

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// Admin reads the admin listeners of `spillway serve` and of Envoy.
type Admin struct {
	Address string // of serve
	Client  *http.Client
}

// Page reads a page of any admin listener.
func (a *Admin) Page(ctx context.Context, address, path string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+path, nil)
	if err != nil {
		return nil, err
	}
	resp, err := a.Client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 64<<20))
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s answers %d: %.200s", path, resp.StatusCode, strings.TrimSpace(string(body)))
	}
	return body, err
}

// Read reads a page of serve, which is JSON.
func (a *Admin) Read(ctx context.Context, path string, into any) error {
	body, err := a.Page(ctx, a.Address, path)
	if err != nil {
		return err
	}
	return json.Unmarshal(body, into)
}

// Stream is a proxy's stream.
type Stream struct {
	Number    uint64 `json:"stream"`
	Edge      string `json:"edge"`
	BytesSent int64  `json:"bytesSent"`
	InSync    bool   `json:"inSync"`
}

// Streams lists those that are open.
func (a *Admin) Streams(ctx context.Context) (all []Stream, err error) {
	err = a.Read(ctx, "/v1/streams", &all)
	return all, err
}

// Finding is what is wrong with an object.
type Finding struct {
	Object  string `json:"object"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

func (f Finding) String() string { return f.Object + " " + f.Reason + ": " + f.Message }

// Findings lists what is wrong.
func (a *Admin) Findings(ctx context.Context) (all []Finding, err error) {
	err = a.Read(ctx, "/v1/findings", &all)
	return all, err
}
