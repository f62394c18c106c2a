package config

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"

	mcfgv1 "github.com/mainstay-dev/mainstay/api/machineconfiguration/v1"
	"github.com/mainstay-dev/mainstay/internal/excerpt"
)

// RenderedPrefix is the prefix of the names of rendered configurations.
const RenderedPrefix = "rendered-"

// KernelDefault is the kernel of configurations without a kernel type.
const KernelDefault = "default"

// Base contains the values of the release for every rendered configuration.
type Base struct {
	// OSImage is the image of the operating system. If empty, the image of the nodes does not change.
	OSImage string
	// ExtensionsImage is the image with the extensions of the operating system.
	ExtensionsImage string
}

// Rendered is the complete configuration of a pool.
type Rendered struct {
	// Name is determined by the content: equal content has the same name.
	Name string
	Spec mcfgv1.MachineConfigSpec
	// OSImageOverridden is true if a MachineConfig has another image than the release.
	OSImageOverridden bool
}

// Render merges MachineConfigs into the configuration of a pool. It merges them in the order of Ordered; the order of configs has no
// meaning.
func Render(pool string, base Base, configs []*mcfgv1.MachineConfig) (*Rendered, error) {
	if len(configs) == 0 {
		return nil, errors.New("no MachineConfig is selected: set spec.machineConfigSelector so that it matches some")
	}

	merged := &Ignition{Ignition: Header{Version: lastVersion}}
	r := &Rendered{Spec: mcfgv1.MachineConfigSpec{
		OSImageURL: base.OSImage, BaseOSExtensionsContainerImage: base.ExtensionsImage, KernelType: KernelDefault,
	}}
	for _, c := range Ordered(configs) {
		ignition, err := Parse(c.Spec.Config.Raw)
		if err == nil {
			err = checkSpec(&c.Spec)
		}
		if err != nil {
			return nil, fmt.Errorf("MachineConfig %q: %w", c.Name, err)
		}

		merged = mergeConfigs(merged, ignition)
		if url := c.Spec.OSImageURL; url != "" {
			r.Spec.OSImageURL, r.OSImageOverridden = url, url != base.OSImage
		}

		r.Spec.BaseOSExtensionsContainerImage = cmp.Or(c.Spec.BaseOSExtensionsContainerImage, r.Spec.BaseOSExtensionsContainerImage)
		r.Spec.KernelType = cmp.Or(c.Spec.KernelType, r.Spec.KernelType)
		r.Spec.KernelArguments = append(r.Spec.KernelArguments, c.Spec.KernelArguments...)
		for _, extension := range c.Spec.Extensions {
			if !slices.Contains(r.Spec.Extensions, extension) {
				r.Spec.Extensions = append(r.Spec.Extensions, extension)
			}
		}

		r.Spec.FIPS = r.Spec.FIPS || c.Spec.FIPS
	}

	// Valid MachineConfigs can contradict each other.
	if err := merged.validate(); err != nil {
		return nil, fmt.Errorf("the MachineConfigs together: %w", err)
	}

	var err error
	if r.Spec.Config.Raw, err = merged.MarshalCanonical(); err != nil {
		return nil, err
	}
	if n := len(r.Spec.Config.Raw); n > MaxBytes {
		return nil, fmt.Errorf("the MachineConfigs together have %d bytes; %d are allowed", n, MaxBytes)
	}

	r.Name, err = Name(pool, &r.Spec)
	return r, err
}

// Ordered returns MachineConfigs in the order in which they are merged: sorted by name, those with the role worker first. Later ones
// take precedence, so that those of a custom pool override those of all workers.
func Ordered(configs []*mcfgv1.MachineConfig) []*mcfgv1.MachineConfig {
	rank := func(c *mcfgv1.MachineConfig) int {
		if c.Labels[mcfgv1.LabelRole] == mcfgv1.PoolWorker {
			return 0
		}
		return 1
	}

	return slices.SortedFunc(slices.Values(configs), func(a, b *mcfgv1.MachineConfig) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a.Name, b.Name))
	})
}

// Name returns the name of a rendered configuration: rendered-, the pool, and a checksum of the content. It returns an error if the
// Ignition configuration is invalid.
func Name(pool string, spec *mcfgv1.MachineConfigSpec) (string, error) {
	ignition, err := Parse(spec.Config.Raw)
	if err != nil {
		return "", err
	}

	canonical := *spec
	// The API server changes the order of fields.
	raw, err := ignition.MarshalCanonical()
	if err != nil {
		return "", err
	}

	canonical.Config = runtime.RawExtension{Raw: raw}
	data, err := json.Marshal(canonical)
	if err != nil {
		return "", fmt.Errorf("writing the configuration: %w", err)
	}

	sum := sha256.Sum256(data)
	return RenderedPrefix + pool + "-" + hex.EncodeToString(sum[:16]), nil
}

// CheckName returns an error if the name of a rendered configuration does not match its content.
func CheckName(c *mcfgv1.MachineConfig) error {
	pool, ok := poolOfRendered(c.Name)
	if !ok {
		return fmt.Errorf("MachineConfig %q is not a rendered configuration: its name is not %s<pool>-<checksum>", c.Name, RenderedPrefix)
	}

	name, err := Name(pool, &c.Spec)
	if err != nil {
		return fmt.Errorf("MachineConfig %q: %w", c.Name, err)
	}
	if name != c.Name {
		return fmt.Errorf("MachineConfig %q has been changed since it was rendered: its content is that of %q", c.Name, name)
	}

	return nil
}

// poolOfRendered returns the pool in the name of a rendered configuration.
func poolOfRendered(name string) (string, bool) {
	rest, ok := strings.CutPrefix(name, RenderedPrefix)
	i := strings.LastIndex(rest, "-")
	if !ok || i <= 0 {
		return "", false
	}
	return rest[:i], true
}

var kernelTypes = []string{"", KernelDefault, "realtime", "64k-pages"}

// checkSpec validates the fields that are not part of the Ignition configuration.
func checkSpec(s *mcfgv1.MachineConfigSpec) error {
	if !slices.Contains(kernelTypes, s.KernelType) {
		return fmt.Errorf("kernelType %q is unknown: it is one of default, realtime and 64k-pages", excerpt.Start(s.KernelType, maxQuotedBytes))
	}

	for list, items := range map[string][]string{"kernelArguments": s.KernelArguments, "extensions": s.Extensions} {
		if len(items) > maxItems {
			return fmt.Errorf("%s has %d items; %d are allowed", list, len(items), maxItems)
		}
		for _, item := range items {
			// Items become arguments of commands.
			if item == "" || strings.HasPrefix(item, "-") || strings.ContainsFunc(item, func(r rune) bool { return r < ' ' || r == 0x7f }) {
				return fmt.Errorf("%s has %q, which is empty, begins with - or has characters that cannot be printed", list, excerpt.Start(item, maxQuotedBytes))
			}
		}
	}

	if url := s.OSImageURL; strings.HasPrefix(url, "-") || strings.ContainsAny(url, " \t\r\n\x00") {
		return fmt.Errorf("osImageURL %q is not an image reference", excerpt.Start(url, maxQuotedBytes))
	}
	return nil
}
