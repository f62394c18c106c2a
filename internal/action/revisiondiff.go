package action

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	"github.com/mainstay-dev/mainstay/internal/action/report"
	"github.com/mainstay-dev/mainstay/internal/apply"
	"github.com/mainstay-dev/mainstay/internal/objectdiff"
)

// ExtensionDiff compares the objects of two revisions of an extension.
type ExtensionDiff struct {
	Client client.Client
	Name   string
	// From and To are the numbers of the revisions. Zero is the revision before To, and
	// the newest one.
	From, To int64
}

// RevisionDiff is what two revisions differ in.
type RevisionDiff struct {
	From RevisionRecord `json:"from"`
	To   RevisionRecord `json:"to"`
	objectdiff.Result
}

// Run compares the revisions, as they are written down: nothing of the objects on the
// cluster is read.
func (a *ExtensionDiff) Run(ctx context.Context) (*RevisionDiff, error) {
	_, sets, err := readRevisions(ctx, a.Client, a.Name)
	if err != nil {
		return nil, err
	}

	from, to, err := pair(records(sets), a.Name, a.From, a.To)
	if err != nil {
		return nil, err
	}

	before, err := a.objects(ctx, &sets[from])
	if err != nil {
		return nil, err
	}

	after, err := a.objects(ctx, &sets[to])
	if err != nil {
		return nil, err
	}

	result, err := objectdiff.Compare(before, after)
	if err != nil {
		return nil, &report.Error{Object: extensionName(a.Name), Err: err}
	}

	return &RevisionDiff{From: recordOf(&sets[from]), To: recordOf(&sets[to]), Result: *result}, nil
}

// pair chooses the two revisions that are compared.
func pair(history []RevisionRecord, name string, fromNumber, toNumber int64) (from, to int, err error) {
	if len(history) == 0 {
		return 0, 0, &report.Error{
			Object: extensionName(name), Err: errors.New("it has no revision yet"),
			Advice: fmt.Sprintf("'mainstay extension explain %s' tells why", name),
		}
	}

	to = len(history) - 1
	if toNumber != 0 {
		if to, err = find(history, name, toNumber); err != nil {
			return 0, 0, err
		}
	}

	from = to - 1
	if fromNumber != 0 {
		if from, err = find(history, name, fromNumber); err != nil {
			return 0, 0, err
		}
	}

	if from < 0 {
		return 0, 0, &report.Error{
			Object: extensionName(name), Err: fmt.Errorf("there is no revision before %d to compare it with", history[to].Revision),
			Advice: "name another with --from, or look at its objects with 'mainstay extension status " + name + "'",
		}
	}

	return from, to, nil
}

// objects reads the objects of a revision, also those that stand in Secrets.
func (a *ExtensionDiff) objects(ctx context.Context, set *olmv1.ClusterObjectSet) ([]*unstructured.Unstructured, error) {
	object := fmt.Sprintf("clusterobjectset %q", set.Name)
	// A reference without a namespace means that of the controller, which nobody tells.
	content, err := apply.Load(ctx, a.Client, set, DefaultSystemNamespace)
	if err != nil {
		return nil, serverError(object, err)
	}

	if len(content.Missing) > 0 {
		return nil, &report.Error{
			Object: object, Err: fmt.Errorf("objects of it are missing, as there is no Secret %s", strings.Join(content.Missing, ", ")),
			Advice: "compare other revisions with --from and --to",
		}
	}

	if len(content.Malformed) > 0 {
		return nil, &report.Error{Object: object, Err: errors.Join(content.Malformed...), Advice: "compare other revisions with --from and --to"}
	}

	var objects []*unstructured.Unstructured
	for _, phase := range content.Phases {
		for _, o := range phase.Objects {
			objects = append(objects, o.Manifest)
		}
	}

	return objects, nil
}
