package realnode

import (
	"bytes"
	"encoding/binary"
	"fmt"
)

// The pause program is the only container of a pod's sandbox: it holds the pod's namespaces and does nothing. It is written
// here instruction by instruction. The alternatives are to pull an existing image, which needs a network, or to compile a
// separate program for each architecture, which needs a second build:
//
//	rt_sigaction(SIGCHLD, {SIG_IGN}, NULL, 8)   // the kernel reaps orphans of a shared process namespace
//	for { pause() }
//
// It ends on SIGKILL, by which containerd stops a sandbox.

// pauseCode is the program by GOARCH: the instructions, padded to a multiple of 8, followed by the struct sigaction
// that the first system call reads.
var pauseCode = map[string][]byte{
	"amd64": bytes.Join([][]byte{
		{0xb8, 0x0d, 0x00, 0x00, 0x00},             //       mov  eax, 13 (rt_sigaction)
		{0xbf, 0x11, 0x00, 0x00, 0x00},             //       mov  edi, 17 (SIGCHLD)
		{0x48, 0x8d, 0x35, 0x17, 0x00, 0x00, 0x00}, //       lea  rsi, [rip + 23] (the struct at 40)
		{0x31, 0xd2},                         //       xor  edx, edx
		{0x41, 0xba, 0x08, 0x00, 0x00, 0x00}, //       mov  r10d, 8 (size of the signal mask)
		{0x0f, 0x05},                         //       syscall
		{0xb8, 0x22, 0x00, 0x00, 0x00},       // loop: mov  eax, 34 (pause)
		{0x0f, 0x05},                         //       syscall
		{0xeb, 0xf7},                         //       jmp  loop
		{0x90, 0x90, 0x90, 0x90},             //       nop, up to 40
		ignoreSignal,
	}, nil),
	"arm64": bytes.Join([][]byte{
		encodeInstructions(
			0xd28010c8, //       mov x8, #134 (rt_sigaction)
			0xd2800220, //       mov x0, #17 (SIGCHLD)
			0x10000181, //       adr x1, #48 (the struct at 56)
			0xd2800002, //       mov x2, #0
			0xd2800103, //       mov x3, #8 (size of the signal mask)
			0xd4000001, //       svc #0
			0xd2800928, // loop: mov x8, #73 (ppoll: there is no pause)
			0xd2800000, //       mov x0, #0
			0xd2800001, //       mov x1, #0
			0xd2800002, //       mov x2, #0
			0xd2800003, //       mov x3, #0
			0xd4000001, //       svc #0
			0x17fffffa, //       b   loop
			0xd503201f, //       nop, up to 56
		),
		ignoreSignal,
	}, nil),
}

// ignoreSignal is the kernel's struct sigaction {handler: SIG_IGN (1), flags, restorer, mask}. Each field has 8 bytes.
var ignoreSignal = append([]byte{1}, make([]byte, 31)...)

func encodeInstructions(instructions ...uint32) []byte {
	var code []byte
	for _, instruction := range instructions {
		code = binary.LittleEndian.AppendUint32(code, instruction)
	}
	return code
}

// elfMachines are the ELF machine numbers by GOARCH.
var elfMachines = map[string]uint16{"amd64": 62, "arm64": 183}

// buildPauseBinary returns the program as a static executable of about 200 bytes. It supports amd64 and arm64.
func buildPauseBinary(architecture string) ([]byte, error) {
	code, ok := pauseCode[architecture]
	if !ok {
		return nil, fmt.Errorf("no pause program for architecture %s: a real node runs on amd64 and arm64", architecture)
	}

	const (
		base       = 0x400000 // the usual load address of a program
		headerSize = 64       // of the ELF header
		entrySize  = 56       // of a program header
		codeStart  = headerSize + entrySize
	)

	size := uint64(codeStart + len(code))
	header := struct {
		Ident                                             [16]byte
		Type, Machine                                     uint16
		Version                                           uint32
		Entry, ProgramHeaders, SectionHeaders             uint64
		Flags                                             uint32
		HeaderSize, ProgramHeaderSize, ProgramHeaderCount uint16
		SectionHeaderSize, SectionHeaderCount, Names      uint16

		// The one program header: the whole file is loaded at base, to be read and executed.
		SegmentType, SegmentFlags               uint32
		Offset, VirtualAddress, PhysicalAddress uint64
		FileSize, MemorySize, Alignment         uint64
	}{
		Ident: [16]byte{0x7f, 'E', 'L', 'F', 2 /* 64 bits */, 1 /* little-endian */, 1 /* version */},
		Type:  2 /* executable */, Machine: elfMachines[architecture], Version: 1,
		Entry: base + codeStart, ProgramHeaders: headerSize,
		HeaderSize: headerSize, ProgramHeaderSize: entrySize, ProgramHeaderCount: 1,
		SegmentType: 1 /* load */, SegmentFlags: 5, /* read, execute */
		VirtualAddress: base, PhysicalAddress: base, FileSize: size, MemorySize: size,
		Alignment: 0x10000, // the largest page of either architecture
	}

	var file bytes.Buffer
	if err := binary.Write(&file, binary.LittleEndian, header); err != nil {
		return nil, err
	}

	file.Write(code)
	return file.Bytes(), nil
}
