package cli

import (
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
)

func run(t *testing.T, args ...string) (string, error) {
	t.Helper()
	root := &cobra.Command{Use: "spillway", SilenceErrors: true, SilenceUsage: true}
	root.AddCommand(Commands(func() time.Time { return noon })...)
	var out strings.Builder
	root.SetOut(&out)
	root.SetErr(&out)
	root.SetArgs(args)
	err := root.ExecuteContext(t.Context())
	return out.String(), err
}

// control answers like serve, and keeps what was asked.
func control(t *testing.T, answers map[string]string) (address string, asked *[]string) {
	t.Helper()
	asked = new([]string)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		*asked = append(*asked, r.URL.String())
		text, ok := answers[r.URL.Path]
		if !ok {
			http.Error(w, "no such table", http.StatusNotFound)
			return
		}
		if r.URL.Query().Get("limit") == "1" {
			w.Header().Set("Link", `<next>; rel="next"`)
		}
		_, _ = w.Write([]byte(text))
	}))
	t.Cleanup(srv.Close)
	return "--admin-address=" + strings.TrimPrefix(srv.URL, "http://"), asked
}

// noon is when the commands of these tests run.
var noon = time.Date(2026, time.November, 25, 12, 0, 0, 0, time.UTC)

// ago is a time in JSON.
func ago(d time.Duration) string { return noon.Add(-d).Format(time.RFC3339) }

func TestGetForPeople(t *testing.T) {
	created := `"created":"` + ago(49*time.Hour) + `"`
	at, _ := control(t, map[string]string{
		"/v1/members": `[
			{"name":"eu-1",` + created + `,"place":{"region":"eu","zone":"eu-a"},"networks":["default"],"read":true,"services":2,"endpoints":10,
			 "credentialExpiry":"` + ago(-26*time.Hour) + `",
			 "conditions":[{"type":"Connected","status":"True","reason":"Connected"},{"type":"Healthy","status":"False","reason":"PathDown"}]},
			{"name":"us-1",` + created + `,"place":{"region":"us"},"taints":["broken"],"staleSince":"` + ago(5*time.Minute) + `","conditions":[{"type":"Connected","status":"False","reason":"Unauthorized"}]}]`,
		"/v1/edges": `[{"name":"fra","place":{"region":"eu","zone":"fra"},"addresses":["192.0.2.1"],"proxies":2,"synced":2,"fronts":["a","b","c","d","e"],
			"ports":[{"number":80,"fronts":["a"]},{"number":443,"tls":true,"fronts":["a"]}],"networks":["default"],"conditions":[{"type":"Serving","status":"True"}]}]`,
		"/v1/fronts": `[{"name":"spillway","object":{"kind":"IngressClass","name":"spillway"},` + created + `,"default":true,"httpPort":80,"edges":[{"name":"fra","served":true},{"name":"nyc"}]}]`,
		"/v1/hosts": `[{"host":"","front":"spillway","objects":[],"edges":[],"routes":[]},
			{"host":"shop.example","front":"spillway","objects":[{"kind":"Ingress","namespace":"shop","name":"web"}],"edges":["fra"],
			 "routes":[{"pathType":"Exact","path":"/old","answer":"redirect 308"},{"pathType":"Prefix","path":"/","backends":[{"backend":"shop/web/http","weight":1}]}]}]`,
		"/v1/plans": `[{"backend":"shop/web/http","from":{"region":"eu","zone":"fra"},"networks":["default"],"room":"best","shares":[
			{"member":"eu-1","tier":0,"weight":2,"state":"Serving"},{"member":"eu-2","tier":0,"weight":1,"state":"Serving"},{"member":"us-1","tier":1,"weight":4,"state":"Serving"},{"member":"eu-3","tier":0,"state":"Failed"}]},
			{"backend":"shop/none/http","from":{"region":"eu"},"room":"none","unsure":true,"shares":[]}]`,
		"/v1/streams": `[{"stream":7,"edge":"fra","node":"fra-1","envoy":"1.40.0","since":"` + ago(90*time.Second) + `","bytesSent":1492533,"inSync":true,
			"types":[{"type":"Cluster","quarantined":[{"name":"c"}]}]},{"edge":"fra","node":"cart","grpc":"1.84.0","since":"` + ago(time.Hour) + `"}]`,
		"/v1/findings":     `[{"severity":"Error","object":"Ingress shop/web","reason":"Conflict","field":"spec.rules[0]","message":"an older one\u001b[31m has\nit"}]`,
		"/v1/tables":       `[{"name":"hosts","kind":"derived","rows":3,"evaluations":18446744073709551615}]`,
		"/v1/tables/paths": `[{"key":"eu -> eu-1","value":"{Health:True}"}]`,
	})
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"members"}, `
NAME   PLACE     CONNECTED              HEALTHY             TRAFFIC   SERVICES   ENDPOINTS   STALE   AGE
eu-1   eu/eu-a   True                   False (PathDown)    Takes     2          10          -       2d1h
us-1   us        False (Unauthorized)   Unknown             Tainted   -          -           5m      2d1h
`},
		{[]string{"member", "-o", "wide"}, "CREDENTIALS-END"},
		{[]string{"member", "-o", "wide"}, "26h"},
		{[]string{"edges"}, `
NAME   PLACE    ADDRESSES   PROXIES   SERVING   DRAIN   FRONTS
fra    eu/fra   192.0.2.1   2         True      No      a, b, c, d, … (5)
`},
		{[]string{"edges", "-o", "wide"}, "80, 443/TLS"},
		{[]string{"fronts"}, `
NAME       KIND           DEFAULT   HTTP   HTTPS   EDGES                   AGE
spillway   IngressClass   Yes       80     -       fra, nyc (not served)   2d1h
`},
		{[]string{"hosts"}, `
HOST           FRONT      ROUTES   OBJECTS            EDGES
(any other)    spillway   0        -                  -
shop.example   spillway   2        Ingress shop/web   fra
`},
		{[]string{"hosts", "-o=wide"}, "Exact /old → redirect 308, Prefix / → shop/web/http"},
		{[]string{"plans"}, `
BACKEND          FROM     NOW                  NEXT   OUT           SURE
shop/web/http    eu/fra   eu-1 67%, eu-2 33%   us-1   eu-3 Failed   Yes
shop/none/http   eu       -                    -      -             No
`},
		{[]string{"streams"}, `
EDGE   NODE    CLIENT         AGE   INSYNC   REFUSES   SENT
fra    fra-1   Envoy 1.40.0   90s   Yes      1         1.4 MiB
fra    cart    gRPC 1.84.0    60m   No       0         0 B
`},
		{[]string{"findings"}, `
SEVERITY   OBJECT             REASON     FIELD           MESSAGE
Error      Ingress shop/web   Conflict   spec.rules[0]   an older one�[31m has�it
`},
		{[]string{"tables"}, "hosts   derived   3      18446744073709551615"},
		{[]string{"table", "paths"}, "\nKEY          VALUE\neu -> eu-1   {Health:True}\n"},
	} {
		got, err := run(t, append([]string{"get", at}, c.args...)...)
		if err != nil || !strings.Contains("\n"+squeezed(got), squeezed(c.want)) {
			t.Errorf("%v: %v\n%s\nwant %s", c.args, err, got, c.want)
		}
	}
}

// squeezed is a table without what separates its columns.
func squeezed(s string) string {
	return regexp.MustCompile(`  +`).ReplaceAllString(s, "  ")
}

func TestGetForMachines(t *testing.T) {
	at, asked := control(t, map[string]string{"/v1/tables": `[{"name":"hosts","evaluations":18446744073709551615,"rows":10000000}]`, "/v1/findings": "[]\n"})
	for _, c := range []struct{ args, want string }{
		{"tables -o json", "[\n  {\n    \"name\": \"hosts\",\n    \"evaluations\": 18446744073709551615,\n    \"rows\": 10000000\n  }\n]\n"},
		{"tables -o yaml", "- evaluations: 18446744073709551615\n  name: hosts\n  rows: 10000000\n"},
		{"findings -o json", "[]\n"},
		{"findings -o yaml", "[]\n"},
		{"findings", "none\n"},
		{"findings --limit 1 --match a&b", "none\nthese are the first 1: give --match or a larger --limit\n"},
	} {
		got, err := run(t, append([]string{"get", at}, strings.Split(c.args, " ")...)...)
		if err != nil || got != c.want {
			t.Errorf("%s: %v\n%q\nwant %q", c.args, err, got, c.want)
		}
	}
	if got, want := (*asked)[len(*asked)-1], "/v1/findings?limit=1&match=a%26b"; got != want {
		t.Errorf("asked for %s, want %s", got, want)
	}
}

// TestWrongCommandLines are found before anybody is asked.
func TestWrongCommandLines(t *testing.T) {
	at, asked := control(t, nil)
	for args, want := range map[string]string{
		"get":                                  "say what to show: members, edges,",
		"get nothing":                          "there is nothing called \"nothing\" to show: use members,",
		"get memebers":                         "did you mean \"members\"?",
		"get hosts shop.example":               "--match",
		"get table":                            "spillway get tables",
		"get findings -o xml":                  "--output \"xml\": use table, wide, json or yaml",
		"get findings --limit 0":               "use 1 to 10000",
		"get findings --admin-address nowhere": "use HOST:PORT",
		"get findings --admin-address ftp://a": "use HOST:PORT",
		"get findings --admin-token-file t":    "never sent in plain text",
		"version -o xml":                       "use table, json or yaml",
		"rollout back":                         "say which object: KIND NAME or KIND/NAME",
		"rollout resume web":                   "say which object",
		"rollout back Ingress/web -o xml":      "use table, json or yaml",
		"rollout status Ingress":               "say which object",
		"rollout status Ingress web -A":        "leave out the name and --namespace",
	} {
		if _, err := run(t, append(strings.Split(args, " "), map[bool][]string{true: {at}}[strings.HasPrefix(args, "get") && !strings.Contains(args, "admin-address")]...)...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", args, err, want)
		}
	}
	if len(*asked) > 0 {
		t.Errorf("asked %v", *asked)
	}
}

func TestFailures(t *testing.T) {
	at, _ := control(t, map[string]string{"/v1/hosts": "<html>"})
	for args, want := range map[string]string{
		"get table none " + at:                     "no such table",
		"get hosts " + at:                          "another version",
		"get hosts -o json " + at:                  "no JSON",
		"get hosts -o yaml " + at:                  "no JSON",
		"get findings --admin-address=127.0.0.1:1": "--admin-address",
		"get hosts --admin-address=https://127.0.0.1:1 --admin-token-file=none":    "token of the hub",
		"get hosts --admin-address=https://127.0.0.1:1 --admin-ca=none":            "CA of the admin listener",
		"get hosts --admin-address=https://127.0.0.1:1 --admin-ca=../../README.md": "no certificate in",
	} {
		if _, err := run(t, strings.Split(args, " ")...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", args, err, want)
		}
	}
}

// TestTokensGoOverTLS: to a listener whose certificate is of the CA that was named.
func TestTokensGoOverTLS(t *testing.T) {
	srv := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = w.Write([]byte(`[{"key":"` + r.Header.Get("Authorization") + `"}]`))
	}))
	defer srv.Close()
	dir := t.TempDir()
	token, ca := filepath.Join(dir, "token"), filepath.Join(dir, "ca.crt")
	for path, text := range map[string][]byte{token: []byte("t0ken\n"), ca: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: srv.Certificate().Raw})} {
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	got, err := run(t, "get", "table", "hosts", "--admin-address", srv.URL, "--admin-ca", ca, "--admin-token-file", token)
	if err != nil || !strings.Contains(got, "Bearer t0ken") {
		t.Errorf("%v %s", err, got)
	}
}

func TestVersion(t *testing.T) {
	for args, want := range map[string]string{"version": "go ", "version -o json": `"platform"`, "version -o yaml": "platform: "} {
		if got, err := run(t, strings.Split(args, " ")...); err != nil || !strings.Contains(got, want) {
			t.Errorf("%s: %v %s", args, err, got)
		}
	}
}
