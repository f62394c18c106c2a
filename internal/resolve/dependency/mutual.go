package dependency

import "slices"

// MutuallyMet reports whether the wanted bundle need not wait for what it lacks, since it
// would come with others that for their part cannot come before it: a circle. The others
// are those that wait for their requirements too, or are on their way.
func (p *Problem) MutuallyMet(others []*Bundle) bool {
	together := p.together(append(slices.Clone(others), p.Wanted))
	if !slices.Contains(together, p.Wanted) {
		return false
	}

	without := p.together(others)
	with := *p
	with.Installed = slices.Clone(p.Installed)
	for _, b := range together {
		if b != p.Wanted && !slices.Contains(without, b) {
			with.Installed = append(with.Installed, b)
		}
	}

	return with.allMet(p.Wanted)
}

// together returns those of some bundles that could all be there, each with what it needs,
// beside what is installed.
func (p *Problem) together(bundles []*Bundle) []*Bundle {
	left := slices.Clone(bundles)
	for {
		with := *p
		with.Installed = append(slices.Clone(p.Installed), left...)
		kept := slices.DeleteFunc(slices.Clone(left), func(b *Bundle) bool { return !with.allMet(b) })
		if len(kept) == len(left) {
			return left
		}

		left = kept
	}
}

// allMet reports whether all requirements of a bundle are met by what is installed.
func (p *Problem) allMet(b *Bundle) bool {
	requirements, err := b.Requires()
	if err != nil {
		return false
	}

	for i := range requirements {
		if !p.isMet(b, &requirements[i]) {
			return false
		}
	}
	return true
}
