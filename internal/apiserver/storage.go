package apiserver

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"path/filepath"

	"go.etcd.io/etcd/server/v3/embed"
	"go.etcd.io/etcd/server/v3/storage/wal"
	"go.uber.org/zap"
)

// walSegment is how much of the log is allocated ahead, twice: a quarter of
// etcd's default, so that a lab of many servers does not fill a small disk.
const walSegment = 16 << 20

// A single member elects itself after at most an election timeout: etcd's
// default of a second is for networks.
const (
	tickMs     = 50
	electionMs = 5 * tickMs // the least etcd takes
)

// startStorage runs etcd in the process, on unix sockets in dir/run and on no
// port, and returns it with the URL for clients.
func startStorage(ctx context.Context, d *dataDir, unsafe bool, log *zap.Logger) (*embed.Etcd, string, error) {
	socks, err := d.sockets()
	if err != nil {
		return nil, "", err
	}
	client, peer := filepath.Join(socks, "etcd.sock"), filepath.Join(socks, "peer.sock")
	for _, s := range []string{client, peer} {
		if err := os.Remove(s); err != nil && !os.IsNotExist(err) {
			return nil, "", dirError(d.path, err)
		}
	}

	wal.SegmentSizeBytes = walSegment
	c := embed.NewConfig()
	c.Name, c.Dir = "hub", filepath.Join(d.path, "etcd")
	c.ListenClientUrls = []url.URL{{Scheme: "unix", Path: client}}
	c.ListenPeerUrls = []url.URL{{Scheme: "unix", Path: peer}}
	// Advertised addresses must look like TCP. A single member never dials them.
	c.AdvertiseClientUrls = []url.URL{{Scheme: "http", Host: "127.0.0.1:2379"}}
	c.AdvertisePeerUrls = []url.URL{{Scheme: "http", Host: "127.0.0.1:2380"}}
	c.InitialCluster = c.InitialClusterFromName(c.Name)
	c.TickMs, c.ElectionMs = tickMs, electionMs
	c.UnsafeNoFsync = unsafe
	c.ZapLoggerBuilder = embed.NewZapLoggerBuilder(log)

	e, err := embed.StartEtcd(c)
	if err != nil {
		return nil, "", fmt.Errorf("start the database in %s: %w", c.Dir, err)
	}
	select {
	case <-e.Server.ReadyNotify():
		return e, "unix://" + client, nil
	case err := <-e.Err():
		e.Close()
		return nil, "", fmt.Errorf("start the database in %s: %w", c.Dir, err)
	case <-ctx.Done():
		e.Close()
		return nil, "", ctx.Err()
	}
}
