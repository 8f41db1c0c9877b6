package fleettest

import (
	"fmt"
	"strings"

	"github.com/spillway-dev/spillway/internal/inc"
	"github.com/spillway-dev/spillway/internal/model"
)

func ingress(w *World, words []string) (string, error) {
	a := parse(words, "class", "age", "default", "tls", "published", "ours", "generation")
	name := a.service(a.word(0), "default")
	id := model.Object{Kind: "Ingress", Namespace: name.Namespace, Name: name.Name}
	root := model.Root{
		Origin:     model.Origin{Created: a.number("age", w.age(id.String())), Object: id},
		Generation: a.number("generation", 1), Class: model.Class(a.options["class"]), Published: a.list("published"), Ours: a.has("ours"),
	}
	if text, ok := a.options["default"]; ok {
		b := a.backend(text, name.Namespace)
		root.Default = &b
	}
	for i, text := range a.rest(1) {
		root.Rules = append(root.Rules, a.rule(text, name.Namespace, model.Field("spec.rules").Index(i)+".http.paths[0]"))
	}
	if text, ok := a.options["tls"]; ok {
		for i, entry := range strings.Split(text, ";") {
			secret, hosts, _ := strings.Cut(entry, "@")
			t := model.TLS{Secret: model.SecretID{Namespace: name.Namespace, Name: secret}, Field: model.Field("spec.tls").Index(i)}
			for h := range strings.SplitSeq(hosts, ",") {
				if h != "" {
					t.Hosts = append(t.Hosts, model.Host(h))
				}
			}
			root.TLS = append(root.TLS, t)
		}
	}
	w.Stage(func(tx *inc.Tx) { w.Program.In.Roots.Set(tx, id, root) })
	return "", a.err
}

// rule reads HOST/PATH->SERVICE:PORT, and HOST=/PATH->SERVICE:PORT for an exact path.
func (a *args) rule(text, namespace string, field model.Field) model.Rule {
	from, to, ok := strings.Cut(text, "->")
	i := strings.Index(from, "/")
	if !ok || i < 0 {
		a.fail("%q is no HOST/PATH->SERVICE:PORT", text)
		return model.Rule{}
	}
	host, path := from[:i], from[i:]
	r := model.Rule{Host: model.Host(strings.TrimSuffix(host, "=")), Match: model.Match{Kind: model.PathPrefix, Path: path}, Field: field}
	if strings.HasSuffix(host, "=") {
		r.Match.Kind = model.PathExact
	}
	if to != "" {
		r.Backends = []model.WeightedBackend{{Backend: a.backend(to, namespace), Weight: 1}}
	}
	return r
}

func report(w *World, words []string) (string, error) {
	a := parse(words)
	edge, proxy, _ := strings.Cut(a.word(0), "/")
	id := model.ReportID{Edge: model.Edge(edge), Proxy: proxy, Member: model.Member(a.word(1))}
	if a.word(2) == "-" {
		w.Stage(func(tx *inc.Tx) { w.Program.In.Reports.Delete(tx, id) })
		return "", a.err
	}
	var row model.Report
	if _, err := fmt.Sscanf(a.word(2), "%d/%d", &row.Failing, &row.Canaries); err != nil {
		a.fail("%w", err)
	}
	w.Stage(func(tx *inc.Tx) { w.Program.In.Reports.Set(tx, id, row) })
	return "", a.err
}

func streams(w *World, words []string) (string, error) {
	a := parse(words)
	id := model.Edge(a.word(0))
	if a.word(1) == "-" {
		w.Stage(func(tx *inc.Tx) { w.Program.In.Streams.Delete(tx, id) })
		return "", a.err
	}
	var row model.Streams
	connected, synced, apart := strings.Cut(a.word(1), "/")
	if !apart {
		synced = connected
	}
	if _, err := fmt.Sscan(connected+" "+synced, &row.Connected, &row.Synced); err != nil {
		a.fail("%w", err)
	}
	w.Stage(func(tx *inc.Tx) { w.Program.In.Streams.Set(tx, id, row) })
	return "", a.err
}

func ack(on bool) Command {
	return func(w *World, words []string) (string, error) {
		a := parse(words, "class")
		class := model.Class("spillway")
		if c, ok := a.options["class"]; ok {
			class = model.Class(c)
		}
		host := model.Host(a.word(1))
		if host == "*" {
			host = ""
		}
		id := model.AckID{Edge: model.Edge(a.word(0)), Host: model.HostKey{Class: class, Host: host}}
		w.Stage(func(tx *inc.Tx) {
			if on {
				w.Program.In.Acks.Set(tx, id, model.Ack{})
			} else {
				w.Program.In.Acks.Delete(tx, id)
			}
		})
		return "", a.err
	}
}

func problem(w *World, words []string) (string, error) {
	a := parse(words)
	s := a.service(a.word(1), "")
	id := model.Object{Kind: a.word(0), Namespace: s.Namespace, Name: s.Name}
	f := model.ErrorOf(id, "", model.Reason(a.word(2)), "%s", strings.Join(a.rest(3), " "))
	w.Stage(func(tx *inc.Tx) { w.Program.In.Problems.Set(tx, id, model.Findings{f}) })
	return "", a.err
}

func remove(w *World, words []string) (string, error) {
	a := parse(words)
	kind, name, in := a.word(0), a.word(1), w.Program.In
	named := a.service(name, "")
	var deletion func(*inc.Tx)
	switch kind {
	case "member":
		deletion = func(tx *inc.Tx) {
			in.Members.Delete(tx, model.Member(name))
			in.Sources.Delete(tx, model.Member(name))
			in.Contacts.Delete(tx, model.Member(name))
			in.Problems.Delete(tx, model.Object{Kind: "MemberCluster", Name: name})
		}
	case "edge":
		deletion = func(tx *inc.Tx) { in.Edges.Delete(tx, model.Edge(name)) }
	case "zone":
		deletion = func(tx *inc.Tx) {
			in.Zones.Delete(tx, model.ZoneID{Namespace: named.Namespace, Name: named.Name})
		}
	case "class":
		deletion = func(tx *inc.Tx) { in.Classes.Delete(tx, model.Class(name)) }
	case "config":
		deletion = func(tx *inc.Tx) { in.Configs.Delete(tx, model.Config(name)) }
	case "ingress":
		deletion = func(tx *inc.Tx) {
			in.Roots.Delete(tx, model.Object{Kind: "Ingress", Namespace: named.Namespace, Name: named.Name})
		}
	case "secret":
		deletion = func(tx *inc.Tx) {
			in.Certificates.Delete(tx, model.SecretID{Namespace: named.Namespace, Name: named.Name})
		}
	case "service":
		id := model.MemberService{Member: model.Member(name), Service: a.service(a.word(2), "")}
		deletion = func(tx *inc.Tx) { in.Services.Delete(tx, id) }
	case "slice":
		id := model.SliceID{MemberService: model.MemberService{Member: model.Member(name), Service: a.service(a.word(2), "")}, Name: a.word(3)}
		deletion = func(tx *inc.Tx) { in.Slices.Delete(tx, id) }
	default:
		return "", fmt.Errorf("there is no kind %q", kind)
	}
	w.Stage(deletion)
	return "", a.err
}
