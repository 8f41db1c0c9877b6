package fleet

import (
	"slices"

	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
)

// declareGlobal finds the classes whose roots have a GlobalIngress. Where there are none
// there are no rows, and roots share that they read none.
func (d *program) declareGlobal(g *inc.Graph) {
	of := inc.IndexBy(d.ClassInfo, func(c model.Class, info ClassInfo) []model.Class {
		if !info.Config.Global {
			return nil
		}
		return []model.Class{c}
	})
	d.Global = inc.Derive(g, "global classes", func(r *inc.Reader, c model.Class) (model.There, bool) {
		info, ok := d.ClassInfo.Get(r, c)
		return model.There{}, ok && info.Config.Global
	}, of)
}

// global reports whether roots of some class have one.
func (d *program) global(r *inc.Reader, classes []model.Class) bool {
	return slices.ContainsFunc(classes, func(c model.Class) bool {
		_, is := d.Global.Get(r, c)
		return is
	})
}
