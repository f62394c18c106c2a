package action

import (
	"context"
	"fmt"
	"math"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	"github.com/mainstay-dev/mainstay/internal/action/report"
)

// CatalogAdd adds a catalog to the cluster.
type CatalogAdd struct {
	Client   client.Client
	Progress report.Progress

	// Name is the name of the ClusterCatalog.
	Name string
	// Image is the reference of the catalog image with a tag or a digest.
	Image string
	// Priority selects between catalogs with the same package. The highest wins.
	Priority int32
	// PollInterval is how often the registry is polled for a new digest of the tag, in
	// whole minutes. Zero means never.
	PollInterval time.Duration
	// Labels are the labels of the ClusterCatalog, by which extensions select catalogs.
	Labels map[string]string
	// Wait, if not nil, makes Run wait until the catalog is served.
	Wait *Wait
}

// Object returns the ClusterCatalog that Run creates.
func (a *CatalogAdd) Object() (*olmv1.ClusterCatalog, error) {
	source := &olmv1.ImageSource{Ref: a.Image}
	if a.PollInterval != 0 {
		minutes := a.PollInterval / time.Minute
		if minutes < 1 || a.PollInterval%time.Minute != 0 || minutes > math.MaxInt32 {
			return nil, &report.Error{
				Object: describeCatalog(a.Name),
				Err:    fmt.Errorf("the poll interval %s is not a whole number of minutes", a.PollInterval),
				Advice: "specify at least 1m in whole minutes",
			}
		}
		whole := int32(minutes)
		source.PollIntervalMinutes = &whole
	}

	return &olmv1.ClusterCatalog{
		TypeMeta:   metav1.TypeMeta{APIVersion: olmv1.GroupVersion.String(), Kind: olmv1.ClusterCatalogKind},
		ObjectMeta: metav1.ObjectMeta{Name: a.Name, Labels: a.Labels},
		Spec: olmv1.ClusterCatalogSpec{
			Source:   olmv1.CatalogSource{Type: olmv1.SourceTypeImage, Image: source},
			Priority: a.Priority,
		},
	}, nil
}

// Run creates the ClusterCatalog and waits if requested. It returns the current catalog,
// also together with an error of the wait.
func (a *CatalogAdd) Run(ctx context.Context) (*olmv1.ClusterCatalog, error) {
	catalog, err := a.Object()
	if err != nil {
		return nil, err
	}

	if err := a.Client.Create(ctx, catalog); err != nil {
		if apierrors.IsAlreadyExists(err) {
			return nil, &report.Error{
				Object: describeCatalog(a.Name), Err: &report.Reworded{Text: "it exists already", Cause: err},
				Advice: fmt.Sprintf("choose another name, or remove it first with 'mainstay catalog delete %s'", a.Name),
			}
		}
		return nil, NewServerError(describeCatalog(a.Name), err)
	}

	if a.Wait == nil {
		return catalog, nil
	}

	report.OrQuiet(a.Progress).Done(describeCatalog(a.Name) + " created")
	err = a.Wait.Poll(ctx, describeCatalog(a.Name), a.Progress, func(ctx context.Context) (Outcome, error) {
		if err := a.Client.Get(ctx, client.ObjectKeyFromObject(catalog), catalog); err != nil {
			return Outcome{}, err
		}
		return catalogWaitOutcome(catalog), nil
	})

	return catalog, err
}

// catalogWaitOutcome reports whether a catalog is served, and what is missing.
func catalogWaitOutcome(c *olmv1.ClusterCatalog) Outcome {
	progressing := findCurrentCondition(c.Status.Conditions, olmv1.TypeProgressing, c.Generation)
	serving := findCurrentCondition(c.Status.Conditions, olmv1.TypeServing, c.Generation)
	unpacked := progressing != nil && progressing.Reason == olmv1.ReasonSucceeded
	served := serving != nil && serving.Status == metav1.ConditionTrue

	o := Outcome{
		Done:    unpacked && served,
		Pending: "catalogd has not reconciled it yet",
		Advice:  "check that the image reference is right and that the cluster can pull it: 'kubectl describe clustercatalog " + c.Name + "'",
	}
	unpack := report.Part{Name: "unpack", State: report.StateCurrent, Detail: o.Pending}
	serve := report.Part{Name: "serve", State: report.StateWaiting}
	if progressing != nil {
		unpack.Detail = formatReasonAndMessage(progressing)
		o.Pending = unpack.Detail
	} else {
		o.Advice = "check that catalogd runs: 'kubectl get deployments -A -l app.kubernetes.io/name=catalogd'"
	}

	if unpacked {
		unpack.State, unpack.Detail = report.StateDone, ""
		serve.State = report.StateCurrent
		if serving != nil {
			serve.Detail = formatReasonAndMessage(serving)
			o.Pending = serve.Detail
		}
	}

	if o.Done {
		serve.State, serve.Detail = report.StateDone, ""
	}
	if progressing != nil && progressing.Status == metav1.ConditionFalse && progressing.Reason == olmv1.ReasonBlocked {
		o.Failed = fmt.Errorf("%s", formatReasonAndMessage(progressing))
	}

	o.Parts = []report.Part{unpack, serve}
	return o
}

// CatalogPending returns what a catalog waits for until its present content is served, and what to do. Both are empty if it
// does not wait.
func CatalogPending(c *olmv1.ClusterCatalog) (pending, advice string) {
	o := catalogWaitOutcome(c)
	if o.Done {
		return "", ""
	}
	return o.Pending, o.Advice
}

// findCurrentCondition returns the condition of a type if it was observed at the
// generation, and nil otherwise.
func findCurrentCondition(conditions []metav1.Condition, conditionType string, generation int64) *metav1.Condition {
	condition := meta.FindStatusCondition(conditions, conditionType)
	if condition == nil || condition.ObservedGeneration < generation {
		return nil
	}
	return condition
}

func formatReasonAndMessage(c *metav1.Condition) string {
	if c.Message == "" {
		return c.Reason
	}
	return c.Reason + ": " + c.Message
}

// CatalogList lists the catalogs of the cluster.
type CatalogList struct {
	Client client.Client
	// Name limits the list to one catalog. Empty means all.
	Name string
}

// Run returns the catalogs, sorted by name.
func (a *CatalogList) Run(ctx context.Context) ([]olmv1.ClusterCatalog, error) {
	if a.Name != "" {
		var catalog olmv1.ClusterCatalog
		if err := a.Client.Get(ctx, client.ObjectKey{Name: a.Name}, &catalog); err != nil {
			return nil, NewNotFoundError(describeCatalog(a.Name), "mainstay catalog list", err)
		}
		return []olmv1.ClusterCatalog{catalog}, nil
	}

	var list olmv1.ClusterCatalogList
	if err := a.Client.List(ctx, &list); err != nil {
		return nil, NewServerError("clustercatalogs", err)
	}
	return list.Items, nil
}

// CatalogDelete deletes a catalog. Extensions that were installed from it remain.
type CatalogDelete struct {
	Client   client.Client
	Progress report.Progress

	Name string
	// Wait, if not nil, makes Run wait until the catalog is deleted.
	Wait *Wait
}

// Run deletes the catalog.
func (a *CatalogDelete) Run(ctx context.Context) error {
	catalog := &olmv1.ClusterCatalog{ObjectMeta: metav1.ObjectMeta{Name: a.Name}}
	if err := a.Client.Delete(ctx, catalog); err != nil {
		return NewNotFoundError(describeCatalog(a.Name), "mainstay catalog list", err)
	}
	if a.Wait == nil {
		return nil
	}
	return a.Wait.Poll(ctx, describeCatalog(a.Name), a.Progress, func(ctx context.Context) (Outcome, error) {
		return deletionWaitOutcome(ctx, a.Client, catalog, "check that catalogd runs: it removes the stored content first")
	})
}

// deletionWaitOutcome reports whether an object that is being deleted no longer exists.
func deletionWaitOutcome(ctx context.Context, c client.Client, obj client.Object, advice string) (Outcome, error) {
	err := c.Get(ctx, client.ObjectKeyFromObject(obj), obj)
	if apierrors.IsNotFound(err) {
		return Outcome{Done: true, Parts: []report.Part{{Name: "delete", State: report.StateDone}}}, nil
	}
	if err != nil {
		return Outcome{}, err
	}

	detail := "it still exists"
	if finalizers := obj.GetFinalizers(); len(finalizers) > 0 {
		detail = fmt.Sprintf("waiting for finalizers %v", finalizers)
	}

	return Outcome{
		Parts:   []report.Part{{Name: "delete", State: report.StateCurrent, Detail: detail}},
		Pending: detail,
		Advice:  advice,
	}, nil
}
