import { apply, kubectl, pushCatalog } from './site.ts';

/** versions are those of the kettle operator. Each replaces the one before. */
export const versions = ['1.0.0', '1.1.0'] as const;

const kettle = { group: 'kitchen.example.com', version: 'v1', kind: 'Kettle' };
const crdName = 'kettles.kitchen.example.com';

function crd(): object {
  return {
    apiVersion: 'apiextensions.k8s.io/v1', kind: 'CustomResourceDefinition', metadata: { name: crdName },
    spec: {
      group: kettle.group, scope: 'Namespaced', names: { kind: 'Kettle', listKind: 'KettleList', plural: 'kettles', singular: 'kettle' },
      versions: [{
        name: kettle.version, served: true, storage: true, subresources: { status: {} },
        schema: { openAPIV3Schema: { type: 'object', properties: { spec: { type: 'object', properties: { liters: { type: 'integer', minimum: 1 } } }, status: { type: 'object' } } } },
      }],
    },
  };
}

function csv(version: string, annotations: Record<string, string>): object {
  const labels = { app: 'kettle' };
  const mode = (type: string) => ({ type, supported: type === 'OwnNamespace' || type === 'SingleNamespace' });
  return {
    apiVersion: 'operators.coreos.com/v1alpha1', kind: 'ClusterServiceVersion',
    metadata: {
      name: `kettle.v${version}`,
      annotations: {
        description: 'Boils water.', 'operatorframework.io/suggested-namespace': 'kitchen',
        'alm-examples': JSON.stringify([{ apiVersion: `${kettle.group}/${kettle.version}`, kind: 'Kettle', metadata: { name: 'first-kettle' }, spec: { liters: 2 } }]),
        ...annotations,
      },
    },
    spec: {
      displayName: 'Kettle', description: 'It boils water.', version, provider: { name: 'Kitchen' },
      installModes: ['OwnNamespace', 'SingleNamespace', 'MultiNamespace', 'AllNamespaces'].map(mode),
      customresourcedefinitions: { owned: [{ name: crdName, kind: 'Kettle', version: kettle.version, displayName: 'Kettle' }] },
      install: {
        strategy: 'deployment',
        spec: {
          permissions: [{ serviceAccountName: 'kettle', rules: [{ apiGroups: [kettle.group], resources: ['kettles'], verbs: ['get', 'list', 'watch'] }] }],
          deployments: [{
            name: 'kettle',
            spec: { replicas: 1, selector: { matchLabels: labels }, template: { metadata: { labels }, spec: { serviceAccountName: 'kettle', containers: [{ name: 'kettle', image: `registry.example.com/kettle:v${version}` }] } } },
          }],
        },
      },
    },
  };
}

/** operatorBlobs returns a package with the kettle operator. Its bundles are in the catalog, and not in images. */
function operatorBlobs(annotations: Record<string, string>): object[] {
  const name = 'kettle';
  const bundle = (version: string) => `${name}.v${version}`;
  const [first, second] = versions;
  return [
    { schema: 'olm.package', name, defaultChannel: 'stable' },
    { schema: 'olm.channel', package: name, name: 'stable', entries: [{ name: bundle(first) }, { name: bundle(second), replaces: bundle(first) }] },
    { schema: 'olm.channel', package: name, name: 'old', entries: [{ name: bundle(first) }] },
    { schema: 'olm.deprecations', package: name, entries: [{ reference: { schema: 'olm.channel', name: 'old' }, message: 'Use channel stable.' }] },
    ...versions.map((version) => ({
      schema: 'olm.bundle', package: name, name: bundle(version), image: '',
      properties: [
        { type: 'olm.package', value: { packageName: name, version } },
        { type: 'olm.gvk', value: kettle },
        ...[csv(version, annotations), crd()].map((object) => ({ type: 'olm.bundle.object', value: { data: btoa(JSON.stringify(object)) } })),
      ],
    })),
  ];
}

/** addKettles adds a CatalogSource with the package kettle to the global namespace. The returned function removes it. */
export async function addKettles(annotations: Record<string, string> = {}): Promise<() => Promise<void>> {
  const image = await pushCatalog('kitchen', operatorBlobs(annotations));
  await apply({
    apiVersion: 'operators.coreos.com/v1alpha1', kind: 'CatalogSource', metadata: { name: 'kitchen', namespace: 'olm' },
    spec: { sourceType: 'grpc', image, displayName: 'Kitchen operators', publisher: 'Kitchen', grpcPodConfig: { securityContextConfig: 'restricted' } },
  });
  return async () => { await kubectl('delete', 'catalogsource', 'kitchen', '-n', 'olm'); };
}
