package apiserver

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/spillway-dev/spillway/internal/files"
)

// access is how others come to the server: certificates, and kubeconfigs with them.
type access struct {
	cfg  Config
	dir  *dataDir
	addr net.Addr
}

// refresh makes what is missing or near its end. It returns the administrator's
// configuration. Files are replaced whole, so others may read them at any time.
func (a access) refresh(now time.Time) (pkiFiles, *rest.Config, error) {
	f, err := a.dir.ensurePKI(a.cfg.Address.Addr(), firstIP(a.cfg.ServiceCIDR), now)
	if err != nil {
		return f, nil, err
	}
	admin, err := a.admin(f)
	if err != nil {
		return f, nil, err
	}
	if a.cfg.CRDs {
		err = a.serve(f)
	}
	return f, admin, err
}

// admin writes the administrator's kubeconfig, with everything inline: it may be
// copied.
func (a access) admin(f pkiFiles) (*rest.Config, error) {
	cert, err1 := os.ReadFile(f.adminCert)
	key, err2 := os.ReadFile(f.adminKey)
	if err := errors.Join(err1, err2); err != nil {
		return nil, err
	}
	return a.write(a.cfg.KubeconfigPath, f, a.cfg.Name+"-admin", &clientcmdapi.AuthInfo{ClientCertificateData: cert, ClientKeyData: key})
}

// serve writes the kubeconfig of `spillway serve`. It names files, which clients
// read again: a process that runs for longer than a certificate lives keeps its access.
func (a access) serve(f pkiFiles) error {
	_, err := a.write(a.cfg.ServeKubeconfig(), f, serveUser, &clientcmdapi.AuthInfo{ClientCertificate: f.serveCert, ClientKey: f.serveKey})
	return err
}

func (a access) write(path string, f pkiFiles, user string, as *clientcmdapi.AuthInfo) (*rest.Config, error) {
	ca, err := os.ReadFile(f.caCert)
	if err != nil {
		return nil, err
	}
	name := a.cfg.Name
	c := clientcmdapi.NewConfig()
	c.Clusters[name] = &clientcmdapi.Cluster{Server: "https://" + a.addr.String(), CertificateAuthorityData: ca}
	c.AuthInfos[user] = as
	c.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: user}
	c.CurrentContext = name

	out, err := clientcmd.Write(*c)
	if err != nil {
		return nil, fmt.Errorf("encode kubeconfig: %w", err)
	}
	if have, err := os.ReadFile(path); err != nil || !bytes.Equal(have, out) {
		if err := files.Replace(path, out, 0o600); err != nil {
			return nil, fmt.Errorf("kubeconfig %s can't be written: %w: give another --kubeconfig", path, err)
		}
	}
	return clientcmd.RESTConfigFromKubeConfig(out)
}
