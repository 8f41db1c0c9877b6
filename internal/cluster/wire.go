package cluster

import (
	"bytes"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
)

// The library decodes what a watch brings in three messages, one in another, and
// copies what is left each time. Of an EndpointSlice, which is most of what a
// fleet sends, it then makes a dozen objects for each endpoint: of its pod, its
// node, its hints. A first list spent more on that than on all that follows from
// it. Here messages are read where they lie, and of EndpointSlices what ingest
// asks for. Whatever is not as expected is left to the library, which says what
// is wrong with it.

// reading is a serializer that reads protobuf so, and bounds each event of a watch.
func reading(n runtime.NegotiatedSerializer, kinds runtime.ObjectCreater) runtime.NegotiatedSerializer {
	types := slices.Clone(n.SupportedMediaTypes())
	for i := range types {
		t := &types[i]
		if t.StreamSerializer == nil {
			continue
		}
		stream := *t.StreamSerializer
		stream.Framer = framed{stream.Framer}
		switch t.MediaType {
		case runtime.ContentTypeProtobuf:
			t.Serializer, stream.Serializer = objects{t.Serializer, kinds}, events{stream.Serializer}
		case runtime.ContentTypeJSON:
			t.Serializer = fromText{t.Serializer}
		}
		t.StreamSerializer = &stream
	}
	return negotiated{n, types}
}

type negotiated struct {
	runtime.NegotiatedSerializer
	types []runtime.SerializerInfo
}

func (n negotiated) SupportedMediaTypes() []runtime.SerializerInfo { return n.types }

// events reads events of a watch. The object of one lies in the data, and is good
// for as long as that is: whoever reads a stream decodes it before it reads on.
type events struct{ runtime.Serializer }

func (s events) Decode(data []byte, gvk *schema.GroupVersionKind, into runtime.Object) (runtime.Object, *schema.GroupVersionKind, error) {
	if e, ok := into.(*metav1.WatchEvent); ok && gvk == nil && readEvent(data, e) {
		return e, &schema.GroupVersionKind{}, nil
	}
	return s.Serializer.Decode(data, gvk, into)
}

// objects reads objects that say what they are.
type objects struct {
	runtime.Serializer
	kinds runtime.ObjectCreater
}

func (s objects) Decode(data []byte, gvk *schema.GroupVersionKind, into runtime.Object) (runtime.Object, *schema.GroupVersionKind, error) {
	if gvk == nil && into == nil {
		if o, kind, ok := s.read(data); ok {
			return o, &kind, nil
		}
	}
	return s.Serializer.Decode(data, gvk, into)
}

// sliceKind is what is read in part.
var sliceKind = discoveryv1.SchemeGroupVersion.WithKind("EndpointSlice")

func (s objects) read(data []byte) (runtime.Object, schema.GroupVersionKind, bool) {
	kind, raw, ok := unwrap(data)
	if !ok {
		return nil, kind, false
	}
	if kind == sliceKind {
		o := &discoveryv1.EndpointSlice{}
		ok = readSlice(raw, o)
		o.SetGroupVersionKind(kind)
		return o, kind, ok
	}
	o, err := s.kinds.New(kind)
	if err != nil {
		return nil, kind, false
	}
	m, ok := o.(interface{ Unmarshal([]byte) error })
	if !ok || m.Unmarshal(raw) != nil {
		return nil, kind, false
	}
	o.GetObjectKind().SetGroupVersionKind(kind)
	return o, kind, true
}

// Messages are numbered fields; those are the numbers in the definitions of
// k8s.io/apimachinery and k8s.io/api (generated.proto).

// wirePrefix is how an object begins that says what it is (runtime.Unknown).
var wirePrefix = []byte("k8s\x00")

func unwrap(data []byte) (kind schema.GroupVersionKind, raw []byte, ok bool) {
	body, ok := bytes.CutPrefix(data, wirePrefix)
	if !ok {
		return kind, nil, false
	}
	var version, name []byte
	ok = eachField(body, func(n protowire.Number, v []byte, _ uint64) bool {
		switch n {
		case 1: // typeMeta
			return eachField(v, func(n protowire.Number, v []byte, _ uint64) bool {
				switch n {
				case 1:
					version = v
				case 2:
					name = v
				}
				return true
			})
		case 2:
			raw = v
		case 3: // contentEncoding
			return len(v) == 0
		}
		return true
	})
	return schema.FromAPIVersionAndKind(string(version), string(name)), raw, ok && len(name) > 0 && len(version) > 0
}

func readEvent(data []byte, e *metav1.WatchEvent) bool {
	var what, raw []byte
	ok := eachField(data, func(n protowire.Number, v []byte, _ uint64) bool {
		switch n {
		case 1:
			what = v
		case 2: // object, a RawExtension
			return eachField(v, func(n protowire.Number, v []byte, _ uint64) bool {
				if n == 1 {
					raw = v
				}
				return true
			})
		}
		return true
	})
	e.Type, e.Object.Raw = string(oneOf(what, watch.Added, watch.Modified, watch.Deleted, watch.Bookmark)), raw
	return ok && len(raw) > 0
}

// readSlice reads what ingest asks for of an EndpointSlice: of its metadata the
// names, and the annotation by which a server ends a list; of an endpoint the
// first address, the conditions and the zone.
func readSlice(raw []byte, o *discoveryv1.EndpointSlice) bool {
	n := 0
	if !eachField(raw, func(field protowire.Number, _ []byte, _ uint64) bool {
		if field == 2 {
			n++
		}
		return true
	}) {
		return false
	}
	if n > 0 {
		o.Endpoints = make([]discoveryv1.Endpoint, 0, n)
	}
	var addresses texts
	var zone *string // that of the endpoint before: mostly it is the same
	ok := eachField(raw, func(field protowire.Number, v []byte, _ uint64) bool {
		switch field {
		case 1:
			return readMeta(v, &o.ObjectMeta)
		case 2:
			e := discoveryv1.Endpoint{Zone: zone}
			address, ok := readEndpoint(v, &e)
			addresses.add(address)
			if o.Endpoints = append(o.Endpoints, e); e.Zone != nil {
				zone = e.Zone
			}
			return ok
		case 3:
			var p discoveryv1.EndpointPort
			err := p.Unmarshal(v)
			o.Ports = append(o.Ports, p)
			return err == nil
		case 4:
			o.AddressType = oneOf(v, discoveryv1.AddressTypeIPv4, discoveryv1.AddressTypeIPv6)
		}
		return true
	})
	all := addresses.all()
	for i := range all {
		if o.Endpoints[i].Addresses != nil {
			o.Endpoints[i].Addresses = all[i : i+1 : i+1]
		}
	}
	return ok
}

// oneOf is a text, which mostly is one that is known.
func oneOf[T ~string](text []byte, known ...T) T {
	for _, k := range known {
		if string(text) == string(k) {
			return k
		}
	}
	return T(text)
}

// readMeta reads names of an object.
func readMeta(raw []byte, o *metav1.ObjectMeta) bool {
	return eachField(raw, func(n protowire.Number, v []byte, _ uint64) bool {
		switch n {
		case 1:
			o.Name = string(v)
		case 3:
			o.Namespace = string(v)
		case 6:
			o.ResourceVersion = string(v)
		case 11:
			return readEntry(v, &o.Labels, discoveryv1.LabelServiceName)
		case 12:
			return readEntry(v, &o.Annotations, metav1.InitialEventsAnnotationKey)
		}
		return true
	})
}

// readEntry reads an entry of a map, if it has the key.
func readEntry(raw []byte, into *map[string]string, key string) bool {
	var k, val []byte
	ok := eachField(raw, func(n protowire.Number, v []byte, _ uint64) bool {
		switch n {
		case 1:
			k = v
		case 2:
			val = v
		}
		return true
	})
	if string(k) == key {
		*into = map[string]string{key: string(val)}
	}
	return ok
}

// said are the values of conditions. Nobody writes to them.
var said = [...]bool{false, true}

// readEndpoint reads an endpoint but for its address, which it returns: where
// there is one, addresses are not nil. The zone may be set to one that it may
// share.
func readEndpoint(raw []byte, e *discoveryv1.Endpoint) (address []byte, ok bool) {
	last := e.Zone
	e.Zone = nil
	ok = eachField(raw, func(n protowire.Number, v []byte, _ uint64) bool {
		switch n {
		case 1:
			if e.Addresses == nil {
				e.Addresses, address = []string{}, v
			}
		case 2:
			return readConditions(v, &e.Conditions)
		case 7:
			if last == nil || *last != string(v) {
				fresh := string(v)
				last = &fresh
			}
			e.Zone = last
		}
		return true
	})
	return address, ok
}

func readConditions(raw []byte, c *discoveryv1.EndpointConditions) bool {
	return eachField(raw, func(n protowire.Number, _ []byte, v uint64) bool {
		is := &said[min(v, 1)]
		switch n {
		case 1:
			c.Ready = is
		case 2:
			c.Serving = is
		case 3:
			c.Terminating = is
		}
		return true
	})
}

// texts are some texts in one.
type texts struct {
	bytes []byte
	ends  []int
}

func (t *texts) add(b []byte) {
	t.bytes = append(t.bytes, b...)
	t.ends = append(t.ends, len(t.bytes))
}

func (t *texts) all() []string {
	whole, start, out := string(t.bytes), 0, make([]string, len(t.ends))
	for i, end := range t.ends {
		out[i], start = whole[start:end], end
	}
	return out
}

// eachField calls f with the fields of a message: those of bytes, and numbers.
// It reports false for what is no message, and if f does.
func eachField(b []byte, f func(n protowire.Number, v []byte, number uint64) bool) bool {
	for len(b) > 0 {
		n, typ, size := protowire.ConsumeTag(b)
		if size < 0 {
			return false
		}
		b = b[size:]
		var v []byte
		var number uint64
		switch typ {
		case protowire.BytesType:
			v, size = protowire.ConsumeBytes(b)
		case protowire.VarintType:
			number, size = protowire.ConsumeVarint(b)
		default:
			size = protowire.ConsumeFieldValue(n, typ, b)
		}
		if size < 0 || !f(n, v, number) {
			return false
		}
		b = b[size:]
	}
	return true
}
