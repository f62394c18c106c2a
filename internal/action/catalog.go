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

	// Name of the ClusterCatalog.
	Name string
	// Image is the reference of the catalog's image, with a tag or a digest.
	Image string
	// Priority decides between catalogs that offer the same package: the highest wins.
	Priority int32
	// PollInterval is how often the registry is asked whether the tag has moved: whole
	// minutes. Zero means never.
	PollInterval time.Duration
	// Labels are set on the ClusterCatalog, for extensions to select catalogs by.
	Labels map[string]string
	// Wait, when not nil, has Run wait until the catalog is served.
	Wait *Wait
}

// Object returns the ClusterCatalog that Run creates.
func (a *CatalogAdd) Object() (*olmv1.ClusterCatalog, error) {
	source := &olmv1.ImageSource{Ref: a.Image}
	if a.PollInterval != 0 {
		minutes := a.PollInterval / time.Minute
		if minutes < 1 || a.PollInterval%time.Minute != 0 || minutes > math.MaxInt32 {
			return nil, &report.Error{
				Object: catalogName(a.Name),
				Err:    fmt.Errorf("the poll interval %s is not a whole number of minutes", a.PollInterval),
				Advice: "give at least 1m, in whole minutes",
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

// Run creates the ClusterCatalog and, if asked to, waits until it is served. It gives
// the catalog as it then stands, also beside an error of the wait.
func (a *CatalogAdd) Run(ctx context.Context) (*olmv1.ClusterCatalog, error) {
	catalog, err := a.Object()
	if err != nil {
		return nil, err
	}

	if err := a.Client.Create(ctx, catalog); err != nil {
		if apierrors.IsAlreadyExists(err) {
			return nil, &report.Error{
				Object: catalogName(a.Name), Err: &report.Reworded{Text: "it exists already", Cause: err},
				Advice: fmt.Sprintf("choose another name, or remove it first with 'mainstay catalog delete %s'", a.Name),
			}
		}
		return nil, serverError(catalogName(a.Name), err)
	}

	if a.Wait == nil {
		return catalog, nil
	}

	report.OrQuiet(a.Progress).Done(catalogName(a.Name) + " created")
	err = a.Wait.until(ctx, catalogName(a.Name), a.Progress, func(ctx context.Context) (outlook, error) {
		if err := a.Client.Get(ctx, client.ObjectKeyFromObject(catalog), catalog); err != nil {
			return outlook{}, err
		}
		return catalogOutlook(catalog), nil
	})

	return catalog, err
}

// catalogOutlook decides how far a catalog is from being served.
func catalogOutlook(c *olmv1.ClusterCatalog) outlook {
	progressing := current(c.Status.Conditions, olmv1.TypeProgressing, c.Generation)
	serving := current(c.Status.Conditions, olmv1.TypeServing, c.Generation)
	unpacked := progressing != nil && progressing.Reason == olmv1.ReasonSucceeded
	served := serving != nil && serving.Status == metav1.ConditionTrue

	o := outlook{
		done:    unpacked && served,
		pending: "the catalog controller has not looked at it yet",
		advice:  "check that the image reference is right and that the cluster can pull it: 'kubectl describe clustercatalog " + c.Name + "'",
	}
	unpack := report.Part{Name: "unpack", State: report.StateCurrent, Detail: o.pending}
	serve := report.Part{Name: "serve", State: report.StateWaiting}
	if progressing != nil {
		unpack.Detail = reasonAndMessage(progressing)
		o.pending = unpack.Detail
	} else {
		o.advice = "check that catalogd runs: 'kubectl get deployments -A -l app.kubernetes.io/name=catalogd'"
	}

	if unpacked {
		unpack.State, unpack.Detail = report.StateDone, ""
		serve.State = report.StateCurrent
		if serving != nil {
			serve.Detail = reasonAndMessage(serving)
			o.pending = serve.Detail
		}
	}

	if o.done {
		serve.State, serve.Detail = report.StateDone, ""
	}
	if progressing != nil && progressing.Status == metav1.ConditionFalse && progressing.Reason == olmv1.ReasonBlocked {
		o.failed = fmt.Errorf("%s", reasonAndMessage(progressing))
	}

	o.parts = []report.Part{unpack, serve}
	return o
}

// current returns the condition of a type if it was observed at the generation.
func current(conditions []metav1.Condition, conditionType string, generation int64) *metav1.Condition {
	condition := meta.FindStatusCondition(conditions, conditionType)
	if condition == nil || condition.ObservedGeneration < generation {
		return nil
	}
	return condition
}

func reasonAndMessage(c *metav1.Condition) string {
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

// Run returns the catalogs, by name.
func (a *CatalogList) Run(ctx context.Context) ([]olmv1.ClusterCatalog, error) {
	if a.Name != "" {
		var catalog olmv1.ClusterCatalog
		if err := a.Client.Get(ctx, client.ObjectKey{Name: a.Name}, &catalog); err != nil {
			return nil, missing(catalogName(a.Name), "mainstay catalog list", err)
		}
		return []olmv1.ClusterCatalog{catalog}, nil
	}

	var list olmv1.ClusterCatalogList
	if err := a.Client.List(ctx, &list); err != nil {
		return nil, serverError("clustercatalogs", err)
	}
	return list.Items, nil
}

// missing is serverError with the advice to look at a list when the object is not there.
func missing(object, list string, err error) error {
	if apierrors.IsNotFound(err) && !unknownKind(err) {
		return &report.Error{Object: object, Err: &report.Reworded{Text: "not found", Cause: err}, Advice: "'" + list + "' shows those that exist"}
	}
	return serverError(object, err)
}

// CatalogDelete removes a catalog from the cluster. Extensions installed from it stay.
type CatalogDelete struct {
	Client   client.Client
	Progress report.Progress

	Name string
	// Wait, when not nil, has Run wait until the catalog is gone.
	Wait *Wait
}

// Run deletes the catalog.
func (a *CatalogDelete) Run(ctx context.Context) error {
	catalog := &olmv1.ClusterCatalog{ObjectMeta: metav1.ObjectMeta{Name: a.Name}}
	if err := a.Client.Delete(ctx, catalog); err != nil {
		return missing(catalogName(a.Name), "mainstay catalog list", err)
	}
	if a.Wait == nil {
		return nil
	}
	return a.Wait.until(ctx, catalogName(a.Name), a.Progress, func(ctx context.Context) (outlook, error) {
		return goneOutlook(ctx, a.Client, catalog, "check that catalogd runs: it removes the stored content first")
	})
}

// goneOutlook decides whether an object that is being deleted is gone.
func goneOutlook(ctx context.Context, c client.Client, obj client.Object, advice string) (outlook, error) {
	err := c.Get(ctx, client.ObjectKeyFromObject(obj), obj)
	if apierrors.IsNotFound(err) {
		return outlook{done: true, parts: []report.Part{{Name: "delete", State: report.StateDone}}}, nil
	}
	if err != nil {
		return outlook{}, err
	}

	detail := "it is still there"
	if finalizers := obj.GetFinalizers(); len(finalizers) > 0 {
		detail = fmt.Sprintf("finalizers %v are not done", finalizers)
	}

	return outlook{
		parts:   []report.Part{{Name: "delete", State: report.StateCurrent, Detail: detail}},
		pending: detail,
		advice:  advice,
	}, nil
}
