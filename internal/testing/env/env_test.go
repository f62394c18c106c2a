package env_test

import (
	"os"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-dev/mainstay/internal/testing/env"
)

func TestMain(m *testing.M) { os.Exit(env.Run(m)) }

func TestStartInstallsTheKindsOfTheProject(t *testing.T) {
	c := env.Client(t, apiextensionsv1.AddToScheme)
	for _, name := range []string{
		"clustercatalogs.olm.operatorframework.io",
		"clusterextensions.olm.operatorframework.io",
		"clusterobjectsets.olm.operatorframework.io",
	} {
		crd := &apiextensionsv1.CustomResourceDefinition{}
		if err := c.Get(t.Context(), client.ObjectKey{Name: name}, crd); err != nil {
			t.Errorf("getting the CRD %s: %v", name, err)
		}
	}
}
