package bootstrap

import (
	"strings"
	"testing"
)

func TestGRPC(t *testing.T) {
	for _, c := range []struct {
		o    Options
		want string
	}{
		{Options{Edge: "fra", NodeID: "cart-1", XDSSocket: "/run/spillway/xds.sock"}, `{
  "xds_servers": [
    {
      "server_uri": "unix:/run/spillway/xds.sock",
      "channel_creds": [
        {
          "type": "insecure"
        }
      ],
      "server_features": [
        "xds_v3"
      ]
    }
  ],
  "node": {
    "id": "cart-1",
    "cluster": "fra",
    "locality": {}
  }
}
`},
		{Options{Edge: "fra", NodeID: "cart-1", XDSAddress: "xds.example:18000", CA: "/ca", Cert: "/cert", Key: "/key"}, `"config": {
            "ca_certificate_file": "/ca",
            "certificate_file": "/cert",
            "private_key_file": "/key"
          }`},
	} {
		got, err := RenderGRPC(c.o)
		if err != nil || !strings.Contains(string(got), c.want) {
			t.Errorf("%+v: %v\n%s", c.o, err, got)
		}
	}
	for want, o := range map[string]Options{
		"--edge":        {NodeID: "1", XDSSocket: "/s"},
		"loopback only": {Edge: "fra", NodeID: "1", XDSAddress: "xds.example:18000"},
		"absolute":      {Edge: "fra", NodeID: "1", XDSAddress: "xds.example:18000", CA: "ca", Cert: "/cert", Key: "/key"},
	} {
		if _, err := RenderGRPC(o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", o, err, want)
		}
	}
}
