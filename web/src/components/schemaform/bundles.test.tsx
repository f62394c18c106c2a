// Every CRD of the real bundles in shared/data, which is beside the repository in some places, has a form.
import { QueryClient, QueryClientProvider } from '@tanstack/react-query';
import { cleanup, render } from '@testing-library/react';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { parseAllDocuments } from 'yaml';

import { isRecord } from '../yamltext';
import { SchemaForm, type Descriptor } from '.';
import { getAt } from './schema';

afterEach(cleanup);
vi.setConfig({ testTimeout: 600_000 });

const folder = ['../../shared/data/bundles', '../../../shared/data/bundles'].map((path) => resolve(path)).find((path) => existsSync(path));

/** readManifests returns the objects of a bundle. */
function readManifests(path: string): unknown[] {
  return readdirSync(path).filter((name) => /\.ya?ml$/.test(name)).flatMap((name) =>
    parseAllDocuments(readFileSync(join(path, name), 'utf8'), { prettyErrors: false }).flatMap((document) => ('errors' in document && document.errors.length === 0 ? [document.toJS() as unknown] : [])));
}

/** listBundles returns the newest bundle of each package. */
function listBundles(root: string): string[] {
  return readdirSync(root, { withFileTypes: true }).filter((entry) => entry.isDirectory()).flatMap(({ name }) => {
    const versions = readdirSync(join(root, name)).filter((version) => existsSync(join(root, name, version, 'manifests')));
    const newest = versions.toSorted((a, b) => a.localeCompare(b, 'en', { numeric: true })).at(-1);
    return newest === undefined ? [] : [join(root, name, newest, 'manifests')];
  });
}

function readList(value: unknown, ...path: string[]): unknown[] {
  const list = getAt(value, path);
  return Array.isArray(list) ? list as unknown[] : [];
}

/** readExamples returns the sample objects of a ClusterServiceVersion. */
function readExamples(csv: unknown): unknown[] {
  const text = getAt(csv, ['metadata', 'annotations', 'alm-examples']);
  return typeof text === 'string' ? JSON.parse(text) as unknown[] : [];
}

describe.skipIf(folder === undefined)('the forms of real CRDs', () => {
  it.each(folder === undefined ? [] : listBundles(folder))('%s', (path) => {
    const objects = readManifests(path);
    const csv = objects.find((object) => isRecord(object) && object['kind'] === 'ClusterServiceVersion');
    const examples = readExamples(csv);
    for (const crd of objects.filter((object) => isRecord(object) && object['kind'] === 'CustomResourceDefinition')) {
      const name = getAt(crd, ['metadata', 'name']);
      const owned = readList(csv, 'spec', 'customresourcedefinitions', 'owned').find((description) => getAt(description, ['name']) === name);
      const example = examples.find((object) => getAt(object, ['kind']) === getAt(crd, ['spec', 'names', 'kind']));
      for (const version of readList(crd, 'spec', 'versions')) {
        const schema = getAt(version, ['schema', 'openAPIV3Schema', 'properties', 'spec']);
        if (schema === undefined) continue;
        const onChange = vi.fn();
        const { container, unmount } = render(
          <QueryClientProvider client={new QueryClient()}>
            <SchemaForm schema={schema} value={getAt(example, ['spec'])} onChange={onChange} descriptors={readList(owned, 'specDescriptors') as Descriptor[]} />
          </QueryClientProvider>,
        );
        expect(container.querySelectorAll('input, select, textarea, button, .pf-v6-c-skeleton').length, String(name)).toBeGreaterThan(0);
        expect(onChange).not.toHaveBeenCalled();
        unmount();
      }
    }
  });
});
