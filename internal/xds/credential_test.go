package xds

import "testing"

// TestWhoseVoiceItIs: what counts as one voice is what was proved, not what was said.
func TestWhoseVoiceItIs(t *testing.T) {
	fra := Proxy{Edge: "fra", Node: "fra-1"}
	if got := (*credential)(nil).identity(fra); got != "fra" {
		t.Errorf("without a certificate: %s", got)
	}
	if got := (&credential{id: "spiffe://a/edge/fra"}).identity(fra); got != "spiffe://a/edge/fra" {
		t.Errorf("with one: %s", got)
	}
}
