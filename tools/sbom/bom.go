package main

import (
	"errors"
	"maps"
	"slices"
	"strings"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

// standardLibrary is what scanners call the standard library's module.
const standardLibrary = "std"

// newBOM returns the bill of the module that is the main one of the packages. Components
// and dependencies are sorted, and there is no time and no serial number in it, so that two
// bills of one version are the same.
func newBOM(packages []listed, version, toolchain string) (*cdx.BOM, error) {
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
		return nil, errors.New("it has no package of its own")
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

// componentOf returns the module that a package belongs to.
func componentOf(p listed, version, toolchain string) cdx.Component {
	name, sum := standardLibrary, ""
	switch {
	case p.Module == nil:
		version = toolchain
	case p.Module.Main:
		name = p.Module.Path
	default:
		built := p.Module.built()
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

// dependenciesOf returns which module imports packages of which others.
func dependenciesOf(packages []listed, refs map[string]string) *[]cdx.Dependency {
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
