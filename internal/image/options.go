package image

import "time"

// Options configure a [Client]. The zero value works on every machine. Where a file is not
// named, the client reads the default paths of container tools (/etc/containers and the
// home directory). None of these files has to exist.
//
// Files are read again for every operation, so that a change needs no restart.
type Options struct {
	// RegistriesConf is the path of a registries.conf (version 2) with mirrors, blocked and
	// insecure registries. The file must exist when named. If empty, the default paths are
	// read, and none of them has to exist.
	RegistriesConf string
	// RegistriesDir is a registries.d directory, which configures where signatures are
	// stored. If empty, the default paths are read.
	RegistriesDir string
	// PolicyFile is the path of a policy.json that configures which images are accepted.
	// The file must exist when named. If empty, the default paths are read. Without any
	// policy, every image is accepted.
	PolicyFile string
	// CertsDir has a directory <host[:port]> for each registry with its certificate
	// authorities (*.crt) and client certificates (*.cert, *.key). If empty, the default
	// paths are read.
	CertsDir string
	// CADir has certificate authorities (*.crt, *.pem) that are trusted for every registry,
	// in addition to the system's. A missing or empty directory adds none.
	CADir string
	// AuthFile is a Docker config.json with credentials. A missing file has none. If empty,
	// the default paths are read, which include the home directory.
	AuthFile string
	// Mirrors returns rules in addition to those of registries.conf. It is called for every
	// operation, so that its result may change. Nil means none.
	Mirrors func() []MirrorRule
	// SkipTLSVerify accepts any certificate of a registry.
	SkipTLSVerify bool
	// Insecure accepts any certificate, and falls back to plain HTTP for registries that do
	// not speak TLS.
	Insecure bool
	// RequestsPerSecond bounds the average rate of requests to each registry, with bursts
	// of twice as many. The default is 100, and unlimited for a registry on this machine.
	// Pulling a bundle takes about four requests, so that the limit mainly stops a program
	// in a faulty loop.
	RequestsPerSecond float64
	// UserAgent is sent to registries. The default is "mainstay".
	UserAgent string
	// Architecture is selected from multi-platform images, always with the OS linux. It is
	// a value of GOARCH. The default is the architecture that this program was built for.
	Architecture string
	// MaxTransfers bounds how many images are unpacked at the same time, by this client and by
	// those derived from it. Further ones wait, after their manifests were read. Each takes
	// up to 128 MiB of memory for a layer of the highest compression. Zero means no limit.
	MaxTransfers int
	// Limits bound what is unpacked. Zero fields have their default.
	Limits Limits
	// Timeouts bound how long operations take. Zero fields have their default.
	Timeouts Timeouts
}

// Timeouts bound how long operations take.
type Timeouts struct {
	// Open bounds Resolve and Pull, which only read manifests. It includes the pauses that
	// a registry requests with status 429. The default is two minutes.
	Open time.Duration
	// Transfer bounds a whole Extract or Push. The default is 30 minutes: 2 GiB of layers
	// at 10 Mbit/s.
	Transfer time.Duration
	// Stall ends a connection that delivered less than 16 KiB, and not the end of the blob,
	// in this time. The download is then resumed at the same offset, a few times. The
	// default is one minute.
	Stall time.Duration
	// Backoff is the delay before the first retry of a failed request. It doubles with each
	// further retry. The default is 250 ms.
	Backoff time.Duration
}

// Limits bound the resources that one image may use. Content over a limit is an error of
// [KindContent].
type Limits struct {
	// BlobBytes is the maximum size of one compressed layer. The default is 4 GiB.
	BlobBytes int64
	// StreamBytes is the maximum size of all layers when decompressed, including the parts
	// that are skipped. It stops decompression bombs. The default is 16 GiB. A catalog
	// image with its base image, its server and its caches has about 2 GiB.
	StreamBytes int64
	// Entries is the maximum number of entries in all layers, including those that are
	// skipped. The default is one million. A full distribution has about 100,000.
	Entries int
	// Layers is the maximum number of layers. The default is 512. Builders stop at 127.
	Layers int
	// Bytes is the maximum size of all files written. The default is 1 GiB. The largest
	// public catalog has about 250 MiB.
	Bytes int64
	// FileBytes is the maximum size of one file written. The default is 512 MiB, enough for
	// a catalog in one file.
	FileBytes int64
	// Files is the maximum number of files, directories and links written. The default is
	// 200,000. A catalog of 5,000 packages with 20 files each has half of it.
	Files int
	// NameBytes is the maximum length of all written paths together. The default is 32 MiB:
	// 160 bytes for each file.
	NameBytes int64
	// PathBytes is the maximum length of one path. The default is 1024.
	PathBytes int
	// Depth is the maximum number of elements in one path. The default is 64.
	Depth int
}

const gib = 1 << 30

func (l Limits) withDefaults() Limits {
	return Limits{
		BlobBytes:   positiveOrDefault(l.BlobBytes, 4*gib),
		StreamBytes: positiveOrDefault(l.StreamBytes, 16*gib),
		Entries:     positiveOrDefault(l.Entries, 1_000_000),
		Layers:      positiveOrDefault(l.Layers, 512),
		Bytes:       positiveOrDefault(l.Bytes, gib),
		FileBytes:   positiveOrDefault(l.FileBytes, gib/2),
		Files:       positiveOrDefault(l.Files, 200_000),
		NameBytes:   positiveOrDefault(l.NameBytes, 32<<20),
		PathBytes:   positiveOrDefault(l.PathBytes, 1024),
		Depth:       positiveOrDefault(l.Depth, 64),
	}
}

// positiveOrDefault returns value if it is positive, and fallback otherwise.
func positiveOrDefault[T int | int64 | float64 | time.Duration](value, fallback T) T {
	if value > 0 {
		return value
	}
	return fallback
}
