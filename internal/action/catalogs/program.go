package catalogs

import (
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"slices"
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

// architectureOf returns the architecture that a program is for, in the words of GOARCH.
func architectureOf(program []byte) (string, error) {
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
