package main

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/spillway-dev/spillway/internal/lab/user"
)

// badHost is the host that bad objects are about; it is asked for all the time.
const badHost = "bad.example"

// bad is a mistake that a user can make on the hub.
type bad struct {
	what    string
	objects func(*soak) []object
	object  string // that has the finding
	reason  string
	http    string // the answer meanwhile
}

// adminPort is where the lab's Envoys have their admin listener, so that they
// refuse a listener there.
const adminPort = 9901

// refused is the finding of what proxies refuse.
const refused = "Rejected"

// mistakes each hurt what they are about, and nothing else.
var mistakes = []bad{
	{"a Service that nobody has", func(*soak) []object {
		return []object{ingressObject("bad", badHost, "", routes{"/": "nobody"})}
	}, "Ingress soak/bad", "ServiceNotFound", noPods},
	{"a backend that is no Service", func(*soak) []object {
		return []object{badIngress(func(path object) {
			path["backend"] = object{"resource": object{"kind": "Bucket", "name": "static"}}
		})}
	}, "Ingress soak/bad", "NotSupported", noPods},
	{"a Secret of noise", func(*soak) []object {
		return []object{secretObject("bad", pair{cert: "noise", key: "noise"}), ingressObject("bad", badHost, "bad", routes{"/": "web"})}
	}, "Ingress soak/bad", "SecretInvalid", served("web")},
	{"a certificate of another host", func(s *soak) []object {
		p, err := s.ca.sign("other.example")
		if err != nil {
			panic(err) // no randomness
		}
		return []object{secretObject("bad", p), ingressObject("bad", badHost, "bad", routes{"/": "web"})}
	}, "Ingress soak/bad", "CertificateMismatch", served("web")},
	{"a host and path that an older Ingress has", func(s *soak) []object {
		return []object{ingressObject("bad", s.steady[0].host, "", routes{"/": "api"})}
	}, "Ingress soak/bad", "Conflict", notFound},
	{"a class without its parameters", func(*soak) []object {
		return []object{classObjects("bad", nil)[1], badClass()}
	}, "IngressClass bad", "ConfigNotFound", notFound},
	{"a class without edges", func(*soak) []object {
		return append(classObjects("bad", object{"edges": object{"names": []any{"nowhere"}}}), badClass())
	}, "bad", "NoEdges", notFound},
	{"a port that Envoy refuses", func(*soak) []object {
		return append(classObjects("bad", object{"listeners": object{"http": adminPort, "https": adminPort + 1}}), badClass())
	}, "bad", refused, notFound},
}

func badIngress(spoil func(path object)) object {
	o := ingressObject("bad", badHost, "", routes{"/": "web"})
	rule := o["spec"].(object)["rules"].([]any)[0].(object)
	spoil(rule["http"].(object)["paths"].([]any)[0].(object))
	return o
}

// badClass is an Ingress of class bad.
func badClass() object {
	o := ingressObject("bad", badHost, "", routes{"/": "web"})
	o["spec"].(object)["ingressClassName"] = "bad"
	return o
}

// badObject makes a mistake, waits until it is told and answered as documented,
// and takes it away.
func (s *soak) badObject(ctx context.Context, rng *rand.Rand) (string, error) {
	m := one(rng, mistakes)
	if m.reason == refused {
		s.held.Lock()
		defer s.held.Unlock()
	}
	s.bad.allow(time.Now(), m.http)
	objects := m.objects(s)
	if err := write(ctx, s.hub, objects...); err != nil {
		return m.what, err
	}
	if err := s.found(ctx, m.object, m.reason); err != nil {
		return m.what, err
	}
	if err := s.answers(ctx, s.bad, m.http); err != nil {
		return m.what, err
	}
	user.Rest(ctx, time.Duration(rng.Int64N(int64(time.Second))))
	s.bad.allow(time.Now(), notFound)
	for _, o := range objects {
		kind, meta := o["kind"].(string), o["metadata"].(object)
		in, _ := meta["namespace"].(string)
		if err := erase(ctx, s.hub, kind, in, meta["name"].(string)); err != nil {
			return m.what, err
		}
	}
	if err := s.answers(ctx, s.bad, notFound); err != nil {
		return m.what, err
	}
	s.bad.only(time.Now(), notFound)
	return m.what, nil
}
