import { Grid, GridItem, TextInput } from '@patternfly/react-core';

import { isRecord } from '../yamltext';
import { fieldId, useForm } from './context';
import type { NamedProps } from './field';
import { formatScalar, withField } from './schema';

const sections = [{ name: 'requests', title: 'Request' }, { name: 'limits', title: 'Limit' }] as const;

const resources = [
  { name: 'cpu', title: 'CPU', example: '500m' },
  { name: 'memory', title: 'memory', example: '256Mi' },
  { name: 'ephemeral-storage', title: 'storage', example: '1Gi' },
] as const;

/** ResourceInput edits the requests and limits of a container. */
export function ResourceInput({ path, value, onChange, label }: NamedProps) {
  const form = useForm();
  return (
    <Grid hasGutter sm={12} md={4}>
      {sections.map((section) => resources.map((resource) => {
        const quantities = isRecord(value) ? value[section.name] : undefined;
        const title = `${section.title} of ${resource.title}`;
        const change = (text: string) => {
          const changed = withField(quantities, resource.name, text === '' ? undefined : text);
          const all = withField(value, section.name, Object.keys(changed).length > 0 ? changed : undefined);
          onChange(Object.keys(all).length > 0 ? all : undefined);
        };
        return (
          <GridItem key={title}>
            <label htmlFor={`${fieldId(form, path)}-${section.name}-${resource.name}`}>{title}</label>
            <TextInput
              id={`${fieldId(form, path)}-${section.name}-${resource.name}`} aria-label={`${label}: ${title}`} placeholder={resource.example}
              value={isRecord(quantities) ? formatScalar(quantities[resource.name]) : ''} onChange={(_event, text) => { change(text); }}
            />
          </GridItem>
        );
      }))}
    </Grid>
  );
}
