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

// tidyTime is how long taking back what was asked of the cluster may take, also after the
// context has ended.
const tidyTime = 10 * time.Second

// ExtensionPlan has the operator-controller tell what it would do about an extension, and
// leaves everything as it was.
type ExtensionPlan struct {
	Client   client.Client
	Progress report.Progress

	// Install says what would be installed, and in its Choice which bundle is wanted. Of an
	// extension that exists only the Choice can differ from what it is: a nil field means
	// what its spec says.
	Install ExtensionInstall
	// SystemNamespace is that of operator-controller. Empty means DefaultSystemNamespace.
	SystemNamespace string
	// Wait says how long to wait for the plan. Nil means until the context ends.
	Wait *Wait
}

// Plan is what would be done about an extension.
type Plan struct {
	// Text is the plan for people.
	Text string
	// Data is the plan for programs, a JSON object.
	Data json.RawMessage
	// Changes reports whether anything would be done.
	Changes bool
	// Problems are what stands against it.
	Problems []PlanProblem
}

// PlanProblem is something that would stop what is planned.
type PlanProblem struct {
	// Check that found it, as in "permissions" or "crdUpgradeSafety".
	Check   string `json:"check"`
	Message string `json:"message"`
}

// isMissingNamespace reports whether the namespace of the extension does not exist.
func (p PlanProblem) isMissingNamespace() bool {
	return p.Check == "place" && strings.HasPrefix(p.Message, "namespace ")
}

// newPlan reads the plan that the controller has written.
func newPlan(data map[string]string) (*Plan, error) {
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

// Run asks for a plan and gives it. An extension that does not exist is created to be
// planned only, and is deleted again; one that exists goes on as its spec says. What was
// changed for the question is taken back also when the context ends.
func (a *ExtensionPlan) Run(ctx context.Context) (plan *Plan, err error) {
	extension, tidy, err := a.ask(ctx)
	if err != nil {
		return nil, err
	}

	defer func() {
		after, cancel := context.WithTimeout(context.WithoutCancel(ctx), tidyTime)
		defer cancel()
		err = errors.Join(err, tidy(after))
	}()
	return a.await(ctx, extension)
}

// await waits until the controller has written the plan for the extension as it was asked
// about.
func (a *ExtensionPlan) await(ctx context.Context, extension *olmv1.ClusterExtension) (plan *Plan, err error) {
	wait := a.Wait
	if wait == nil {
		wait = &Wait{}
	}

	err = wait.until(ctx, extensionName(extension.Name), a.Progress, func(ctx context.Context) (outlook, error) {
		found, err := a.read(ctx, extension)
		if err != nil {
			return outlook{}, err
		}

		plan = found
		const pending = "the operator-controller has not planned it yet"
		part := report.Part{Name: "plan", State: report.StateCurrent, Detail: pending}
		if found != nil {
			part = report.Part{Name: "plan", State: report.StateDone}
		}

		return outlook{
			parts: []report.Part{part}, done: found != nil, pending: pending,
			advice: "check that it runs, and is one that plans: 'kubectl get deployments -A -l app.kubernetes.io/name=operator-controller'",
		}, nil
	})
	if err != nil {
		return nil, err
	}

	return plan, nil
}

// ask asks for the plan. The extension that it gives has the annotation which the plan is
// to be for; tidy takes the question back.
func (a *ExtensionPlan) ask(ctx context.Context) (extension *olmv1.ClusterExtension, tidy func(context.Context) error, err error) {
	extension = &olmv1.ClusterExtension{}
	err = a.Client.Get(ctx, client.ObjectKey{Name: a.Install.name()}, extension)
	switch {
	case err == nil:
		return a.askExisting(ctx, extension)
	case !apierrors.IsNotFound(err):
		return nil, nil, serverError(extensionName(a.Install.name()), err)
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
		return nil, nil, serverError(extensionName(extension.Name), err)
	}

	return extension, func(ctx context.Context) error { return a.remove(ctx, extension) }, nil
}

// remove deletes the extension that was created for the question, unless somebody has
// taken the annotation away meanwhile, and so has made it a real one.
func (a *ExtensionPlan) remove(ctx context.Context, extension *olmv1.ClusterExtension) error {
	advice := fmt.Sprintf("it was made to be planned only: remove it with 'mainstay extension uninstall %s'", extension.Name)
	err := a.settle(ctx, extension, "deleting it", advice, func(now *olmv1.ClusterExtension) error {
		return a.Client.Delete(ctx, now, client.Preconditions{UID: &now.UID, ResourceVersion: &now.ResourceVersion})
	})
	if err != nil {
		return err
	}

	// Its controller takes a moment to let it go. That it does not is no fault of this command.
	_ = (&Wait{}).until(ctx, extensionName(extension.Name), nil, func(ctx context.Context) (outlook, error) {
		o, err := goneOutlook(ctx, a.Client, &olmv1.ClusterExtension{ObjectMeta: metav1.ObjectMeta{Name: extension.Name}}, "")
		return outlook{done: o.done}, err
	})
	return nil
}

// realize takes the annotation away from an extension that was created to be planned only, so
// that the controller goes on with it.
func (a *ExtensionPlan) realize(ctx context.Context, extension *olmv1.ClusterExtension) error {
	advice := fmt.Sprintf("remove the annotation with 'kubectl annotate clusterextension %s %s-'", extension.Name, olmv1.AnnotationPlan)
	return a.settle(ctx, extension.DeepCopy(), "removing the annotation "+olmv1.AnnotationPlan, advice, func(now *olmv1.ClusterExtension) error {
		before := now.DeepCopy()
		delete(now.Annotations, olmv1.AnnotationPlan)
		if err := a.Client.Patch(ctx, now, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
			return err
		}

		now.DeepCopyInto(extension)
		return nil
	})
}

// settle does something about an extension that still has the annotation which was set,
// and does it again when it changed in between. It has nothing to do about one that has
// not.
func (a *ExtensionPlan) settle(ctx context.Context, asked *olmv1.ClusterExtension, doing, advice string, do func(now *olmv1.ClusterExtension) error) error {
	for {
		now := &olmv1.ClusterExtension{}
		err := a.Client.Get(ctx, client.ObjectKeyFromObject(asked), now)
		if err == nil {
			if now.UID != asked.UID || now.Annotations[olmv1.AnnotationPlan] != asked.Annotations[olmv1.AnnotationPlan] {
				return nil
			}
			err = do(now)
		}
		switch {
		case apierrors.IsConflict(err) && ctx.Err() == nil:
			// What changed is read again.
		case client.IgnoreNotFound(err) != nil:
			return &report.Error{Object: extensionName(asked.Name), Err: fmt.Errorf("%s: %w", doing, err), Advice: advice}
		default:
			return nil
		}
	}
}

// askExisting asks about an extension that exists. One that is asked about already is left
// as it is, and its plan is read.
func (a *ExtensionPlan) askExisting(ctx context.Context, extension *olmv1.ClusterExtension) (*olmv1.ClusterExtension, func(context.Context) error, error) {
	name := extensionName(extension.Name)
	if err := a.checkSame(extension); err != nil {
		return nil, nil, err
	}

	if _, asked := extension.Annotations[olmv1.AnnotationPlan]; asked {
		if a.Install.Choice.empty() {
			return extension, func(context.Context) error { return nil }, nil
		}
		return nil, nil, &report.Error{
			Object: name, Err: fmt.Errorf("its annotation %s asks for another plan", olmv1.AnnotationPlan),
			Advice: "wait until that plan is read, or remove the annotation; without flags, the plan that there is is shown",
		}
	}

	before := extension.DeepCopy()
	value, err := a.question(extension)
	if err != nil {
		return nil, nil, err
	}

	metav1.SetMetaDataAnnotation(&extension.ObjectMeta, olmv1.AnnotationPlan, value)
	// The lock keeps two from asking at a time.
	if err := a.Client.Patch(ctx, extension, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return nil, nil, serverError(name, err)
	}

	asked := extension.DeepCopy()
	return extension, func(ctx context.Context) error { return a.unask(ctx, asked) }, nil
}

// unask takes the annotation away, if it still is the one that was set.
func (a *ExtensionPlan) unask(ctx context.Context, asked *olmv1.ClusterExtension) error {
	advice := fmt.Sprintf("remove it with 'kubectl annotate clusterextension %s %s-'", asked.Name, olmv1.AnnotationPlan)
	return a.settle(ctx, asked, "removing the annotation "+olmv1.AnnotationPlan, advice, func(now *olmv1.ClusterExtension) error {
		before := now.DeepCopy()
		delete(now.Annotations, olmv1.AnnotationPlan)
		return a.Client.Patch(ctx, now, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	})
}

// checkSame refuses what cannot be planned for an extension that exists.
func (a *ExtensionPlan) checkSame(extension *olmv1.ClusterExtension) error {
	if extension.Spec.Source.Catalog == nil {
		return &report.Error{Object: extensionName(extension.Name), Err: errors.New("it does not come from a catalog")}
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
			return differs(extension, fmt.Errorf("its %s is %q, not %q", field.what, field.is, field.wanted))
		}
	}

	if a.Install.WatchNamespace != "" {
		return differs(extension, errors.New("the namespace that it watches cannot be planned to be another"))
	}

	return nil
}

func differs(extension *olmv1.ClusterExtension, err error) error {
	return &report.Error{
		Object: extensionName(extension.Name), Err: err,
		Advice: "of an extension that exists, another version, channel, catalog selector and policy can be planned: leave the other flags out",
	}
}

// question is the value of the annotation for an extension that exists. The resource
// version in it tells this question from others, so that no older plan is taken for the
// answer.
func (a *ExtensionPlan) question(extension *olmv1.ClusterExtension) (string, error) {
	choice, filter := a.Install.Choice, &olmv1.CatalogFilter{}
	wanted := olmv1.ClusterExtensionSpec{Source: olmv1.SourceConfig{Catalog: filter}}
	if err := choice.apply(&wanted); err != nil {
		return "", &report.Error{Object: extensionName(extension.Name), Err: err, Advice: "write the selector as kubectl has it: 'key=value,other in (a,b)'"}
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

	value, err := json.Marshal(fields)
	if err != nil {
		return "", fmt.Errorf("writing the annotation %s: %w", olmv1.AnnotationPlan, err)
	}

	return string(value), nil
}

// read returns the plan that was made for the extension as it was asked about; nil while
// there is none.
func (a *ExtensionPlan) read(ctx context.Context, extension *olmv1.ClusterExtension) (*Plan, error) {
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

	plan, err := newPlan(written.Data)
	if err != nil {
		return nil, fmt.Errorf("%s of ConfigMap %q is no plan, which operator-controller alone makes: %w", olmv1.PlanJSON, key, err)
	}

	return plan, nil
}
