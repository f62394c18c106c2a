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
	// From and To are the numbers of the revisions. Zero means the newest revision for To,
	// and the one before To for From.
	From, To int64
}

// RevisionDiff is the difference between two revisions.
type RevisionDiff struct {
	From RevisionRecord `json:"from"`
	To   RevisionRecord `json:"to"`
	objectdiff.Result
}

// Run compares the revisions as they are stored. It does not read their objects from the
// cluster.
func (a *ExtensionDiff) Run(ctx context.Context) (*RevisionDiff, error) {
	_, sets, err := readRevisions(ctx, a.Client, a.Name)
	if err != nil {
		return nil, err
	}

	from, to, err := selectRevisionPair(newRevisionRecords(sets), a.Name, a.From, a.To)
	if err != nil {
		return nil, err
	}

	before, err := a.readRevisionObjects(ctx, &sets[from])
	if err != nil {
		return nil, err
	}

	after, err := a.readRevisionObjects(ctx, &sets[to])
	if err != nil {
		return nil, err
	}

	result, err := objectdiff.Compare(before, after)
	if err != nil {
		return nil, &report.Error{Object: describeExtension(a.Name), Err: err}
	}

	return &RevisionDiff{From: newRevisionRecord(&sets[from]), To: newRevisionRecord(&sets[to]), Result: *result}, nil
}

// selectRevisionPair returns the indexes of the revisions to compare.
func selectRevisionPair(history []RevisionRecord, name string, fromNumber, toNumber int64) (from, to int, err error) {
	if len(history) == 0 {
		return 0, 0, &report.Error{
			Object: describeExtension(name), Err: errors.New("it has no revision yet"),
			Advice: fmt.Sprintf("'mainstay extension explain %s' shows why", name),
		}
	}

	to = len(history) - 1
	if toNumber != 0 {
		if to, err = findRevision(history, name, toNumber); err != nil {
			return 0, 0, err
		}
	}

	from = to - 1
	if fromNumber != 0 {
		if from, err = findRevision(history, name, fromNumber); err != nil {
			return 0, 0, err
		}
	}

	if from < 0 {
		return 0, 0, &report.Error{
			Object: describeExtension(name), Err: fmt.Errorf("there is no revision before %d to compare it with", history[to].Revision),
			Advice: "name another with --from, or look at its objects with 'mainstay extension status " + name + "'",
		}
	}

	return from, to, nil
}

// readRevisionObjects returns the objects of a revision, including those in Secrets.
func (a *ExtensionDiff) readRevisionObjects(ctx context.Context, set *olmv1.ClusterObjectSet) ([]*unstructured.Unstructured, error) {
	object := fmt.Sprintf("clusterobjectset %q", set.Name)
	// A reference without a namespace means the namespace of the controller, which is not
	// known here. The default is used.
	content, err := apply.Load(ctx, a.Client, set, DefaultSystemNamespace)
	if err != nil {
		return nil, NewServerError(object, err)
	}

	if len(content.Missing) > 0 {
		return nil, &report.Error{
			Object: object, Err: fmt.Errorf("some of its objects are missing, because there is no Secret %s", strings.Join(content.Missing, ", ")),
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
