package xds

import (
	"google.golang.org/grpc/encoding"
	_ "google.golang.org/grpc/encoding/proto" // the codec below stands in front of it
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
)

// Field numbers of envoy.service.discovery.v3. Those that both kinds of
// response have are the same.
const (
	responseVersion   = 1 // of a DiscoveryResponse
	responseResources = 2
	responseType      = 4
	responseNonce     = 5
	responseRemoved   = 6 // of a DeltaDiscoveryResponse

	resourceVersion = 1
	resourceBody    = 2
	resourceName    = 3
)

// Size returns the length of the response on the wire, without gRPC framing.
func (r *Response) Size() int {
	n := sizeString(responseType, string(r.Type)) + sizeString(responseNonce, r.Nonce)
	if r.Version != "" {
		n += sizeString(responseVersion, r.Version)
		for _, res := range r.Resources {
			n += protowire.SizeTag(responseResources) + protowire.SizeBytes(res.Size())
		}
		return n
	}
	for _, name := range r.Removed {
		n += sizeString(responseRemoved, name)
	}
	if !r.packed() {
		return n + sizeOf(r.Resources)
	}
	for _, p := range r.parcels {
		n += len(p.encoded())
	}
	return n
}

func (r *Response) packed() bool { return r.parcels != [2]*parcel{} }

// sizeOf returns the length of resources in a DeltaDiscoveryResponse.
func sizeOf(resources []*Resource) (n int) {
	for _, res := range resources {
		n += protowire.SizeTag(responseResources) + protowire.SizeBytes(sizeIn(res, res.Size()))
	}
	return n
}

// sizeIn returns the length of the resource's envoy.service.discovery.v3.Resource,
// whose body has this length.
func sizeIn(r *Resource, body int) int {
	return sizeString(resourceVersion, r.Version) + sizeString(resourceName, r.Name) +
		protowire.SizeTag(resourceBody) + protowire.SizeBytes(body)
}

func sizeString(field protowire.Number, s string) int {
	return protowire.SizeTag(field) + protowire.SizeBytes(len(s))
}

// Append encodes the response as a DeltaDiscoveryResponse or, if it has a
// Version, as a DiscoveryResponse. Bodies are appended as they are made: nothing
// is marshalled.
func (r *Response) Append(b []byte) []byte {
	if r.Version != "" {
		return r.appendWorld(b)
	}
	return r.appendRest(appendResources(b, r.Resources))
}

func appendResources(b []byte, resources []*Resource) []byte {
	for _, res := range resources {
		b = protowire.AppendTag(b, responseResources, protowire.BytesType)
		body := res.Size()
		b = protowire.AppendVarint(b, uint64(sizeIn(res, body)))
		b = appendString(b, resourceVersion, res.Version)
		b = protowire.AppendTag(b, resourceBody, protowire.BytesType)
		b = res.Append(protowire.AppendVarint(b, uint64(body)))
		b = appendString(b, resourceName, res.Name)
	}
	return b
}

// appendRest encodes everything but the resources.
func (r *Response) appendRest(b []byte) []byte {
	b = appendString(b, responseType, string(r.Type))
	b = appendString(b, responseNonce, r.Nonce)
	for _, name := range r.Removed {
		b = appendString(b, responseRemoved, name)
	}
	return b
}

func (r *Response) appendWorld(b []byte) []byte {
	b = appendString(b, responseVersion, r.Version)
	for _, res := range r.Resources {
		b = protowire.AppendTag(b, responseResources, protowire.BytesType)
		b = res.Append(protowire.AppendVarint(b, uint64(res.Size())))
	}
	b = appendString(b, responseType, string(r.Type))
	return appendString(b, responseNonce, r.Nonce)
}

func appendString(b []byte, field protowire.Number, s string) []byte {
	b = protowire.AppendTag(b, field, protowire.BytesType)
	return protowire.AppendString(b, s)
}

// codec encodes a *Response and decodes an *inbound by itself, and everything
// else as gRPC does.
type codec struct{ encoding.CodecV2 }

func newCodec() codec { return codec{encoding.GetCodecV2("proto")} }

func (c codec) Marshal(v any) (mem.BufferSlice, error) {
	r, ok := v.(*Response)
	if !ok {
		return c.CodecV2.Marshal(v)
	}
	size := r.Size()
	if !r.packed() {
		return mem.BufferSlice{mem.SliceBuffer(r.Append(make([]byte, 0, size)))}, nil
	}
	out := make(mem.BufferSlice, 0, len(r.parcels)+1)
	for _, p := range r.parcels {
		if shared := p.encoded(); len(shared) > 0 { // nobody writes to it: gRPC copies
			size -= len(shared)
			out = append(out, mem.SliceBuffer(shared))
		}
	}
	return append(out, mem.SliceBuffer(r.appendRest(make([]byte, 0, size)))), nil
}

func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	in, ok := v.(*inbound)
	if !ok {
		return c.CodecV2.Unmarshal(data, v)
	}
	buf := data.MaterializeToBuffer(mem.DefaultBufferPool())
	defer buf.Free()
	return in.unmarshal(buf.ReadOnlyData())
}
