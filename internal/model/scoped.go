package model

import "strings"

// Workspace is a kcp logical cluster; empty on a hub without workspaces.
type Workspace string

// Compare orders workspaces by name.
func (a Workspace) Compare(b Workspace) int { return strings.Compare(string(a), string(b)) }

// Scoped is a name in a workspace: "web", or "1x1l:web" in workspace 1x1l. A
// colon is in no name of an object.
func Scoped(w Workspace, name string) string {
	if w == "" {
		return name
	}
	return string(w) + ":" + name
}

// Unscoped is the workspace and the name in it.
func Unscoped(scoped string) (Workspace, string) {
	i := strings.LastIndexByte(scoped, ':')
	return Workspace(scoped[:max(i, 0)]), scoped[i+1:]
}

func unscoped(kind, scoped string) Object {
	w, name := Unscoped(scoped)
	return Object{Kind: kind, Workspace: string(w), Name: name}
}

// Class names an IngressClass, as Scoped does.
type Class string

// Compare orders classes by name.
func (a Class) Compare(b Class) int { return strings.Compare(string(a), string(b)) }

// Object is the IngressClass.
func (a Class) Object() Object { return unscoped("IngressClass", string(a)) }

// Config names a GatewayClassConfig, as Scoped does.
type Config string

// Compare orders configurations by name.
func (a Config) Compare(b Config) int { return strings.Compare(string(a), string(b)) }

// Object is the GatewayClassConfig.
func (a Config) Object() Object { return unscoped("GatewayClassConfig", string(a)) }
