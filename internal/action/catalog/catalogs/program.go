package catalogs

import (
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"slices"
)

// maxProgramBytes limits the size of a program: several times that of Mainstay.
const maxProgramBytes = 512 << 20

// ReadProgram reads a statically linked Linux program, which an image without other files
// can run. It returns the content and the architecture as a GOARCH value.
func ReadProgram(name string) ([]byte, string, error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, "", err
	}
	if info.Size() > maxProgramBytes {
		return nil, "", fmt.Errorf("it has more than %d bytes", maxProgramBytes)
	}

	content, err := os.ReadFile(name)
	if err != nil {
		return nil, "", err
	}

	architecture, err := programArchitecture(content)
	return content, architecture, err
}

// programArchitecture returns the architecture of an ELF program as a GOARCH value.
func programArchitecture(program []byte) (string, error) {
	file, err := elf.NewFile(bytes.NewReader(program))
	if err != nil || file.Class != elf.ELFCLASS64 {
		return "", errors.New("it is no 64-bit Linux program")
	}
	if slices.ContainsFunc(file.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_INTERP }) {
		return "", errors.New("it needs a dynamic loader and libraries, which the image does not have")
	}

	switch {
	case file.Machine == elf.EM_X86_64:
		return "amd64", nil
	case file.Machine == elf.EM_AARCH64:
		return "arm64", nil
	case file.Machine == elf.EM_S390:
		return "s390x", nil
	case file.Machine == elf.EM_PPC64 && file.Data == elf.ELFDATA2LSB:
		return "ppc64le", nil
	}

	return "", fmt.Errorf("its architecture (ELF machine %d) is not one that Mainstay is built for", file.Machine)
}
