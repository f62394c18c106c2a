package state

import (
	"errors"
	"net/netip"
	"slices"
	"testing"
)

// fakeMachine returns a Machine on which some ports are taken and some networks are routed.
func fakeMachine(takenPorts []int, networks ...string) Machine {
	return Machine{
		Listen: func(port int) (int, error) {
			if slices.Contains(takenPorts, port) {
				return 0, errors.New("address already in use")
			}
			return port, nil
		},
		Networks: func() ([]netip.Prefix, error) {
			var prefixes []netip.Prefix
			for _, network := range networks {
				prefixes = append(prefixes, netip.MustParsePrefix(network))
			}
			return prefixes, nil
		},
	}
}

func newTestDir(t *testing.T) Dir {
	t.Helper()
	dir := Dir(t.TempDir())
	if err := dir.Create(); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestChooseAddressesKeepsThem(t *testing.T) {
	dir := newTestDir(t)
	first, notes, err := ChooseAddresses(dir, 0, fakeMachine(nil))
	if err != nil || len(notes) != 0 {
		t.Fatalf("first start: got notes %q, error %v; want none", notes, err)
	}

	ports := []int{first.EtcdPort, first.APIServerPort, first.ControllerManagerPort, first.SchedulerPort, first.RegistryPort}
	for i, port := range ports {
		if port < firstPort || port > lastPort || slices.Contains(ports[:i], port) {
			t.Errorf("got ports %v, want %d in the range and unique", ports, port)
		}
	}

	second, notes, err := ChooseAddresses(dir, 0, fakeMachine(nil))
	if err != nil || second != first || len(notes) != 0 {
		t.Errorf("second start: got %+v, notes %q, error %v; want %+v", second, notes, err, first)
	}
}

func TestChooseAddressesWhenPortsAreTaken(t *testing.T) {
	dir := newTestDir(t)
	first, _, err := ChooseAddresses(dir, 0, fakeMachine(nil))
	if err != nil {
		t.Fatal(err)
	}

	moved, notes, err := ChooseAddresses(dir, 0, fakeMachine([]int{first.EtcdPort}))
	if err != nil || len(notes) != 1 || moved.EtcdPort == first.EtcdPort || moved.RegistryPort != first.RegistryPort {
		t.Errorf("one port taken: got %+v, notes %q, error %v; want only etcd's port of %+v to move", moved, notes, err, first)
	}

	_, _, err = ChooseAddresses(dir, 5001, fakeMachine([]int{5001}))
	var taken *PortTakenError
	if !errors.As(err, &taken) || taken.Port != 5001 {
		t.Errorf("got %v for a requested port that is taken, want a PortTakenError", err)
	}

	given, _, err := ChooseAddresses(dir, 5001, fakeMachine(nil))
	if err != nil || given.RegistryPort != 5001 {
		t.Errorf("got registry port %d, error %v; want 5001", given.RegistryPort, err)
	}

	kept, _, err := ChooseAddresses(dir, 0, fakeMachine(nil))
	if err != nil || kept.RegistryPort != 5001 {
		t.Errorf("got registry port %d after a start with 5001, error %v; want 5001", kept.RegistryPort, err)
	}
}

func TestChooseBlock(t *testing.T) {
	free, err := fakeMachine(nil).chooseBlock("/some/where")
	if err != nil {
		t.Fatal(err)
	}
	if again, _ := fakeMachine(nil, "0.0.0.0/0").chooseBlock("/some/where"); again != free {
		t.Errorf("with a default route: got %s, want %s", again, free)
	}
	if next, _ := fakeMachine(nil, free.String()).chooseBlock("/some/where"); next == free {
		t.Errorf("got %s, want a network that is not routed", free)
	}
	if inside, _ := fakeMachine(nil, free.Addr().String()+"/30").chooseBlock("/some/where"); inside == free {
		t.Errorf("got %s, want a network without a routed part", free)
	}
	if _, err := fakeMachine(nil, "10.0.0.0/8").chooseBlock("/some/where"); err == nil {
		t.Error("with a route for all of 10/8: got no error, want one")
	}
}

func TestNetworksOfABlock(t *testing.T) {
	addresses := Addresses{Block: netip.MustParsePrefix("10.201.0.0/16")}
	for _, test := range []struct{ name, got, want string }{
		{"pods", addresses.Pods().String(), "10.201.0.0/17"},
		{"Services", addresses.Services().String(), "10.201.128.0/18"},
		{"name server", addresses.DNS().String(), "10.201.128.10"},
		{"gateway", addresses.Gateway().String(), "10.201.192.1"},
		{"node", addresses.NodeIP().String(), "10.201.192.2"},
		{"link", addresses.Link().String(), "10.201.192.0/30"},
	} {
		if test.got != test.want {
			t.Errorf("%s: got %s, want %s", test.name, test.got, test.want)
		}
	}
}
