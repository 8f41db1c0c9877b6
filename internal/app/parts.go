package app

import (
	"github.com/spillway-dev/spillway/internal/envoy"
	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
)

// rememberParts keeps in how many parts each backend is as a row, so that a few
// endpoints more or less do not change it. put has a write done in the next
// commit.
func rememberParts(t *envoy.Tables, put func(key any, write func(*inc.Tx))) {
	type lastKey struct{ backend model.Backend }
	t.Parts.Watch(func(changes []inc.Change[model.Backend, envoy.Parts]) {
		for _, c := range changes {
			put(lastKey{c.Key}, func(tx *inc.Tx) {
				if c.New == nil {
					t.LastParts.Delete(tx, c.Key)
					return
				}
				t.LastParts.Set(tx, c.Key, *c.New)
			})
		}
	})
}
