package solve

import "errors"

// maxMinimizeWork limits the work to minimize a contradiction: about 200 ms.
const maxMinimizeWork = 20_000_000

// minimizeReasons returns some of the reasons that contradict each other, without any one of
// which a choice would be possible. It tries to do without the last ones first.
func minimizeReasons(p *Problem, reasons []Reason) []Reason {
	work := 0
	for i := len(reasons) - 1; i >= 0 && work < maxMinimizeWork; i-- {
		enabled := make(map[Reason]bool, len(reasons))
		for j, r := range reasons {
			enabled[r] = j != i
		}

		s := newSearch(p, maxMinimizeWork-work, func(r Reason) bool { return enabled[r] })
		err := s.run()
		work += s.totalWork()
		var contradiction *Contradiction
		if errors.As(err, &contradiction) {
			// The reasons behind i are all among the remaining ones, because they are necessary.
			i = len(contradiction.Reasons) - (len(reasons) - 1 - i)
			reasons = contradiction.Reasons
		}
	}

	return reasons
}
