package cluster

import (
	"bytes"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"pgregory.net/rapid"

	"github.com/spillway-dev/spillway/internal/ingest"
)

// serializers are those of protobuf: of the library, or ours around it.
func serializers(n runtime.NegotiatedSerializer) (objects runtime.Serializer, stream runtime.Serializer) {
	for _, info := range n.SupportedMediaTypes() {
		if info.MediaType == runtime.ContentTypeProtobuf {
			return info.Serializer, info.StreamSerializer.Serializer
		}
	}
	panic("there is no protobuf")
}

func encoded(t interface{ Fatal(...any) }, s runtime.Encoder, o runtime.Object) []byte {
	var out bytes.Buffer
	if err := s.Encode(o, &out); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// drawSlice is an EndpointSlice with anything that one can have.
func drawSlice(t *rapid.T) *discoveryv1.EndpointSlice {
	text := rapid.SampledFrom([]string{"", "a", "zone-1", "zone-2", "10.0.0.1", "10.255.255.254", "fd00::1"})
	maybe := func(what string) *string {
		if !rapid.Bool().Draw(t, what) {
			return nil
		}
		v := text.Draw(t, what)
		return &v
	}
	flag := func(what string) *bool { return rapid.SampledFrom([]*bool{nil, &said[0], &said[1]}).Draw(t, what) }
	o := &discoveryv1.EndpointSlice{
		TypeMeta: metav1.TypeMeta{Kind: sliceKind.Kind, APIVersion: sliceKind.GroupVersion().String()},
		ObjectMeta: metav1.ObjectMeta{
			Name: text.Draw(t, "name"), Namespace: text.Draw(t, "namespace"), ResourceVersion: text.Draw(t, "version"),
			Generation: 7, UID: "uid", CreationTimestamp: metav1.Unix(1, 0),
			Labels:        rapid.MapOf(rapid.SampledFrom([]string{discoveryv1.LabelServiceName, "other"}), text).Draw(t, "labels"),
			Annotations:   rapid.MapOf(rapid.SampledFrom([]string{metav1.InitialEventsAnnotationKey, "other"}), text).Draw(t, "annotations"),
			ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "m", FieldsV1: metav1.NewFieldsV1(`{}`)}},
		},
		AddressType: rapid.SampledFrom([]discoveryv1.AddressType{"", "IPv4", "IPv6", "FQDN"}).Draw(t, "type"),
	}
	for range rapid.IntRange(0, 4).Draw(t, "ports") {
		port, protocol := rapid.Int32Range(-1, 70000).Draw(t, "port"), corev1.ProtocolTCP
		o.Ports = append(o.Ports, discoveryv1.EndpointPort{Name: maybe("port name"), Port: &port, Protocol: &protocol})
	}
	for range rapid.IntRange(0, 5).Draw(t, "endpoints") {
		o.Endpoints = append(o.Endpoints, discoveryv1.Endpoint{
			Addresses:  rapid.SliceOfN(text, 0, 2).Draw(t, "addresses"),
			Conditions: discoveryv1.EndpointConditions{Ready: flag("ready"), Serving: flag("serving"), Terminating: flag("terminating")},
			Hostname:   maybe("hostname"), NodeName: maybe("node"), Zone: maybe("zone"),
			TargetRef: &corev1.ObjectReference{Kind: "Pod", Name: "p"}, Hints: &discoveryv1.EndpointHints{ForZones: []discoveryv1.ForZone{{Name: "z"}}},
		})
	}
	return o
}

// TestSlicesAreReadAsTheLibraryDoes: what is asked for of an EndpointSlice, in an
// event or alone, is what the library decodes.
func TestSlicesAreReadAsTheLibraryDoes(t *testing.T) {
	theirs, theirStream := serializers(codecs.WithoutConversion())
	ours, ourStream := serializers(reader)
	rapid.Check(t, func(t *rapid.T) {
		o := drawSlice(t)
		data := encoded(t, theirs, o)
		want, kind, err := theirs.Decode(data, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		event := &metav1.WatchEvent{Type: rapid.SampledFrom([]string{"ADDED", "BOOKMARK", "ERROR"}).Draw(t, "event"), Object: runtime.RawExtension{Raw: data}}
		var seen metav1.WatchEvent
		if _, _, err := ourStream.Decode(encoded(t, theirStream, event), nil, &seen); err != nil || seen.Type != event.Type || !bytes.Equal(seen.Object.Raw, data) {
			t.Fatalf("an event is read as %q with %d bytes: %v", seen.Type, len(seen.Object.Raw), err)
		}
		got, gotKind, err := ours.Decode(seen.Object.Raw, nil, nil)
		if err != nil || *gotKind != *kind {
			t.Fatalf("%v, want %v: %v", gotKind, kind, err)
		}
		// Nothing of it may be of the data, which a stream writes over.
		clear(seen.Object.Raw)
		a, b := want.(*discoveryv1.EndpointSlice), got.(*discoveryv1.EndpointSlice)
		if a.TypeMeta != b.TypeMeta || a.Name != b.Name || a.Namespace != b.Namespace || a.ResourceVersion != b.ResourceVersion ||
			a.Annotations[metav1.InitialEventsAnnotationKey] != b.Annotations[metav1.InitialEventsAnnotationKey] {
			t.Fatalf("read as %+v, want %+v", b.ObjectMeta, a.ObjectMeta)
		}
		id, row, ok, findings := ingest.EndpointSlice("eu-1", b)
		wantID, wantRow, wantOK, wantFindings := ingest.EndpointSlice("eu-1", a)
		if id != wantID || !row.Equal(wantRow) || ok != wantOK || !findings.Equal(wantFindings) {
			t.Fatalf("gives %v %+v %t %v\nwant  %v %+v %t %v", id, row, ok, findings, wantID, wantRow, wantOK, wantFindings)
		}
	})
}

// TestOthersAreReadWhole: other kinds are decoded as the library does, and what
// it refuses is refused in its words.
func TestOthersAreReadWhole(t *testing.T) {
	theirs, _ := serializers(codecs.WithoutConversion())
	ours, _ := serializers(reader)
	meta := metav1.ObjectMeta{Name: "n", Namespace: "ns", Annotations: map[string]string{"a": "b"}, ResourceVersion: "3"}
	service := encoded(t, theirs, &corev1.Service{TypeMeta: metav1.TypeMeta{Kind: "Service", APIVersion: "v1"}, ObjectMeta: meta, Spec: corev1.ServiceSpec{ExternalName: "x"}})
	for name, data := range map[string][]byte{
		"service": service,
		"ingress": encoded(t, theirs, &networkingv1.Ingress{TypeMeta: metav1.TypeMeta{Kind: "Ingress", APIVersion: "networking.k8s.io/v1"}, ObjectMeta: meta}),
		"status":  encoded(t, theirs, &metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Message: "gone", Code: 410}),
		"unknown": encoded(t, theirs, &runtime.Unknown{TypeMeta: runtime.TypeMeta{Kind: "Pod", APIVersion: "pods/v9"}}),
		"no kind": encoded(t, theirs, &runtime.Unknown{}),
		"cut off": service[:len(service)-3], "empty": {}, "prefix": wirePrefix, "other": []byte("{}"),
	} {
		want, wantKind, wantErr := theirs.Decode(data, nil, nil)
		got, kind, err := ours.Decode(data, nil, nil)
		if !apiequality.Semantic.DeepEqual(got, want) || !apiequality.Semantic.DeepEqual(kind, wantKind) || (err == nil) != (wantErr == nil) {
			t.Errorf("%s: %v %v %v, want %v %v %v", name, got, kind, err, want, wantKind, wantErr)
		}
		if err != nil && err.Error() != wantErr.Error() {
			t.Errorf("%s: %v, want %v", name, err, wantErr)
		}
	}
	into := &corev1.Service{}
	if _, _, err := ours.Decode(service, &schema.GroupVersionKind{}, into); err != nil || into.Name != "n" {
		t.Errorf("into an object: %+v, %v", into, err)
	}
}

// FuzzWire: nothing that a server sends makes the reader panic.
func FuzzWire(f *testing.F) {
	theirs, theirStream := serializers(codecs.WithoutConversion())
	o := encoded(f, theirs, &discoveryv1.EndpointSlice{
		TypeMeta:   metav1.TypeMeta{Kind: sliceKind.Kind, APIVersion: sliceKind.GroupVersion().String()},
		ObjectMeta: metav1.ObjectMeta{Name: "a", Labels: map[string]string{discoveryv1.LabelServiceName: "s"}},
		Endpoints:  []discoveryv1.Endpoint{{Addresses: []string{"10.0.0.1"}, Conditions: discoveryv1.EndpointConditions{Ready: &said[1]}}, {}},
	})
	f.Add(o)
	f.Add(encoded(f, theirStream, &metav1.WatchEvent{Type: "ADDED", Object: runtime.RawExtension{Raw: o}}))
	ours, ourStream := serializers(reader)
	f.Fuzz(func(_ *testing.T, data []byte) {
		_, _, _ = ours.Decode(data, nil, nil)
		_, _, _ = ourStream.Decode(data, nil, &metav1.WatchEvent{})
	})
}
