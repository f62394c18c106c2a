package install

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
)

const (
	// maxPlanBytes is the maximum size of a plan in both its forms: half of what a ConfigMap may
	// have.
	maxPlanBytes = 512 << 10
	// maxTextBytes and maxEntries limit each text, and each list except that of the objects. A
	// plan that is too large uses minTextBytes and minEntries.
	maxTextBytes, maxEntries = 32 << 10, 100
	minTextBytes, minEntries = 1 << 10, 20
)

// encodeWithinLimit returns the data of the ConfigMap, with as much of the diffs as maxPlanBytes
// allows. The diffs of RBAC objects and workloads are left out only if a plan without any other
// diff is still too large.
func (p *plan) encodeWithinLimit() (map[string]string, error) {
	room, keep := maxPlanBytes/3, true
	for {
		data, size, err := p.truncateTo(room, keep).encodeJSONAndText()
		if err != nil {
			return nil, fmt.Errorf("writing the plan of %q: %w", p.Extension, err)
		}
		switch {
		case size <= maxPlanBytes, room == 0 && !keep:
			return data, nil
		case room == 0:
			room, keep = maxPlanBytes/3, false
		default:
			room /= 2
		}
	}
}

// encodeJSONAndText returns the plan as JSON and as text, and their size together.
func (p *plan) encodeJSONAndText() (data map[string]string, size int, err error) {
	var encoded bytes.Buffer
	encoder := json.NewEncoder(&encoded)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(p); err != nil {
		return nil, 0, err
	}

	text := p.renderText()
	return map[string]string{olmv1.PlanJSON: encoded.String(), olmv1.PlanText: text}, encoded.Len() + len(text), nil
}

// truncateTo returns a copy of the plan with at most room bytes of diffs, and with lists and texts
// of limited length. If room is zero, the limits are the smallest ones. If keep is set, the diffs
// of RBAC and workloads are kept whole in addition.
func (p *plan) truncateTo(room int, keep bool) *plan {
	text, entries := maxTextBytes, maxEntries
	if room == 0 {
		text, entries = minTextBytes, minEntries
	}

	short := *p
	short.Why, short.Path, short.Created = limitEntries(p.Why, entries), limitEntries(p.Path, entries), limitEntries(p.Created, entries)
	short.Missing, short.Images = slices.Clone(limitEntries(p.Missing, entries)), slices.Clone(limitEntries(p.Images, entries))
	for _, list := range [][]string{short.Missing, short.Images} {
		for i := range list {
			list[i] = truncateText(list[i], text)
		}
	}

	short.Problems = slices.Clone(limitEntries(p.Problems, entries))
	for i := range short.Problems {
		short.Problems[i].Message = truncateText(short.Problems[i].Message, text)
	}

	short.Considered = slices.Clone(limitEntries(p.Considered, entries))
	for i := range short.Considered {
		short.Considered[i].Problem = truncateText(short.Considered[i].Problem, text)
	}

	if p.Objects == nil {
		return &short
	}

	objects := *p.Objects
	objects.Changes = slices.Clone(p.Objects.Changes)
	if room == 0 && !keep {
		objects.Changes = limitEntries(objects.Changes, maxEntries)
		short.Contents = nil
	}

	whole := 0
	for i := range objects.Changes {
		change := &objects.Changes[i]
		if keep && isNeverTruncated(*change) {
			whole++
			continue
		}

		kept := truncateText(change.Diff, room)
		if kept == change.Diff {
			whole++
		}

		room -= min(room, len(kept))
		change.Diff = kept
	}

	if left := len(p.Objects.Changes) - whole; left > 0 {
		short.Note = fmt.Sprintf("The diffs of %d objects are cut or left out, since a plan has at most %d KiB.", left, maxPlanBytes>>10)
	}

	short.Objects = &objects
	return &short
}

func limitEntries[T any](list []T, most int) []T { return list[:min(len(list), most)] }

// truncateText cuts a text that is too long at the end of a line, or of a character, and states
// how much is left out.
func truncateText(text string, most int) string {
	if len(text) <= most {
		return text
	}

	end := strings.LastIndexByte(text[:most], '\n') + 1
	if end == 0 {
		end = most
		for end > 0 && !utf8.RuneStart(text[end]) {
			end--
		}
	}

	return fmt.Sprintf("%s… %d bytes are left out\n", text[:end], len(text)-end)
}
