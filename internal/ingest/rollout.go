package ingest

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	routev1 "github.com/openshift/api/route/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/spillway-dev/spillway/api/v1alpha1"
	"github.com/spillway-dev/spillway/internal/model"
)

// How long all must be well in a wave: where the Placement does not say, and at most.
const (
	normalPause = 5 * time.Minute
	mostPause   = 24 * time.Hour
	mostWaves   = 16
)

// rollout reads how edits go to members. A wave that can't be read has nobody: they have
// an edit later than was meant, and not before.
func (in *placement) rollout(field model.Field, s *v1alpha1.PlacementRollout) {
	if s == nil {
		return
	}
	out := &model.RolloutSpec{Pause: time.Duration(in.millis(field+".pause", s.Pause, normalPause, 0, mostPause)) * time.Millisecond}
	waves := s.Waves
	if len(waves) > mostWaves {
		in.invalid(field+".waves", "there are %d: list %d at most. The others are left out", len(waves), mostWaves)
		waves = waves[:mostWaves]
	}
	for i := range waves {
		selector, err := metav1.LabelSelectorAsSelector(&waves[i].Selector)
		if err != nil {
			in.invalid((field+".waves").Index(i)+".selector", "the selector can't be read: check its keys, operators and values. Until then nobody is in the wave")
			out.Waves = append(out.Waves, model.WaveSpec{Nobody: true})
			continue
		}
		out.Waves = append(out.Waves, model.WaveSpec{Selector: canonical(selector)})
	}
	in.spec.Rollout = out
}

// mostWord is how long what an owner says of an edition may be.
const mostWord = 64

// rolloutWord is what the owner of a root wants of an edition of it.
func rolloutWord(o metav1.Object) string {
	word := strings.TrimSpace(o.GetAnnotations()[v1alpha1.AnnotationRollout])
	if len(word) > mostWord {
		return ""
	}
	return word
}

// LeafBehind reports whether controllers have not looked at a leaf as it is now, as far as
// they say at what they look. Status is as JSON has it.
func LeafBehind(status []byte, generation int64) bool {
	var s struct {
		Conditions []metav1.Condition `json:"conditions"`
		Parents    []struct {
			Conditions []metav1.Condition `json:"conditions"`
		} `json:"parents"`
	}
	if generation == 0 || len(status) == 0 || json.Unmarshal(status, &s) != nil {
		return false
	}
	all := s.Conditions
	for _, p := range s.Parents {
		all = append(all, p.Conditions...)
	}
	return slices.ContainsFunc(all, func(c metav1.Condition) bool {
		return slices.Contains(saidTypes, c.Type) && c.ObservedGeneration != 0 && c.ObservedGeneration < generation
	})
}

// RulesIn are the rules of an Ingress of which only its spec is known.
func RulesIn(k model.Object, spec map[string]any) []HostRules {
	o := &networkingv1.Ingress{ObjectMeta: metav1.ObjectMeta{Namespace: k.Namespace, Name: k.Name}}
	if data, err := json.Marshal(spec); err != nil || json.Unmarshal(data, &o.Spec) != nil {
		return nil
	}
	_, _, rules, _ := LeafIngress(o)
	return rules
}

// RuleIn is the host of a Route of OpenShift of which only its spec is known, and what it
// matches; false: it asks for nothing that can be served.
func RuleIn(k model.Object, spec map[string]any) (model.Host, model.Match, bool) {
	o := &routev1.Route{ObjectMeta: metav1.ObjectMeta{Namespace: k.Namespace, Name: k.Name}}
	data, err := json.Marshal(spec)
	if err != nil || json.Unmarshal(data, &o.Spec) != nil {
		return "", model.Match{}, false
	}
	_, _, rules, _, _ := Route(o)
	if len(rules) == 0 || len(rules[0].Rules) == 0 || len(rules[0].Rules[0].Matches) == 0 {
		return "", model.Match{}, false
	}
	return rules[0].Host, rules[0].Rules[0].Matches[0], true
}

// HostsIn are the hosts of a route of the Gateway API, as it names them; the empty one: it
// names none, and is for all.
func HostsIn(spec map[string]any) []model.Host {
	names, _ := spec["hostnames"].([]any)
	if len(names) == 0 {
		return []model.Host{""}
	}
	var out []model.Host
	for _, n := range names {
		name, _ := n.(string)
		if h, err := deepHost(name); err == nil && h != "" {
			out = append(out, h)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// MatchesIn are the matches of a route of the Gateway API, each once.
func MatchesIn(kind string, spec map[string]any) []model.Match {
	var out []model.Match
	add := func(m model.Match) {
		if !slices.Contains(out, m) {
			out = append(out, m)
		}
	}
	for _, rule := range MapsIn(spec, "rules") {
		matches := MapsIn(rule, "matches")
		if len(matches) == 0 {
			add(model.Everything)
		}
		for _, m := range matches {
			if match, ok := matchOf(kind, m); ok {
				add(match)
			}
		}
	}
	return out
}
