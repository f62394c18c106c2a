package overview

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/mainstay-dev/mainstay/internal/action/inventory"
)

// newItemNotice returns the notice of an item that needs a person.
func newItemNotice(item *inventory.Item) Notice {
	if item.NeedsApproval != "" {
		return itemNotice("Approval", item, fmt.Sprintf("InstallPlan %s waits for approval.", item.NeedsApproval), "Look at what it changes, and approve it.")
	}
	text := item.State + "."
	if item.Message != "" {
		text = item.State + ": " + item.Message
	}
	return itemNotice("Failed", item, text, "")
}

func itemNotice(topic string, item *inventory.Item, text, advice string) Notice {
	return Notice{Topic: topic, Kind: item.Kind, Namespace: item.Namespace, Name: item.Name, Text: text, Advice: advice}
}

// topics are the topics of notices, the most urgent first.
var topics = []string{"Version", "Failed", "Operator", "Nodes", "Catalog", "Approval", "Blocked", "Deprecated"}

// sortNotices sorts the notices by topic, namespace and name.
func (o *Overview) sortNotices() {
	for _, notices := range [][]Notice{o.Attention, o.Updates} {
		slices.SortStableFunc(notices, func(x, y Notice) int {
			return cmp.Or(cmp.Compare(slices.Index(topics, x.Topic), slices.Index(topics, y.Topic)), cmp.Compare(x.Namespace, y.Namespace), cmp.Compare(x.Name, y.Name))
		})
	}
}
