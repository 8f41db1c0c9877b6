package model

import "testing"

var web = Object{Kind: "Ingress", Namespace: "shop", Name: "web"}

// TestCollector: sorted, with the severity that was chosen; said once only if
// that is wanted.
func TestCollector(t *testing.T) {
	for _, c := range []struct {
		once bool
		want Findings
	}{
		{false, Findings{ErrorOf(web, "a", "R", "1"), ErrorOf(web, "b", "R", "1"), WarningOf(web, "c", "S", "1")}},
		{true, Findings{ErrorOf(web, "b", "R", "1"), WarningOf(web, "c", "S", "1")}},
	} {
		got := Collector{Object: web, Once: c.once}
		got.Warning("c", "S", "%d", 1)
		got.Error("b", "R", "%d", 1)
		got.Error("a", "R", "%d", 1)
		if found, ok := got.Row(); !ok || !found.Equal(c.want) {
			t.Errorf("once %v: %v, want %v", c.once, found, c.want)
		}
		if errors := got.Findings().Errors(); len(errors) != len(c.want)-1 {
			t.Errorf("once %v: errors are %v", c.once, errors)
		}
	}
	if found, ok := (&Collector{Object: web}).Row(); ok || found != nil {
		t.Errorf("nothing is %v", found)
	}
}

func TestFieldIndex(t *testing.T) {
	if f := Field("spec.rules").Index(12) + ".host"; f != "spec.rules[12].host" {
		t.Error(f)
	}
}
