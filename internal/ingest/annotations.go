package ingest

import (
	"slices"
	"strings"

	networkingv1 "k8s.io/api/networking/v1"
)

// nginxProtection is what ingress-nginx calls it, and those that took its names.
var nginxProtection = []string{
	"allowlist-source-range", "auth-secret", "auth-tls-secret", "auth-tls-verify-client", "auth-type", "auth-url", "blacklist-source-range",
	"denylist-source-range", "enable-modsecurity", "enable-owasp-core-rules", "force-ssl-redirect", "global-rate-limit", "limit-connections",
	"limit-rpm", "limit-rps", "modsecurity-snippet", "whitelist-source-range",
}

// protections are annotations by which other controllers keep clients out or
// slow them down, by what stands before the "/". Whoever brings an Ingress along
// with them believes it to be protected.
var protections = map[string][]string{
	"alb.ingress.kubernetes.io":     {"auth-type", "inbound-cidrs", "mutual-authentication", "security-groups", "shield-advanced-protection", "waf-acl-id", "wafv2-acl-arn"},
	"appgw.ingress.kubernetes.io":   {"use-private-ip", "waf-policy-for-path"},
	"appprotect.f5.com":             {"app-protect-enable", "app-protect-policy"},
	"haproxy-ingress.github.io":     append([]string{"oauth", "waf"}, nginxProtection...),
	"haproxy.com":                   haproxyProtection,
	"haproxy.org":                   haproxyProtection,
	"higress.io":                    nginxProtection,
	"ingress.kubernetes.io":         nginxProtection,
	"k8s.apisix.apache.org":         {"allowlist-source-range", "auth-type", "auth-uri", "blocklist-source-range", "enable-csrf", "plugin-config-name"},
	"konghq.com":                    {"plugins"},
	"nginx.com":                     {"jwt-key"},
	"nginx.ingress.kubernetes.io":   nginxProtection,
	"nginx.org":                     {"basic-auth-secret", "limit-req-rate", "policies"},
	"traefik.ingress.kubernetes.io": {"auth-type", "rate-limit", "router.middlewares", "router.tls.options", "whitelist-source-range"},
	"zalando.org":                   {"ratelimit", "skipper-filter"},
}

var haproxyProtection = []string{"allow-list", "auth-secret", "auth-type", "blacklist", "client-ca", "deny-list", "rate-limit-requests", "whitelist"}

// off are values by which such an annotation asks for nothing.
var off = []string{"", "0", "disabled", "false", "no", "none", "off"}

// unprotected tells which annotations of other controllers would protect what an
// Ingress serves, and do not here.
func (in *ingress) unprotected(o *networkingv1.Ingress) {
	var found []string
	for name, value := range o.Annotations {
		prefix, key, _ := strings.Cut(name, "/")
		if slices.Contains(protections[prefix], key) && !slices.Contains(off, strings.ToLower(strings.TrimSpace(value))) {
			found = append(found, name)
		}
	}
	if len(found) > 0 {
		slices.Sort(found)
		in.unsupported("metadata.annotations", "annotations of other controllers are not read, so clients are neither asked who they are nor kept out as these say: %s; protect the backends otherwise, or take them away", strings.Join(found, ", "))
	}
}
