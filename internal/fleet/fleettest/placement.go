package fleettest

import (
	"slices"
	"strings"
	"time"

	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
)

// targetKinds are the kinds that a Placement may be for, by the words of stories.
var targetKinds = map[string]string{
	"namespace": "Namespace", "ingress": "Ingress", "gateway": "Gateway", "httproute": "HTTPRoute", "grpcroute": "GRPCRoute",
	"tlsroute": "TLSRoute", "tcproute": "TCPRoute", "udproute": "UDPRoute", "route": model.OpenShiftRoute,
}

func placement(w *World, words []string) (string, error) {
	a := Parse(words, "for", "selector", "names", "count", "tolerate", "hold", "broken", "age", "waves", "pause")
	named := a.service(a.Word(0), "")
	id := model.Object{Kind: model.PlacementKind, Namespace: named.Namespace(), Name: named.Name()}
	spec := model.PlacementSpec{
		Created: a.Number("age", w.age(id.String())), Generation: 1, Names: a.List("names"), Selector: a.Options["selector"],
		Count: int(a.Number("count", 0)), Broken: a.Has("broken"),
		Hold: time.Duration(a.Number("hold", 0)) * time.Second,
	}
	if a.Has("waves") {
		spec.Rollout = &model.RolloutSpec{Pause: time.Duration(a.Number("pause", 60)) * time.Second}
		for _, text := range a.List("waves") {
			spec.Rollout.Waves = append(spec.Rollout.Waves, model.WaveSpec{Selector: strings.ReplaceAll(text, "~", "="), Nobody: text == "?"})
		}
	}
	_, selects := a.Options["selector"]
	spec.Limited, spec.Everyone = selects || len(spec.Names) > 0, selects && spec.Selector == ""
	slices.Sort(spec.Names)
	for _, text := range a.List("for", "namespace") {
		kind, name, _ := strings.Cut(text, "/")
		target := model.Object{Kind: targetKinds[kind], Namespace: id.Namespace, Name: name}
		if kind == "namespace" {
			target = model.Object{Kind: targetKinds[kind], Name: id.Namespace}
		}
		spec.Targets = append(spec.Targets, target)
	}
	slices.SortFunc(spec.Targets, model.Object.Compare)
	for _, text := range a.List("tolerate") {
		key, value, equal := strings.Cut(text, "=")
		spec.Tolerates = append(spec.Tolerates, model.Toleration{Key: strings.TrimPrefix(key, "*"), Value: value, Any: !equal})
	}
	w.Stage(func(tx *inc.Tx) { w.Program.In.Placements.Set(tx, id, spec) })
	return "", a.Err
}

// keep has the program know later who has places now, as the shell does: who lacks the
// Service does so since some time, or, if that is over, for too long.
func keep(w *World, words []string) (string, error) {
	a := Parse(words, "since", "over")
	w.Commit()
	last := w.Program.In.Kept
	w.Stage(func(tx *inc.Tx) {
		for _, b := range last.Keys() {
			last.Delete(tx, b)
		}
		for _, b := range w.Program.Kept.Keys() {
			row, _ := w.Program.Kept.Get(nil, b)
			places := row.At(a.Number("since", 1))
			for _, m := range row.Held {
				if a.Has("over") {
					places = places.Ended(m)
				}
			}
			last.Set(tx, b, places)
		}
	})
	return "", a.Err
}
