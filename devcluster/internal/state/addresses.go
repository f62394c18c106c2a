package state

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"path/filepath"
)

// Addresses are chosen at the first start and kept, so that later starts use the same ones: image references contain
// the port of the registry, kubeconfig files that of the API server, and Services have addresses of the network.
type Addresses struct {
	EtcdPort              int `json:"etcdPort"`
	APIServerPort         int `json:"apiServerPort"`
	ControllerManagerPort int `json:"controllerManagerPort"`
	SchedulerPort         int `json:"schedulerPort"`
	RegistryPort          int `json:"registryPort"`

	// Block is the /16 network of the cluster's pods, Services and node.
	Block netip.Prefix `json:"block"`
}

// PortTakenError reports that a requested port is not free.
type PortTakenError struct {
	Purpose string
	Port    int
	Err     error
}

func (e *PortTakenError) Error() string {
	return fmt.Sprintf("port %d for the %s is not free: %v; choose another port, or omit it", e.Port, e.Purpose, e.Err)
}

func (e *PortTakenError) Unwrap() error { return e.Err }

// Machine queries the ports and networks of the machine. The zero value queries the real machine.
type Machine struct {
	// Listen checks that a TCP port of 127.0.0.1 is free and returns it. Port 0 means any free port.
	Listen func(port int) (int, error)
	// Networks returns the networks that the machine already has routes to.
	Networks func() ([]netip.Prefix, error)
}

// ChooseAddresses returns the addresses of an earlier run if they are still free, chooses free ones otherwise, and
// stores the result. If registryPort is 0, the registry keeps its earlier port or gets any free one. A *PortTakenError
// reports that the requested port is taken. notes are messages for the user about addresses that changed.
func ChooseAddresses(d Dir, registryPort int, machine Machine) (chosen Addresses, notes []string, err error) {
	path := filepath.Join(string(d), addressesFile)
	if err := readJSONFile(path, &chosen); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return Addresses{}, nil, fmt.Errorf("read the addresses of the earlier run: %w; `devcluster reset` deletes them with all state", err)
	}

	if registryPort != 0 && registryPort != chosen.RegistryPort {
		if _, err := machine.probePort(registryPort); err != nil {
			return Addresses{}, nil, &PortTakenError{Purpose: "registry", Port: registryPort, Err: err}
		}
		chosen.RegistryPort = registryPort
	}

	taken := map[int]bool{}
	for _, port := range []struct {
		purpose string
		value   *int
	}{
		{"registry", &chosen.RegistryPort}, // first, because image references contain its port
		{"API server", &chosen.APIServerPort},
		{"etcd", &chosen.EtcdPort},
		{"controller manager", &chosen.ControllerManagerPort},
		{"scheduler", &chosen.SchedulerPort},
	} {
		note, err := machine.choosePort(port.purpose, port.value, taken)
		if err != nil {
			return Addresses{}, nil, err
		}
		if note != "" {
			notes = append(notes, note)
		}
	}

	if !chosen.Block.IsValid() {
		if chosen.Block, err = machine.chooseBlock(string(d)); err != nil {
			return Addresses{}, nil, err
		}
	}

	content, err := json.MarshalIndent(chosen, "", "  ")
	if err != nil {
		return Addresses{}, nil, err
	}
	if err := writeFileAtomically(path, append(content, '\n'), 0o600); err != nil {
		return Addresses{}, nil, fmt.Errorf("store the addresses: %w", err)
	}

	return chosen, notes, nil
}

// choosePort keeps *port if it is free and sets it to a free port otherwise. note informs the user about the change.
func (m Machine) choosePort(purpose string, port *int, taken map[int]bool) (note string, err error) {
	earlier := *port
	if earlier != 0 && !taken[earlier] {
		if _, err := m.probePort(earlier); err == nil {
			taken[earlier] = true
			return "", nil
		}
	}

	if *port, err = m.findFreePort(taken); err != nil {
		return "", fmt.Errorf("no free port for the %s: %w", purpose, err)
	}

	taken[*port] = true
	if earlier != 0 {
		note = fmt.Sprintf("port %d of the %s is now used by another program; the new port is %d", earlier, purpose, *port)
	}

	return note, nil
}

// The range that ports are chosen from is above the ports of well-known services. It is below the ports that the kernel
// assigns to outgoing connections (from 32768 on Linux), which could occupy a port of ours when the cluster starts again.
const (
	firstPort       = 20000
	lastPort        = 32767
	maxPortAttempts = 100
)

// findFreePort returns a free port of the range, or any free port if the range is nearly full.
func (m Machine) findFreePort(taken map[int]bool) (int, error) {
	for range maxPortAttempts {
		port := firstPort + rand.IntN(lastPort-firstPort+1) //nolint:gosec // Not a secret.
		if taken[port] {
			continue
		}
		if _, err := m.probePort(port); err == nil {
			return port, nil
		}
	}

	for {
		if port, err := m.probePort(0); err != nil || !taken[port] {
			return port, err
		}
	}
}

func (m Machine) probePort(port int) (int, error) {
	if m.Listen != nil {
		return m.Listen(port)
	}

	listener, err := net.ListenTCP("tcp4", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: port})
	if err != nil {
		return 0, err
	}
	defer listener.Close() //nolint:errcheck // Nothing was sent.
	return listener.Addr().(*net.TCPAddr).Port, nil
}

// Blocks are 10.201.0.0/16 to 10.254.0.0/16. Home and company networks, Docker and other clusters (usually 10.96 and
// 10.244) rarely use this upper part of 10.0.0.0/8.
const (
	firstBlock = 201
	blockCount = 54
)

// chooseBlock returns a block that overlaps no network of the machine. The first candidate depends on the data
// directory, so that two clusters that do not run at the same time now rarely choose the same block.
func (m Machine) chooseBlock(dir string) (netip.Prefix, error) {
	networks := m.Networks
	if networks == nil {
		networks = routedNetworks
	}

	routed, err := networks()
	if err != nil {
		return netip.Prefix{}, fmt.Errorf("list the machine's networks: %w", err)
	}

	hash := fnv.New32a()
	hash.Write([]byte(dir))
candidates:
	for i := range uint32(blockCount) {
		second := firstBlock + byte((hash.Sum32()+i)%blockCount)
		block := netip.PrefixFrom(netip.AddrFrom4([4]byte{10, second, 0, 0}), 16)
		for _, network := range routed {
			if network.Bits() > 0 && network.Overlaps(block) { // /0 is the default route.
				continue candidates
			}
		}
		return block, nil
	}

	return netip.Prefix{}, errors.New("every network from 10.201.0.0/16 to 10.254.0.0/16 is in use on this machine")
}

// readJSONFile decodes a JSON file. If the file does not exist, the error matches fs.ErrNotExist.
func readJSONFile(path string, into any) error {
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(content, into); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}
