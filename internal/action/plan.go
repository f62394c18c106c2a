package action

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	olmv1 "github.com/mainstay-dev/mainstay/api/olm/v1"
	"github.com/mainstay-dev/mainstay/internal/action/report"
)

// cleanupTimeout limits how long changes are reverted, also after the context has ended.
const cleanupTimeout = 10 * time.Second

// ExtensionPlan requests a plan for an extension from operator-controller. It leaves
// everything unchanged.
type ExtensionPlan struct {
	Client   client.Client
	Progress report.Progress

	// Install describes the installation, and its Choice the requested bundle. For an
	// existing extension, only the Choice may differ from the extension: a nil field means
	// the value of the spec.
	Install ExtensionInstall
	// SystemNamespace is the namespace of operator-controller. Empty means
	// DefaultSystemNamespace.
	SystemNamespace string
	// Wait limits how long to wait for the plan. Nil means until the context ends.
	Wait *Wait
}

// Plan describes what the controller would do for an extension.
type Plan struct {
	// Text is the human-readable plan.
	Text string
	// Data is the machine-readable plan, a JSON object.
	Data json.RawMessage
	// Changes reports whether the plan contains changes.
	Changes bool
	// Problems are the obstacles to the plan.
	Problems []PlanProblem
}

// PlanProblem is an obstacle to a plan.
type PlanProblem struct {
	// Check is the check that found it, such as "permissions" or "crdUpgradeSafety".
	Check   string `json:"check"`
	Message string `json:"message"`
}

// isMissingNamespace reports whether the namespace of the extension does not exist.
func (p PlanProblem) isMissingNamespace() bool {
	return p.Check == "place" && strings.HasPrefix(p.Message, "namespace ")
}

// isUnnamedAccount reports whether the cluster requires a service account that is not named.
func (p PlanProblem) isUnnamedAccount() bool {
	return p.Check == "place" && strings.HasPrefix(p.Message, "spec.serviceAccount is not set")
}

// parsePlan parses the plan that the controller has written.
func parsePlan(data map[string]string) (*Plan, error) {
	p := &Plan{Text: data[olmv1.PlanText], Data: json.RawMessage(data[olmv1.PlanJSON])}
	var fields struct {
		Action   string        `json:"action"`
		Problems []PlanProblem `json:"problems"`
	}
	if err := json.Unmarshal(p.Data, &fields); err != nil {
		return nil, err
	}

	p.Changes, p.Problems = fields.Action != "none", fields.Problems
	return p, nil
}

// Run requests a plan and returns it. An extension that does not exist is created in
// plan-only mode and deleted afterwards. An existing one is reconciled as before. All
// changes are reverted, also when the context ends.
func (a *ExtensionPlan) Run(ctx context.Context) (plan *Plan, err error) {
	extension, withdraw, err := a.requestPlan(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, withdrawInTime(ctx, withdraw)) }()
	return a.awaitPlan(ctx, extension)
}

// awaitPlan waits until the controller has written the requested plan for the extension.
func (a *ExtensionPlan) awaitPlan(ctx context.Context, extension *olmv1.ClusterExtension) (plan *Plan, err error) {
	wait := a.Wait
	if wait == nil {
		wait = &Wait{}
	}

	err = wait.Poll(ctx, describeExtension(extension.Name), a.Progress, func(ctx context.Context) (Outcome, error) {
		found, err := a.readPlan(ctx, extension)
		if err != nil {
			return Outcome{}, err
		}

		plan = found
		const pending = "operator-controller has not written the plan yet"
		part := report.Part{Name: "plan", State: report.StateCurrent, Detail: pending}
		if found != nil {
			part = report.Part{Name: "plan", State: report.StateDone}
		}

		return Outcome{
			Parts: []report.Part{part}, Done: found != nil, Pending: pending,
			Advice: "check that it is running and supports plans: 'kubectl get deployments -A -l app.kubernetes.io/name=operator-controller'",
		}, nil
	})
	if err != nil {
		return nil, err
	}

	return plan, nil
}

// requestPlan requests the plan. It returns the extension with the annotation that the plan
// must refer to, and a function that withdraws the request. It retries while another client,
// such as the controller, changes the extension at the same time.
func (a *ExtensionPlan) requestPlan(ctx context.Context) (extension *olmv1.ClusterExtension, withdraw func(context.Context) error, err error) {
	for {
		extension, withdraw, err = a.requestPlanOnce(ctx)
		if !apierrors.IsConflict(err) || ctx.Err() != nil {
			return extension, withdraw, err
		}
	}
}

// requestPlanOnce is one attempt of requestPlan. Its error is a conflict if the extension was changed meanwhile.
func (a *ExtensionPlan) requestPlanOnce(ctx context.Context) (extension *olmv1.ClusterExtension, withdraw func(context.Context) error, err error) {
	extension = &olmv1.ClusterExtension{}
	err = a.Client.Get(ctx, client.ObjectKey{Name: a.Install.extensionName()}, extension)
	switch {
	case err == nil:
		return a.requestPlanForExisting(ctx, extension)
	case !apierrors.IsNotFound(err):
		return nil, nil, NewServerError(describeExtension(a.Install.extensionName()), err)
	}

	install := a.Install
	install.Package = cmp.Or(install.Package, install.Name)
	objects, err := install.Objects()
	if err != nil {
		return nil, nil, err
	}

	extension = objects[len(objects)-1].(*olmv1.ClusterExtension)
	metav1.SetMetaDataAnnotation(&extension.ObjectMeta, olmv1.AnnotationPlan, olmv1.PlanOnly)
	if err := a.Client.Create(ctx, extension); err != nil {
		return nil, nil, NewServerError(describeExtension(extension.Name), err)
	}

	return extension, func(ctx context.Context) error { return a.deletePlannedExtension(ctx, extension) }, nil
}

// deletePlannedExtension deletes an extension that was created for the plan. It does
// nothing if the annotation was removed meanwhile, because the extension is then in use.
func (a *ExtensionPlan) deletePlannedExtension(ctx context.Context, extension *olmv1.ClusterExtension) error {
	advice := fmt.Sprintf("it was created only for the plan: remove it with 'mainstay extension uninstall %s'", extension.Name)
	err := a.updateWhileRequested(ctx, extension, "deleting it", advice, func(current *olmv1.ClusterExtension) error {
		return a.Client.Delete(ctx, current, client.Preconditions{UID: &current.UID, ResourceVersion: &current.ResourceVersion})
	})
	if err != nil {
		return err
	}

	// The controller needs a moment to remove its finalizers. A delay is no error of this
	// command.
	_ = (&Wait{}).Poll(ctx, describeExtension(extension.Name), nil, func(ctx context.Context) (Outcome, error) {
		o, err := deletionWaitOutcome(ctx, a.Client, &olmv1.ClusterExtension{ObjectMeta: metav1.ObjectMeta{Name: extension.Name}}, "")
		return Outcome{Done: o.Done}, err
	})
	return nil
}

// startPlannedExtension removes the annotation from an extension that was created in
// plan-only mode, so that the controller reconciles it.
func (a *ExtensionPlan) startPlannedExtension(ctx context.Context, extension *olmv1.ClusterExtension) error {
	advice := fmt.Sprintf("remove the annotation with 'kubectl annotate clusterextension %s %s-'", extension.Name, olmv1.AnnotationPlan)
	return a.updateWhileRequested(ctx, extension.DeepCopy(), "removing the annotation "+olmv1.AnnotationPlan, advice, func(current *olmv1.ClusterExtension) error {
		before := current.DeepCopy()
		delete(current.Annotations, olmv1.AnnotationPlan)
		if err := a.Client.Patch(ctx, current, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
			return err
		}

		current.DeepCopyInto(extension)
		return nil
	})
}

// updateWhileRequested calls do with the current extension while it has the annotation of
// the request. It retries after a conflict. It does nothing if the annotation was changed
// or removed.
func (a *ExtensionPlan) updateWhileRequested(ctx context.Context, requested *olmv1.ClusterExtension, operation, advice string, do func(current *olmv1.ClusterExtension) error) error {
	for {
		current := &olmv1.ClusterExtension{}
		err := a.Client.Get(ctx, client.ObjectKeyFromObject(requested), current)
		if err == nil {
			if current.UID != requested.UID || current.Annotations[olmv1.AnnotationPlan] != requested.Annotations[olmv1.AnnotationPlan] {
				return nil
			}
			err = do(current)
		}
		switch {
		case apierrors.IsConflict(err) && ctx.Err() == nil:
			// retry with the current object
		case client.IgnoreNotFound(err) != nil:
			return &report.Error{Object: describeExtension(requested.Name), Err: fmt.Errorf("%s: %w", operation, err), Advice: advice}
		default:
			return nil
		}
	}
}

// requestPlanForExisting requests a plan for an existing extension. If a plan was already
// requested, it leaves the request unchanged so that its plan is returned.
func (a *ExtensionPlan) requestPlanForExisting(ctx context.Context, extension *olmv1.ClusterExtension) (*olmv1.ClusterExtension, func(context.Context) error, error) {
	name := describeExtension(extension.Name)
	if err := a.validateExisting(extension); err != nil {
		return nil, nil, err
	}

	if _, requested := extension.Annotations[olmv1.AnnotationPlan]; requested {
		if a.Install.Choice.isEmpty() {
			return extension, func(context.Context) error { return nil }, nil
		}
		return nil, nil, &report.Error{
			Object: name, Err: fmt.Errorf("its annotation %s requests another plan", olmv1.AnnotationPlan),
			Advice: "wait for that plan, or remove the annotation; without flags, the existing plan is shown",
		}
	}

	before := extension.DeepCopy()
	value, err := a.newRequestAnnotation(extension)
	if err != nil {
		return nil, nil, err
	}

	metav1.SetMetaDataAnnotation(&extension.ObjectMeta, olmv1.AnnotationPlan, value)
	// The optimistic lock prevents concurrent requests.
	if err := a.Client.Patch(ctx, extension, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return nil, nil, NewServerError(name, err)
	}

	requested := extension.DeepCopy()
	return extension, func(ctx context.Context) error { return a.withdrawRequest(ctx, requested) }, nil
}

// withdrawRequest removes the annotation if it is still the one of the request.
func (a *ExtensionPlan) withdrawRequest(ctx context.Context, requested *olmv1.ClusterExtension) error {
	advice := fmt.Sprintf("remove it with 'kubectl annotate clusterextension %s %s-'", requested.Name, olmv1.AnnotationPlan)
	return a.updateWhileRequested(ctx, requested, "removing the annotation "+olmv1.AnnotationPlan, advice, func(current *olmv1.ClusterExtension) error {
		before := current.DeepCopy()
		delete(current.Annotations, olmv1.AnnotationPlan)
		return a.Client.Patch(ctx, current, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	})
}

// validateExisting refuses options that cannot be planned for an existing extension.
func (a *ExtensionPlan) validateExisting(extension *olmv1.ClusterExtension) error {
	if extension.Spec.Source.Catalog == nil {
		return &report.Error{Object: describeExtension(extension.Name), Err: errors.New("it does not come from a catalog")}
	}

	account := ""
	if extension.Spec.ServiceAccount != nil {
		account = extension.Spec.ServiceAccount.Name
	}

	for _, field := range []struct{ what, wanted, is string }{
		{"package", a.Install.Package, extension.Spec.Source.Catalog.PackageName},
		{"namespace", a.Install.Namespace, extension.Spec.Namespace},
		{"service account", a.Install.ServiceAccount, account},
	} {
		if field.wanted != "" && field.wanted != field.is {
			return newUnsupportedChangeError(extension, fmt.Errorf("its %s is %q, not %q", field.what, field.is, field.wanted))
		}
	}

	if a.Install.WatchNamespace != "" {
		return newUnsupportedChangeError(extension, errors.New("a change of the watched namespace cannot be planned"))
	}

	return nil
}

// newUnsupportedChangeError returns an error for a change that cannot be planned for an
// existing extension.
func newUnsupportedChangeError(extension *olmv1.ClusterExtension, err error) error {
	return &report.Error{
		Object: describeExtension(extension.Name), Err: err,
		Advice: "for an existing extension, only changes of version, channel, catalog selector and policy can be planned: leave out the other flags",
	}
}

// newRequestAnnotation returns the value of the annotation for an existing extension. It
// contains the resource version, which distinguishes the request from earlier ones, so that
// no older plan is returned.
func (a *ExtensionPlan) newRequestAnnotation(extension *olmv1.ClusterExtension) (string, error) {
	choice, filter := a.Install.Choice, &olmv1.CatalogFilter{}
	wanted := olmv1.ClusterExtensionSpec{Source: olmv1.SourceConfig{Catalog: filter}}
	if err := choice.applyToSpec(&wanted); err != nil {
		return "", &report.Error{Object: describeExtension(extension.Name), Err: err, Advice: "write the selector in the syntax of kubectl: 'key=value,other in (a,b)'"}
	}

	fields := map[string]any{"id": extension.ResourceVersion}
	if choice.Version != nil {
		fields["version"] = filter.Version
	}
	if choice.Channels != nil {
		fields["channels"] = append([]string{}, filter.Channels...)
	}
	if choice.CatalogSelector != nil {
		fields["selector"] = ptr.Deref(filter.Selector, metav1.LabelSelector{})
	}
	if choice.SelfCertified != nil {
		fields["upgradeConstraintPolicy"] = filter.UpgradeConstraintPolicy
	}
	if choice.CRDUpgradeSafety != nil {
		fields["crdUpgradeSafety"] = *choice.CRDUpgradeSafety
	}

	if choice.Config != nil {
		fields["config"] = *choice.Config
	}

	value, err := json.Marshal(fields)
	if err != nil {
		return "", fmt.Errorf("writing the annotation %s: %w", olmv1.AnnotationPlan, err)
	}

	return string(value), nil
}

// readPlan returns the plan for the current request, or nil while there is none.
func (a *ExtensionPlan) readPlan(ctx context.Context, extension *olmv1.ClusterExtension) (*Plan, error) {
	key := client.ObjectKey{Namespace: a.SystemNamespace, Name: olmv1.PlanName(extension.Name)}
	if key.Namespace == "" {
		key.Namespace = DefaultSystemNamespace
	}

	var written corev1.ConfigMap
	if err := a.Client.Get(ctx, key, &written); err != nil {
		return nil, client.IgnoreNotFound(err)
	}

	wanted := strconv.FormatInt(extension.Generation, 10) + " " + extension.Annotations[olmv1.AnnotationPlan]
	if !metav1.IsControlledBy(&written, extension) || written.Annotations[olmv1.AnnotationPlanFor] != wanted {
		return nil, nil
	}

	plan, err := parsePlan(written.Data)
	if err != nil {
		return nil, fmt.Errorf("%s of ConfigMap %q is not a valid plan: %w", olmv1.PlanJSON, key, err)
	}

	return plan, nil
}
