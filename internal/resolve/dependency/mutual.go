package dependency

import "slices"

// MutuallyMet reports whether the wanted bundle and some of the others form a dependency
// cycle, so that the wanted bundle must not wait for them. The others are bundles that
// wait for their requirements too, or that are being installed.
func (p *Problem) MutuallyMet(others []*Bundle) bool {
	together := p.findConsistent(append(slices.Clone(others), p.Wanted))
	if !slices.Contains(together, p.Wanted) {
		return false
	}

	without := p.findConsistent(others)
	with := *p
	with.Installed = slices.Clone(p.Installed)
	for _, b := range together {
		if b != p.Wanted && !slices.Contains(without, b) {
			with.Installed = append(with.Installed, b)
		}
	}

	return with.allRequirementsMet(p.Wanted)
}

// findConsistent returns the largest set of the bundles whose requirements are all met by
// this set and the installed bundles.
func (p *Problem) findConsistent(bundles []*Bundle) []*Bundle {
	left := slices.Clone(bundles)
	for {
		with := *p
		with.Installed = append(slices.Clone(p.Installed), left...)
		kept := slices.DeleteFunc(slices.Clone(left), func(b *Bundle) bool { return !with.allRequirementsMet(b) })
		if len(kept) == len(left) {
			return left
		}

		left = kept
	}
}

// allRequirementsMet reports whether the installed bundles meet all requirements of a bundle.
func (p *Problem) allRequirementsMet(b *Bundle) bool {
	requirements, err := b.Requires()
	if err != nil {
		return false
	}

	for i := range requirements {
		if !p.isRequirementMet(b, &requirements[i]) {
			return false
		}
	}
	return true
}
