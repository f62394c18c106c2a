package dial

import (
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
)

// responseBuffers are buffers for responses of up to 1 MiB, by the exponents of their sizes. Those of gRPC have 1 MiB for
// each response of more than 32 KiB, and most bundles have 30 to 200 kB.
var responseBuffers, _ = mem.NewBinaryTieredBufferPool(12, 13, 14, 15, 16, 17, 18, 19, 20) // The sizes are valid.

// codec is the protobuf codec of gRPC with other buffers for responses.
type codec struct{ encoding.CodecV2 }

func newCodec() codec { return codec{encoding.GetCodecV2(proto.Name)} }

// Unmarshal implements encoding.CodecV2.
func (c codec) Unmarshal(data mem.BufferSlice, message any) error {
	buffer := data.MaterializeToBuffer(responseBuffers)
	defer buffer.Free()
	return c.CodecV2.Unmarshal(mem.BufferSlice{buffer}, message)
}
