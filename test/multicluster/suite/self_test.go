package suite

import (
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Both echo servers that docs/multicluster.md names tell their pod.
func TestAnswersTellWhoseTheyAre(t *testing.T) {
	eu, eu1 := &cluster{name: "eu"}, &cluster{name: "eu-1"}
	w := &world{T: t}
	for _, m := range []*cluster{eu, eu1} {
		w.know(pods{m, "web"}, listens)
	}
	for _, c := range []struct {
		body   string
		member *cluster
		rule   string
	}{
		{`{"pod":"web-eu-1-5d4f-x2x","member":"eu-1","protocol":"HTTP/1.1","remote":"10.0.0.1:1"}`, eu1, ""},
		{`{"path":"/","host":"a","method":"GET","proto":"HTTP/1.1","headers":{"X-Suite-Rule":["exact"]},"httpPort":"8080","namespace":"n","ingress":"","service":"","pod":"web-eu-5d4f-x2x"}`, eu, "exact"},
		{`{"pod":"api-eu-1-5d4f-x2x"}`, nil, ""},
		{`upstream connect error`, nil, ""},
	} {
		a := answer{status: http.StatusOK, body: c.body}
		if w.identify(&a); a.member != c.member || a.rule != c.rule || (a.backend == "web") != (c.member != nil) {
			t.Errorf("%s: %+v", c.body, a)
		}
	}
}

func TestWhatIsWrongIsTold(t *testing.T) {
	eu, us := &cluster{name: "eu"}, &cluster{name: "us"}
	r := request{address: "192.0.2.1:80", path: "/a", headers: "X-A=a"}
	good := answer{status: http.StatusOK, backend: "web", member: eu, rule: "exact"}
	for _, c := range []struct {
		must want
		came answer
		told string // empty: nothing is wrong
	}{
		{from("web", eu), good, ""},
		{code(http.StatusNotFound), answer{status: http.StatusNotFound}, ""},
		{want{backend: "web", members: []*cluster{eu}, rule: "exact"}, good, ""},
		{want{backend: "web", members: []*cluster{eu}, rule: "prefix"}, good, "asked GET /a with X-A=a at 192.0.2.1:80, expected 200 from web in eu by rule prefix, and came 200 from web in eu by rule exact"},
		{from("web", us), good, "asked GET /a with X-A=a at 192.0.2.1:80, expected 200 from web in us, and came 200 from web in eu by rule exact"},
		{from("api", eu, us), good, "asked GET /a with X-A=a at 192.0.2.1:80, expected 200 from api in eu or us, and came 200 from web in eu by rule exact"},
		{from("web", eu), answer{status: 503, body: "no"}, `asked GET /a with X-A=a at 192.0.2.1:80, expected 200 from web in eu, and came 503 "no"`},
		{from("web", eu), answer{err: errors.New("EOF")}, "asked GET /a with X-A=a at 192.0.2.1:80, expected 200 from web in eu, and came no answer: EOF"},
		{code(500), answer{status: http.StatusOK, backend: "web", member: eu}, "asked GET /a with X-A=a at 192.0.2.1:80, expected 500, and came 200 from web in eu"},
	} {
		told := ""
		if err := c.must.wrong(r, c.came); err != nil {
			told = err.Error()
		}
		if told != c.told {
			t.Errorf("got %q\nwant %q", told, c.told)
		}
	}
}

func TestFlags(t *testing.T) {
	var o options
	for text, ok := range map[string]bool{"eu": false, "=file": false, "eu=": false} {
		if err := o.addMember(text); (err == nil) != ok {
			t.Errorf("-member %s: %v", text, err)
		}
	}
	if err := o.check(); err == nil || !strings.Contains(err.Error(), "-member") {
		t.Error(err)
	}
	if err := errors.Join(o.addMember("eu=a"), o.addMember("us=b=c")); err != nil || o.kubeconfigs[1].kubeconfig != "b=c" {
		t.Error(err, o.kubeconfigs)
	}
	if err := o.addMember("eu=z"); err == nil {
		t.Error("a member is taken twice")
	}
	if err := o.check(); err == nil || !strings.Contains(err.Error(), "-gateway-class") {
		t.Error(err)
	}
	if err := o.setFeatures("HTTPRoute, Gateway,,HTTPRouteCORS,HTTPRoute"); err != nil || strings.Join(o.features, " ") != "Gateway HTTPRoute" {
		t.Error(err, o.features)
	}
	if got := o.lacks([]string{featureGateway, featureGrant}); len(got) != 1 || got[0] != featureGrant {
		t.Error(got)
	}
}

func TestReport(t *testing.T) {
	var r report
	two := test{name: "Two", description: "Of two.", kinds: both}
	one := test{name: "One", description: "Of one.", kinds: imports}
	t.Run("two", func(t *testing.T) { r.note(t, two, service, nil) })
	t.Run("one", func(t *testing.T) {
		defer r.note(t, one, serviceImport, []string{featureServiceImport})
		t.Skip("it is noted as that")
	})
	file := filepath.Join(t.TempDir(), "report.yaml")
	if err := r.write(file, &fleet{controller: "example.com/c"}, &options{features: []string{"Gateway"}}); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(file)
	want := `features:
- Gateway
implementation: example.com/c
members: 0
results:
  failed: 0
  passed: 1
  skipped: 1
suiteVersion: ` + version + `
tests:
- backends: ServiceImport
  description: Of one.
  lacks:
  - ServiceImport
  name: One
  result: skipped
- backends: Service
  description: Of two.
  name: Two
  result: passed
`
	if err != nil || string(text) != want {
		t.Errorf("%v\n%s", err, text)
	}
}
