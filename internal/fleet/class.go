package fleet

import (
	"slices"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
)

// defaultClass is the class of roots of a workspace that name none. Several claim
// to be it: the oldest is.
type defaultClass struct {
	class  model.Class
	origin model.Origin
}

func (a defaultClass) Equal(b defaultClass) bool { return a == b }

// policy is what routes need to know of a class that is served.
type policy struct {
	externalNames bool
	leaf          bool // controllers of members serve it
	edges         bool // it has some
	own           bool // it wants addresses for itself there
	deep          bool // as of ClassInfo, like the next
	continues     bool
	lines         bool
	dial          model.Dial // as in Host
	secure        uint16     // its port of HTTPS; 0: the usual one
}

func (a policy) Equal(b policy) bool { return a == b }

// usualHTTPS is the port that a URL of HTTPS need not name.
const usualHTTPS = 443

func (d *program) declareClasses(g *inc.Graph) {
	in := &d.In
	d.classesByDefault = inc.IndexBy(in.Classes, func(_ model.Class, c model.ClassSpec) []model.Workspace {
		if !c.Default {
			return nil
		}
		return []model.Workspace{model.Workspace(c.Origin.Object.Workspace)}
	})
	d.defaultClass = inc.Derive(g, "default class", d.defaultClassOf, d.classesByDefault)
	from := []inc.Keys[model.Class]{in.Classes}
	for _, kind := range d.kinds {
		from = append(from, kind)
	}
	d.ClassInfo = inc.Derive(g, "class info", d.classInfo, from...)
	d.served = inc.Derive(g, "served classes", func(r *inc.Reader, c model.Class) (model.There, bool) {
		_, ok := d.ClassInfo.Get(r, c)
		return model.There{}, ok
	}, d.ClassInfo)
	d.policies = inc.Derive(g, "policies", func(r *inc.Reader, c model.Class) (policy, bool) {
		info, ok := d.ClassInfo.Get(r, c)
		out := policy{externalNames: info.Config.ExternalNames, edges: len(info.Edges) > 0, own: info.Config.Own}
		out.deep, out.continues, out.lines = info.Deep, info.Continues, info.Lines
		if out.leaf = info.Config.Leaf != nil; out.leaf {
			out.externalNames = true // whom it sends requests to is for the member's controller to say
		}
		dial := model.DialKey{Connect: info.Config.Timing.ConnectTimeout, Client: info.Client}
		if dial.Connect == model.UsualConnect {
			dial.Connect = 0
		}
		out.dial = dial.Dial()
		if out.secure = info.Config.HTTPSPort; out.secure == usualHTTPS {
			out.secure = 0
		}
		return out, ok
	}, d.ClassInfo)
	d.declareLeafy(g)
	d.declareGlobal(g)
	d.ownAt = inc.IndexBy(d.ClassInfo, func(_ model.Class, c ClassInfo) []model.Edge {
		if !c.Config.Own {
			return nil
		}
		return c.Edges
	})
	d.classesOfEdge = inc.IndexBy(d.ClassInfo, func(_ model.Class, c ClassInfo) []model.Edge { return c.Edges })
}

func (d *program) defaultClassOf(r *inc.Reader, w model.Workspace) (defaultClass, bool) {
	names, specs := d.classesByDefault.Keys(r, w), d.classesByDefault.Get(r, w)
	best := 0
	for i := range specs {
		if specs[i].Origin.Compare(specs[best].Origin) < 0 {
			best = i
		}
	}
	return defaultClass{names[best], specs[best].Origin}, true
}

func (d *program) classInfo(r *inc.Reader, c model.Class) (ClassInfo, bool) {
	spec, ok := d.In.Classes.Get(r, c)
	if !ok {
		return d.another(r, c)
	}
	config := d.Defaults
	if spec.Config != "" {
		if config, ok = d.In.Configs.Get(r, spec.Config); !ok {
			return ClassInfo{}, false
		}
	}
	out := ClassInfo{Spec: spec, Config: config}
	if config.Leaf == nil {
		out.Edges = d.edgesOf(r, config)
	}
	return out, true
}

// another is a class that an object of another kind than IngressClass asks for.
func (d *program) another(r *inc.Reader, c model.Class) (ClassInfo, bool) {
	for _, kind := range d.kinds {
		if info, ok := kind.Get(r, c); ok {
			return info, true
		}
	}
	return ClassInfo{}, false
}

// ours reports whether there is such a class, be it served or not.
func (d *program) ours(r *inc.Reader, c model.Class) bool {
	if _, ok := d.In.Classes.Get(r, c); ok {
		return true
	}
	_, ok := d.another(r, c)
	return ok
}

// edgesOf is the union of the edges that a configuration names and those it
// selects, and every edge if it does neither.
func (d *program) edgesOf(r *inc.Reader, c model.ConfigSpec) []model.Edge {
	names := d.allEdges.Keys(r, model.All{})
	if c.Edges == "" && len(c.EdgeNames) == 0 {
		return names
	}
	selector := labels.Nothing()
	if c.Edges != "" {
		parsed, err := labels.Parse(c.Edges)
		if err != nil {
			panic("a selector that ingest wrote can't be read: " + err.Error())
		}
		selector = parsed
	}
	specs := d.allEdges.Get(r, model.All{})
	var out []model.Edge
	for i, name := range names {
		if slices.Contains(c.EdgeNames, string(name)) || selector.Matches(labels.Set(specs[i].Labels)) {
			out = append(out, name)
		}
	}
	return out
}
