package cli

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

func run(t *testing.T, args ...string) (string, error) {
	t.Helper()
	root := &cobra.Command{Use: "spillway", SilenceErrors: true, SilenceUsage: true}
	root.AddCommand(Commands()...)
	var out strings.Builder
	root.SetOut(&out)
	root.SetArgs(args)
	err := root.ExecuteContext(t.Context())
	return out.String(), err
}

func TestGet(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/v1/findings":
			_, _ = w.Write([]byte(`[{"severity":"Error","object":"Ingress shop/web","reason":"Conflict","field":"spec.rules[0]","message":"an older one has it"}]`))
		case "/v1/tables/hosts":
			_, _ = w.Write([]byte(`[{"key":"` + r.URL.Query().Get("match") + `","value":"` + r.Header.Get("Authorization") + `"}]`))
		case "/v1/streams":
			_, _ = w.Write([]byte(`[]`))
		default:
			http.Error(w, "no such table", http.StatusNotFound)
		}
	}))
	defer srv.Close()
	address := "--admin-address=" + strings.TrimPrefix(srv.URL, "http://")
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("t0ken\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"get", "findings", address}, "SEVERITY  OBJECT            REASON    FIELD          MESSAGE\nError     Ingress shop/web  Conflict  spec.rules[0]  an older one has it\n"},
		{[]string{"get", "hosts", address, "--match=shop", "--admin-token-file=" + token}, "KEY   VALUE\nshop  Bearer t0ken\n"},
		{[]string{"get", "streams", address}, "none\n"},
		{[]string{"get", "findings", address, "-o", "yaml"}, "- field: spec.rules[0]\n"},
		{[]string{"get", "findings", address, "-o", "json"}, `"reason": "Conflict"`},
		{[]string{"version"}, "go "},
		{[]string{"version", "-o", "json"}, `"platform"`},
	} {
		got, err := run(t, c.args...)
		if err != nil || !strings.Contains(got, c.want) {
			t.Errorf("%v: %v\n%s\nwant %s", c.args, err, got, c.want)
		}
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"get", "nothing", address}, "no such table"},
		{[]string{"get", "findings", "--admin-address=127.0.0.1:1"}, "--admin-address"},
		{[]string{"get", "findings", address, "-o", "xml"}, "table, json or yaml"},
		{[]string{"get", "hosts", address, "--admin-token-file=none"}, "token of the hub"},
		{[]string{"get", "hosts", address, "--admin-ca=none"}, "CA of the admin listener"},
	} {
		if _, err := run(t, c.args...); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: %v, want %q", c.args, err, c.want)
		}
	}
}
