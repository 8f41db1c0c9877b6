package cluster

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"slices"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/spillway-dev/spillway/api/v1alpha1"
)

// refusal is why a kubeconfig is not used: a condition reason, and what to do.
type refusal struct{ reason, message string }

func (r *refusal) Error() string { return r.message }

func refuse(reason, format string, args ...any) *refusal {
	return &refusal{reason, fmt.Sprintf(format, args...)}
}

// unsafeFields are what would run a program or read a file, per part of a kubeconfig.
var (
	unsafeUser = []struct {
		field string
		set   func(*clientcmdapi.AuthInfo) bool
		use   string
	}{
		{"exec", func(u *clientcmdapi.AuthInfo) bool { return u.Exec != nil }, "token or client-certificate-data"},
		{"auth-provider", func(u *clientcmdapi.AuthInfo) bool { return u.AuthProvider != nil }, "token or client-certificate-data"},
		{"client-certificate", func(u *clientcmdapi.AuthInfo) bool { return u.ClientCertificate != "" }, "client-certificate-data"},
		{"client-key", func(u *clientcmdapi.AuthInfo) bool { return u.ClientKey != "" }, "client-key-data"},
		{"tokenFile", func(u *clientcmdapi.AuthInfo) bool { return u.TokenFile != "" }, "token"},
	}
	unsafeCluster = []struct {
		field string
		set   func(*clientcmdapi.Cluster) bool
		use   string
	}{
		{"certificate-authority", func(c *clientcmdapi.Cluster) bool { return c.CertificateAuthority != "" }, "certificate-authority-data"},
	}
)

// proxies are the schemes of proxy-url that are spoken.
var proxies = []string{"http", "https", "socks5"}

// connection reads the current context of a kubeconfig. The configuration is
// built field by field from what is written inline, so that nothing in it can
// ever name a program, a file or an environment variable.
func connection(of Kubeconfig) (*rest.Config, error) {
	k, err := clientcmd.Load(of.Data)
	if err != nil {
		return nil, refuse(v1alpha1.ReasonInvalidKubeconfig, "the kubeconfig can't be parsed: write the Secret again from a kubeconfig that kubectl reads")
	}
	current, ok := k.Contexts[k.CurrentContext]
	if !ok {
		return nil, refuse(v1alpha1.ReasonInvalidKubeconfig, "the kubeconfig has no context %q: set current-context to one it has", k.CurrentContext)
	}
	cluster, ok := k.Clusters[current.Cluster]
	if !ok || cluster.Server == "" {
		return nil, refuse(v1alpha1.ReasonInvalidKubeconfig, "the kubeconfig has no server for cluster %q: add it", current.Cluster)
	}
	user := k.AuthInfos[current.AuthInfo]
	if user == nil {
		user = &clientcmdapi.AuthInfo{}
	}
	if err := safe(cluster, user); err != nil {
		return nil, err
	}
	if cluster.ProxyURL != "" && !of.Proxied {
		return nil, refuse(v1alpha1.ReasonUnsafeKubeconfig,
			"the kubeconfig has proxy-url, which would have us connect to any address: remove it, or allow it on the MemberCluster with annotation %s: \"true\"", v1alpha1.AnnotationAllowProxy)
	}
	return restConfig(cluster, user)
}

func safe(cluster *clientcmdapi.Cluster, user *clientcmdapi.AuthInfo) error {
	const format = "the kubeconfig has %s, which would read a file or run a program: use %s"
	for _, f := range unsafeUser {
		if f.set(user) {
			return refuse(v1alpha1.ReasonUnsafeKubeconfig, format, f.field, f.use)
		}
	}
	for _, f := range unsafeCluster {
		if f.set(cluster) {
			return refuse(v1alpha1.ReasonUnsafeKubeconfig, format, f.field, f.use)
		}
	}
	return nil
}

func restConfig(cluster *clientcmdapi.Cluster, user *clientcmdapi.AuthInfo) (*rest.Config, error) {
	server, err := url.Parse(cluster.Server)
	if err != nil || server.Host == "" || server.Scheme != "https" && server.Scheme != "http" {
		return nil, refuse(v1alpha1.ReasonInvalidKubeconfig, "the kubeconfig's server is no URL: write https://HOST:PORT")
	}
	if server.Scheme == "http" && !loopback(server.Hostname()) {
		return nil, refuse(v1alpha1.ReasonUnsafeKubeconfig,
			"the kubeconfig's server is http://, so that anybody on the way reads the credentials and may name endpoints: write https://")
	}
	c := &rest.Config{
		Host:        cluster.Server,
		BearerToken: user.Token,
		Username:    user.Username,
		Password:    user.Password,
		Impersonate: rest.ImpersonationConfig{
			UserName: user.Impersonate, UID: user.ImpersonateUID, Groups: user.ImpersonateGroups, Extra: user.ImpersonateUserExtra,
		},
		TLSClientConfig: rest.TLSClientConfig{
			Insecure:   cluster.InsecureSkipTLSVerify,
			ServerName: cluster.TLSServerName,
			CAData:     cluster.CertificateAuthorityData,
			CertData:   user.ClientCertificateData,
			KeyData:    user.ClientKeyData,
		},
		UserAgent:          userAgent,
		DisableCompression: cluster.DisableCompression,
		// No proxy but the one that is written: not of the environment.
		Proxy: func(*http.Request) (*url.URL, error) { return nil, nil },
	}
	if cluster.ProxyURL != "" {
		proxy, err := url.Parse(cluster.ProxyURL)
		if err != nil || proxy.Host == "" || !slices.Contains(proxies, proxy.Scheme) {
			return nil, refuse(v1alpha1.ReasonInvalidKubeconfig, "the kubeconfig's proxy-url can't be used: write http://, https:// or socks5:// and HOST:PORT")
		}
		c.Proxy = http.ProxyURL(proxy)
	}
	return c, nil
}

// loopback reports whether a host is this machine, to which no way leads that
// others are on.
func loopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.Unmap().IsLoopback()
}

// careless says what is unsafe about a connection that is used all the same;
// empty: nothing is.
func careless(c *rest.Config) string {
	if c.Insecure {
		return "its certificate is not checked, so that anybody on the way may read the credentials and name endpoints: " +
			"write certificate-authority-data into the kubeconfig in place of insecure-skip-tls-verify"
	}
	return ""
}

// expiry is when the client certificate ends, in Unix seconds; 0: there is none.
func expiry(c *rest.Config) int64 {
	for data := c.CertData; ; {
		var block *pem.Block
		if block, data = pem.Decode(data); block == nil {
			return 0
		}
		if cert, err := x509.ParseCertificate(block.Bytes); err == nil && block.Type == "CERTIFICATE" {
			return cert.NotAfter.Unix()
		}
	}
}

// refusalOf returns what is wrong with a kubeconfig.
func refusalOf(err error) *refusal {
	var r *refusal
	if errors.As(err, &r) {
		return r
	}
	return refuse(v1alpha1.ReasonInvalidKubeconfig, "the kubeconfig can't be used: its certificates or credentials are malformed or contradict each other")
}
