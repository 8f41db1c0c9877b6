package bootstrap

import (
	"encoding/json"
	"fmt"
)

// clientConfig is the file that GRPC_XDS_BOOTSTRAP names (gRFC A27).
type clientConfig struct {
	Servers []clientServer `json:"xds_servers"`
	Node    clientNode     `json:"node"`
}

type clientServer struct {
	URI      string        `json:"server_uri"`
	Creds    []clientCreds `json:"channel_creds"`
	Features []string      `json:"server_features"`
}

// clientCreds are of type tls (A65) or insecure.
type clientCreds struct {
	Type   string           `json:"type"`
	Config *clientTLSConfig `json:"config,omitempty"`
}

type clientTLSConfig struct {
	CA   string `json:"ca_certificate_file"`
	Cert string `json:"certificate_file"`
	Key  string `json:"private_key_file"`
}

// clientNode has a locality, although we need none: grpc-js refuses a node without.
type clientNode struct {
	ID       string   `json:"id"`
	Cluster  string   `json:"cluster"`
	Locality struct{} `json:"locality"`
}

// RenderGRPC returns the bootstrap of a gRPC client as indented JSON. Of the
// options it uses Edge, NodeID and those of the way to the control plane, except
// ServerName: a client checks the host of XDSAddress.
func RenderGRPC(o Options) ([]byte, error) {
	o.AdminPath, o.AdminAddress = DefaultAdminPath, ""
	if err := o.Validate(); err != nil {
		return nil, err
	}
	server := clientServer{URI: o.XDSAddress, Creds: []clientCreds{{Type: "insecure"}}, Features: []string{"xds_v3"}}
	switch {
	case o.XDSSocket != "":
		server.URI = "unix:" + o.XDSSocket
	case o.CA != "":
		server.Creds = []clientCreds{{Type: "tls", Config: &clientTLSConfig{CA: o.CA, Cert: o.Cert, Key: o.Key}}}
	}
	out, err := json.MarshalIndent(clientConfig{[]clientServer{server}, clientNode{ID: o.NodeID, Cluster: o.Edge}}, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("bootstrap: %w", err)
	}
	return append(out, '\n'), nil
}
