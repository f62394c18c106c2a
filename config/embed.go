// Package config holds the manifests of an installation: the CRDs and the cluster
// roles of the components, generated from their Go code, and next to them namespace,
// accounts, bindings, Services and Deployments.
//
// It is data only. The files are complete with their defaults (kubectl apply -k
// config), and internal/action sets namespace, image and options when it installs.
package config

import "embed"

// Files are the manifests, by their path in this folder. The order in which they are
// applied is that of the resources in kustomization.yaml.
//
//go:embed kustomization.yaml namespace.yaml crd rbac/catalogd rbac/operator-controller catalogd operator-controller
var Files embed.FS

// ProtectCustomResources is the admission policy that an installation may have, in a folder
// with a kustomization of its own.
//
//go:embed protect-custom-resources
var ProtectCustomResources embed.FS

// Options are manifests that take the place of those of the same kind and name where an
// installation is made with an option, by the name of the option.
//
//go:embed options
var Options embed.FS

// Classic are the manifests of OLM Classic, in the folder classic. Its folders have kustomizations of
// their own, and some of them are optional.
//
//go:embed classic
var Classic embed.FS

// Console is the web console, in a folder with a kustomization of its own.
//
//go:embed console
var Console embed.FS

// Platform are kinds that a platform may have of its own, and that are no part of an
// installation: those by which a cluster declares mirrors of registries, ClusterOperator,
// ClusterVersion, MachineConfig, MachineConfigPool and MachineConfiguration.
//
//go:embed platform
var Platform embed.FS
