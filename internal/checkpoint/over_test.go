package checkpoint

import (
	"testing"

	"github.com/spillway-dev/spillway/internal/model"
)

// TestOverIsBesideFilters: by which of HTTP and HTTPS a rule may be asked for is where
// versions had it that kept it apart from filters. They would serve everybody without.
func TestOverIsBesideFilters(t *testing.T) {
	id := model.RulesID{Root: model.Object{Kind: model.OpenShiftRoute, Namespace: "shop", Name: "web"}, Host: "shop.example"}
	filters := model.FiltersKey{Timeouts: model.Timeouts{Backend: 1}}.Filters()
	rules := model.Rules{{Matches: []model.Match{model.Everything}, Action: model.Action{Filters: filters.By(model.Passed)}}}
	w := writtenOf(id.Root, model.Root{}, []model.RulesID{id}, []model.Rules{rules})
	if len(w.Rules) != 1 || w.Rules[0].Over != model.Passed || w.Rules[0].Filters != filters {
		t.Errorf("written as %+v", w.Rules)
	}
	if got := w.rules()[id.Host]; !got.Equal(rules) {
		t.Errorf("read as %+v, want %+v", got, rules)
	}
}
