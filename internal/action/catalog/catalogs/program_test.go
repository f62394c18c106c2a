package catalogs

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"os"
	"testing"
)

// newELFProgram returns an ELF file for a machine, with a segment of a type.
func newELFProgram(t *testing.T, machine elf.Machine, order binary.ByteOrder, data elf.Data, segment elf.ProgType) []byte {
	t.Helper()
	var b bytes.Buffer
	header := elf.Header64{
		Ident: [elf.EI_NIDENT]byte{0x7f, 'E', 'L', 'F', byte(elf.ELFCLASS64), byte(data), byte(elf.EV_CURRENT)},
		Type:  uint16(elf.ET_EXEC), Machine: uint16(machine), Version: uint32(elf.EV_CURRENT),
		Phoff: 64, Ehsize: 64, Phentsize: 56, Phnum: 1,
	}
	for _, part := range []any{header, elf.Prog64{Type: uint32(segment)}} {
		if err := binary.Write(&b, order, part); err != nil {
			t.Fatal(err)
		}
	}

	return b.Bytes()
}

func TestProgramArchitecture(t *testing.T) {
	little, big := binary.ByteOrder(binary.LittleEndian), binary.ByteOrder(binary.BigEndian)
	cut := newELFProgram(t, elf.EM_X86_64, little, elf.ELFDATA2LSB, elf.PT_LOAD)[:66]
	for name, c := range map[string]struct {
		program []byte
		want    string
	}{
		"amd64":         {newELFProgram(t, elf.EM_X86_64, little, elf.ELFDATA2LSB, elf.PT_LOAD), "amd64"},
		"arm64":         {newELFProgram(t, elf.EM_AARCH64, little, elf.ELFDATA2LSB, elf.PT_LOAD), "arm64"},
		"s390x":         {newELFProgram(t, elf.EM_S390, big, elf.ELFDATA2MSB, elf.PT_LOAD), "s390x"},
		"ppc64le":       {newELFProgram(t, elf.EM_PPC64, little, elf.ELFDATA2LSB, elf.PT_LOAD), "ppc64le"},
		"ppc64":         {newELFProgram(t, elf.EM_PPC64, big, elf.ELFDATA2MSB, elf.PT_LOAD), ""},
		"riscv":         {newELFProgram(t, elf.EM_RISCV, little, elf.ELFDATA2LSB, elf.PT_LOAD), ""},
		"with a loader": {newELFProgram(t, elf.EM_X86_64, little, elf.ELFDATA2LSB, elf.PT_INTERP), ""},
		"cut":           {cut, ""},
		"text":          {[]byte("#!/bin/sh\necho no program, however long this text is, and it is long enough\n"), ""},
		"nothing":       {nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := programArchitecture(c.program)
			if got != c.want || (err == nil) != (c.want != "") {
				t.Errorf("got %q, error %v; want %q", got, err, c.want)
			}
		})
	}

	if _, _, err := ReadProgram(t.TempDir() + "/nothing"); !os.IsNotExist(err) {
		t.Errorf("got error %v, want one about a missing file", err)
	}
}

func FuzzProgramArchitecture(f *testing.F) {
	f.Add([]byte("\x7fELF\x02\x01\x01"))
	f.Add(bytes.Repeat([]byte{0xff}, 200))
	f.Fuzz(func(t *testing.T, data []byte) {
		if got, err := programArchitecture(data); (got == "") != (err != nil) {
			t.Errorf("%q, %v", got, err)
		}
	})
}
