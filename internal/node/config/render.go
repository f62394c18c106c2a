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

// RenderedPrefix is how the names of rendered configurations begin.
const RenderedPrefix = "rendered-"

// KernelDefault is the kernel of configurations that name none.
const KernelDefault = "default"

// Base is what the release brings into every rendered configuration.
type Base struct {
	// OSImage is the image of the operating system. Empty means that the nodes keep theirs.
	OSImage string
	// ExtensionsImage is the image that extensions are taken from.
	ExtensionsImage string
}

// Rendered is the configuration of a pool, complete.
type Rendered struct {
	// Name is stable: equal content has the equal name.
	Name string
	Spec mcfgv1.MachineConfigSpec
	// OSImageOverridden: a MachineConfig names another image than the release does.
	OSImageOverridden bool
}

// Render merges MachineConfigs into the configuration of a pool. They are taken in the order of
// their names, those of role worker before all others, so that what a pool says of its own wins.
// The order in which they are given has no meaning.
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

	// Two that are right by themselves may contradict each other.
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

// Ordered returns MachineConfigs in the order in which they are merged, later ones winning.
func Ordered(configs []*mcfgv1.MachineConfig) []*mcfgv1.MachineConfig {
	isOwn := func(c *mcfgv1.MachineConfig) int {
		if c.Labels[mcfgv1.LabelRole] == mcfgv1.PoolWorker {
			return 0
		}
		return 1
	}

	return slices.SortedFunc(slices.Values(configs), func(a, b *mcfgv1.MachineConfig) int {
		return cmp.Or(cmp.Compare(isOwn(a), isOwn(b)), cmp.Compare(a.Name, b.Name))
	})
}

// Name returns the name of a rendered configuration: rendered-, the pool, and a checksum of the
// content. It is an error when the Ignition configuration cannot be read.
func Name(pool string, spec *mcfgv1.MachineConfigSpec) (string, error) {
	ignition, err := Parse(spec.Config.Raw)
	if err != nil {
		return "", err
	}

	canonical := *spec
	// The API server writes the fields of objects in another order than they were given.
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

// CheckName reports whether a rendered configuration has the content that its name stands for.
func CheckName(c *mcfgv1.MachineConfig) error {
	pool, ok := poolOfRendered(c.Name)
	if !ok {
		return fmt.Errorf("MachineConfig %q is no rendered one: its name is not %s<pool>-<checksum>", c.Name, RenderedPrefix)
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

func poolOfRendered(name string) (string, bool) {
	rest, ok := strings.CutPrefix(name, RenderedPrefix)
	i := strings.LastIndex(rest, "-")
	if !ok || i <= 0 {
		return "", false
	}
	return rest[:i], true
}

var kernelTypes = []string{"", KernelDefault, "realtime", "64k-pages"}

func checkSpec(s *mcfgv1.MachineConfigSpec) error {
	if !slices.Contains(kernelTypes, s.KernelType) {
		return fmt.Errorf("kernelType %q is unknown: it is one of default, realtime and 64k-pages", excerpt.Start(s.KernelType, maxQuotedBytes))
	}

	for list, items := range map[string][]string{"kernelArguments": s.KernelArguments, "extensions": s.Extensions} {
		if len(items) > maxItems {
			return fmt.Errorf("%s has %d items; %d are allowed", list, len(items), maxItems)
		}
		for _, item := range items {
			// They become arguments of commands.
			if item == "" || strings.HasPrefix(item, "-") || strings.ContainsFunc(item, func(r rune) bool { return r < ' ' || r == 0x7f }) {
				return fmt.Errorf("%s has %q, which is empty, begins with - or has characters that cannot be printed", list, excerpt.Start(item, maxQuotedBytes))
			}
		}
	}

	if url := s.OSImageURL; strings.HasPrefix(url, "-") || strings.ContainsAny(url, " \t\r\n\x00") {
		return fmt.Errorf("osImageURL %q is no reference of an image", excerpt.Start(url, maxQuotedBytes))
	}
	return nil
}
