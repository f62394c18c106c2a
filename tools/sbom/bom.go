package main

import (
	"errors"
	"maps"
	"slices"
	"strings"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

// standardLibrary is the name of the standard library's module for vulnerability scanners.
const standardLibrary = "std"

// newBOM returns the SBOM of the main module of the packages. Components and dependencies are
// sorted, and there is no timestamp and no serial number, so that the SBOM of a version is
// reproducible. It returns an error if no package is of a main module.
func newBOM(packages []listedPackage, version, toolchain string) (*cdx.BOM, error) {
	modules := map[string]cdx.Component{}
	packageRefs := map[string]string{} // from import paths
	mainRef := ""
	for _, p := range packages {
		component := componentOf(p, version, toolchain)
		modules[component.BOMRef], packageRefs[p.ImportPath] = component, component.BOMRef
		if p.Module != nil && p.Module.Main {
			mainRef = component.BOMRef
		}
	}

	if mainRef == "" {
		return nil, errors.New("the module has no packages")
	}

	main := modules[mainRef]
	main.Type = cdx.ComponentTypeApplication
	components := []cdx.Component{}
	for _, ref := range slices.Sorted(maps.Keys(modules)) {
		if ref != mainRef {
			components = append(components, modules[ref])
		}
	}

	bom := cdx.NewBOM()
	bom.Metadata = &cdx.Metadata{Component: &main}
	bom.Components = &components
	bom.Dependencies = dependenciesOf(packages, packageRefs)

	return bom, nil
}

// componentOf returns the component of the module that a package belongs to.
func componentOf(p listedPackage, version, toolchain string) cdx.Component {
	name, sum := standardLibrary, ""
	switch {
	case p.Module == nil:
		version = toolchain
	case p.Module.Main:
		name = p.Module.Path
	default:
		built := p.Module.resolveReplace()
		name, version, sum = built.Path, built.Version, built.Sum
	}

	ref := "pkg:golang/" + name + "?type=module"
	if version != "" {
		ref = "pkg:golang/" + name + "@" + strings.ReplaceAll(version, "+", "%2B") + "?type=module"
	}

	component := cdx.Component{
		BOMRef: ref, PackageURL: ref, Type: cdx.ComponentTypeLibrary, Name: name, Version: version,
	}
	if sum != "" {
		component.Properties = &[]cdx.Property{{Name: "go:sum", Value: sum}}
	}

	return component
}

// dependenciesOf returns the dependencies between the modules of the packages. refs are the
// modules' references by import path.
func dependenciesOf(packages []listedPackage, refs map[string]string) *[]cdx.Dependency {
	imported := map[string]map[string]bool{}
	for _, p := range packages {
		from := refs[p.ImportPath]
		if imported[from] == nil {
			imported[from] = map[string]bool{}
		}
		for _, path := range p.Imports {
			if to, ok := refs[path]; ok && to != from {
				imported[from][to] = true
			}
		}
	}

	dependencies := []cdx.Dependency{}
	for _, ref := range slices.Sorted(maps.Keys(imported)) {
		dependency := cdx.Dependency{Ref: ref}
		if on := slices.Sorted(maps.Keys(imported[ref])); len(on) > 0 {
			dependency.Dependencies = &on
		}
		dependencies = append(dependencies, dependency)
	}

	return &dependencies
}
