package catalogs

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
)

// maxProgram is how large a program may be, in bytes: several times what Mainstay has.
const maxProgram = 512 << 20

// ReadProgram reads a program that an image without any other file can run: a statically
// linked one for Linux. It gives the content, and the architecture in the words of GOARCH.
func ReadProgram(name string) ([]byte, string, error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, "", err
	}
	if info.Size() > maxProgram {
		return nil, "", fmt.Errorf("it has more than %d bytes", maxProgram)
	}
	content, err := os.ReadFile(name)
	if err != nil {
		return nil, "", err
	}
	architecture, err := architectureOf(content)
	return content, architecture, err
}

// elfHeader is the header of a 64-bit ELF file (System V ABI, figure 4-3). The library for
// such files would be more to link than all that is needed of it.
type elfHeader struct {
	Magic                                   [4]byte
	Class, Data, Version, ABI               byte
	_                                       [8]byte
	Type, Machine                           uint16
	_                                       uint32
	Entry, Programs, Sections               uint64
	Flags                                   uint32
	Size, ProgramSize, ProgramCount         uint16
	SectionSize, SectionCount, SectionNames uint16
}

const (
	elfClass64      = 2
	elfBigEndian    = 2
	elfInterpreter  = 3 // the type of a segment that names a dynamic loader
	maxElfSegments  = 1000
	elfMachineAMD64 = 62
	elfMachineARM64 = 183
	elfMachineS390  = 22
	elfMachinePPC64 = 21
)

var errNoProgram = errors.New("it is no 64-bit Linux program")

// architectureOf gives the architecture that a program is for, in the words of GOARCH.
func architectureOf(program []byte) (string, error) {
	var header elfHeader
	var order binary.ByteOrder = binary.LittleEndian
	if len(program) > 5 && program[5] == elfBigEndian {
		order = binary.BigEndian
	}
	if binary.Read(bytes.NewReader(program), order, &header) != nil || string(header.Magic[:]) != "\x7fELF" || header.Class != elfClass64 {
		return "", errNoProgram
	}
	if header.ProgramCount > maxElfSegments {
		return "", errNoProgram
	}
	for i := range uint64(header.ProgramCount) {
		at := header.Programs + i*uint64(header.ProgramSize)
		if at > uint64(len(program)) || uint64(len(program))-at < 4 {
			return "", errNoProgram
		}
		if order.Uint32(program[at:]) == elfInterpreter {
			return "", errors.New("it needs a dynamic loader and libraries, which the image does not have")
		}
	}
	switch {
	case header.Machine == elfMachineAMD64:
		return "amd64", nil
	case header.Machine == elfMachineARM64:
		return "arm64", nil
	case header.Machine == elfMachineS390:
		return "s390x", nil
	case header.Machine == elfMachinePPC64 && order == binary.LittleEndian:
		return "ppc64le", nil
	}
	return "", fmt.Errorf("its architecture (ELF machine %d) is not one that Mainstay is built for", header.Machine)
}
