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

// Addresses are chosen at the first start and kept, so that a later one has the same: image references hold the
// registry's port, kubeconfig files hold the API server's, Services hold addresses of the network.
type Addresses struct {
	EtcdPort              int `json:"etcdPort"`
	APIServerPort         int `json:"apiServerPort"`
	ControllerManagerPort int `json:"controllerManagerPort"`
	SchedulerPort         int `json:"schedulerPort"`
	RegistryPort          int `json:"registryPort"`

	// Block is the /16 that the cluster's pods, Services and node take their addresses from.
	Block netip.Prefix `json:"block"`
}

// PortTakenError says that a port that was asked for is not free.
type PortTakenError struct {
	Purpose string
	Port    int
	Err     error
}

func (e *PortTakenError) Error() string {
	return fmt.Sprintf("port %d for the %s is not free: %v; choose another, or leave it out", e.Port, e.Purpose, e.Err)
}

func (e *PortTakenError) Unwrap() error { return e.Err }

// Machine is what the choice of addresses asks the machine. The zero value asks the real one.
type Machine struct {
	// Listen reports whether a TCP port of 127.0.0.1 is free; port 0 asks for any. It returns the port.
	Listen func(port int) (int, error)
	// Networks are the networks that the machine already has routes to.
	Networks func() ([]netip.Prefix, error)
}

// ChooseAddresses returns the addresses of an earlier run where they are still free, and free ones otherwise, and stores
// them. registryPort is 0 for the earlier or any free port; a *PortTakenError says that the one asked for is taken.
// Notes are sentences for the person about addresses that changed.
func (d Dir) ChooseAddresses(registryPort int, machine Machine) (chosen Addresses, notes []string, err error) {
	path := filepath.Join(string(d), addressesFile)
	if err := readJSON(path, &chosen); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return Addresses{}, nil, fmt.Errorf("read the addresses of the earlier run: %w; `devcluster reset` starts anew", err)
	}

	if registryPort != 0 && registryPort != chosen.RegistryPort {
		if _, err := machine.listen(registryPort); err != nil {
			return Addresses{}, nil, &PortTakenError{Purpose: "registry", Port: registryPort, Err: err}
		}
		chosen.RegistryPort = registryPort
	}

	taken := map[int]bool{}
	for _, port := range []struct {
		purpose string
		value   *int
	}{
		{"registry", &chosen.RegistryPort}, // first: its port is the one that image references hold
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
	if err := writeFile(path, append(content, '\n'), 0o600); err != nil {
		return Addresses{}, nil, fmt.Errorf("store the addresses: %w", err)
	}

	return chosen, notes, nil
}

// choosePort keeps *port when it is free and sets it to a free one otherwise.
func (m Machine) choosePort(purpose string, port *int, taken map[int]bool) (note string, err error) {
	earlier := *port
	if earlier != 0 && !taken[earlier] {
		if _, err := m.listen(earlier); err == nil {
			taken[earlier] = true
			return "", nil
		}
	}

	if *port, err = m.freePort(taken); err != nil {
		return "", fmt.Errorf("no free port for the %s: %w", purpose, err)
	}

	taken[*port] = true
	if earlier != 0 {
		note = fmt.Sprintf("port %d of the %s is taken by another program now; it moves to %d", earlier, purpose, *port)
	}

	return note, nil
}

// The range that ports are chosen from: above those of well-known services, and below those that the kernel gives to
// outgoing connections (32768 on Linux), any of which could hold one of ours when the cluster starts again.
const (
	firstPort = 20000
	lastPort  = 32767
	portTries = 100
)

// freePort returns a free port of the range, or any free one when the range is as good as full.
func (m Machine) freePort(taken map[int]bool) (int, error) {
	for range portTries {
		port := firstPort + rand.IntN(lastPort-firstPort+1) //nolint:gosec // Not a secret.
		if taken[port] {
			continue
		}
		if _, err := m.listen(port); err == nil {
			return port, nil
		}
	}

	for {
		if port, err := m.listen(0); err != nil || !taken[port] {
			return port, err
		}
	}
}

func (m Machine) listen(port int) (int, error) {
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

// Blocks are 10.201.0.0/16 to 10.254.0.0/16: high in 10/8, where home and company networks, Docker and other clusters
// (10.96 and 10.244 by habit) are rare.
const (
	firstBlock = 201
	blocks     = 54
)

// chooseBlock returns a block that overlaps no network of the machine. It begins to look at one that depends on the data
// directory, so that clusters that are not running now are unlikely to want the same when they run together.
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
	for i := range uint32(blocks) {
		second := firstBlock + byte((hash.Sum32()+i)%blocks)
		block := netip.PrefixFrom(netip.AddrFrom4([4]byte{10, second, 0, 0}), 16)
		for _, network := range routed {
			if network.Bits() > 0 && network.Overlaps(block) { // /0 is the default route
				continue candidates
			}
		}
		return block, nil
	}

	return netip.Prefix{}, errors.New("every network from 10.201.0.0/16 to 10.254.0.0/16 is in use on this machine")
}

// readJSON returns an error that matches fs.ErrNotExist when there is no such file.
func readJSON(path string, into any) error {
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(content, into); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}
