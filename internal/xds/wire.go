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
			n += protowire.SizeTag(responseResources) + protowire.SizeBytes(len(res.Body))
		}
		return n
	}
	for _, res := range r.Resources {
		n += protowire.SizeTag(responseResources) + protowire.SizeBytes(res.size())
	}
	for _, name := range r.Removed {
		n += sizeString(responseRemoved, name)
	}
	return n
}

// size returns the length of the resource's envoy.service.discovery.v3.Resource.
func (r *Resource) size() int {
	return sizeString(resourceVersion, r.Version) + sizeString(resourceName, r.Name) +
		protowire.SizeTag(resourceBody) + protowire.SizeBytes(len(r.Body))
}

func sizeString(field protowire.Number, s string) int {
	return protowire.SizeTag(field) + protowire.SizeBytes(len(s))
}

// Append encodes the response as a DeltaDiscoveryResponse or, if it has a
// Version, as a DiscoveryResponse. Bodies are copied as they are: nothing is
// marshalled per stream.
func (r *Response) Append(b []byte) []byte {
	if r.Version != "" {
		return r.appendWorld(b)
	}
	for _, res := range r.Resources {
		b = protowire.AppendTag(b, responseResources, protowire.BytesType)
		b = protowire.AppendVarint(b, uint64(res.size()))
		b = appendString(b, resourceVersion, res.Version)
		b = protowire.AppendTag(b, resourceBody, protowire.BytesType)
		b = protowire.AppendBytes(b, res.Body)
		b = appendString(b, resourceName, res.Name)
	}
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
		b = protowire.AppendBytes(b, res.Body)
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
	return mem.BufferSlice{mem.SliceBuffer(r.Append(make([]byte, 0, r.Size())))}, nil
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
