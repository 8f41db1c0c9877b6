package leaf

import (
	"github.com/spillway-dev/spillway/internal/fleet"
	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
)

// objects says how the objects of a kind are named in tables.
type objects[K inc.Key[K]] struct {
	of  func(K) model.Object
	key func(model.Object) K
}

var (
	memberObject = clusterScoped[model.Member]("MemberCluster")
	edgeObject   = clusterScoped[model.Edge]("Edge")
	configObject = objects[model.Config]{
		of: model.Config.Object,
		key: func(o model.Object) model.Config {
			return model.Config(model.Scoped(model.Workspace(o.Workspace), o.Name))
		},
	}
	gatewayClassObject = objects[model.GatewayClass]{
		of: model.GatewayClass.Object,
		key: func(o model.Object) model.GatewayClass {
			return model.GatewayClass(model.Scoped(model.Workspace(o.Workspace), o.Name))
		},
	}
	zoneObject = objects[model.ZoneID]{
		of: func(k model.ZoneID) model.Object {
			return model.Object{Kind: "DNSZone", Workspace: k.Workspace, Namespace: k.Namespace, Name: k.Name}
		},
		key: func(o model.Object) model.ZoneID {
			return model.ZoneID{Workspace: o.Workspace, Namespace: o.Namespace, Name: o.Name}
		},
	}
)

// clusterScoped is a kind without a namespace, of which a name is all.
func clusterScoped[K interface {
	~string
	inc.Key[K]
}](kind string) objects[K] {
	return objects[K]{
		of:  func(k K) model.Object { return model.Object{Kind: kind, Name: string(k)} },
		key: func(o model.Object) K { return K(o.Name) },
	}
}

// named indexes what was found wrong with objects of a kind when they were
// read. One that can't be used at all has no other row; without a status of its
// own it would keep the conditions of its last good version.
func named[K inc.Key[K]](p *fleet.Program, kind objects[K]) *inc.Index[K, model.Object, model.Findings] {
	return inc.IndexBy(p.In.Problems, func(o model.Object, _ model.Findings) []K {
		k := kind.key(o)
		if kind.of(k) != o {
			return nil
		}
		return []K{k}
	})
}
