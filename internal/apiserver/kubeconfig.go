package apiserver

import (
	"fmt"
	"net"
	"os"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// writeKubeconfig writes the administrator's kubeconfig, with everything
// inline, and returns the client configuration it describes.
func writeKubeconfig(path, name string, addr net.Addr, f pkiFiles) (*rest.Config, error) {
	var pems [3][]byte
	for i, p := range []string{f.caCert, f.adminCert, f.adminKey} {
		b, err := os.ReadFile(p)
		if err != nil {
			return nil, err
		}
		pems[i] = b
	}
	c := clientcmdapi.NewConfig()
	c.Clusters[name] = &clientcmdapi.Cluster{Server: "https://" + addr.String(), CertificateAuthorityData: pems[0]}
	user := name + "-admin"
	c.AuthInfos[user] = &clientcmdapi.AuthInfo{ClientCertificateData: pems[1], ClientKeyData: pems[2]}
	c.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: user}
	c.CurrentContext = name

	out, err := clientcmd.Write(*c)
	if err != nil {
		return nil, fmt.Errorf("encode kubeconfig: %w", err)
	}
	if err := writeFile(path, out, 0o600); err != nil {
		return nil, fmt.Errorf("kubeconfig %s can't be written: %w: give another --kubeconfig", path, err)
	}
	return clientcmd.RESTConfigFromKubeConfig(out)
}
