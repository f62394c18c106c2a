import { Alert, FormSelect, FormSelectOption, PageSection } from '@patternfly/react-core';
import { useState } from 'react';
import { useNavigate, useParams, useSearchParams } from 'react-router';

import { DetailsHeader } from '../../components/details';
import { useNamespace } from '../../components/namespace';
import { formatScalar, getAt } from '../../components/schemaform/schema';
import { ErrorState, LoadingState } from '../../components/states';
import { Editor } from './editor';
import { useOperand } from './object';
import { listAddress, missingPermission, newObject, objectAddress, pageAddress, useAccess, useDefinition, useResource, withoutStatus } from './shared';

/** CreateOperandPage creates a custom resource, beginning with an example of the operator. */
export function CreateOperandPage() {
  const resource = useResource();
  const [namespace] = useNamespace();
  const navigate = useNavigate();
  const [parameters, setParameters] = useSearchParams();
  const access = useAccess(resource, namespace);
  const definition = useDefinition(resource, namespace);
  const example = Number(parameters.get('example') ?? '0');
  const list = listAddress(resource, namespace);
  return (
    <>
      <DetailsHeader title={`Create ${definition.data?.kind ?? resource.plural}`} parent={{ path: list, title: definition.data?.displayName ?? definition.data?.kind ?? resource.plural }}>
        {!access.create && namespace !== '' && <Alert isInline isPlain variant="warning" title={missingPermission('create', resource, namespace)} />}
      </DetailsHeader>
      {definition.isPending && <LoadingState what="the schema" />}
      {definition.isError && <ErrorState error={definition.error} onRetry={() => void definition.refetch()} />}
      {definition.isSuccess && definition.data.examples.length > 1 && (
        <PageSection>
          <FormSelect aria-label="Example" value={example} onChange={(_event, value) => { setParameters((before) => { before.set('example', value); return before; }); }}>
            {definition.data.examples.map((sample, index) => <FormSelectOption key={index} value={index} label={`Example ${index + 1}: ${formatScalar(getAt(sample, ['metadata', 'name']))}`} />)}
          </FormSelect>
        </PageSection>
      )}
      {definition.isSuccess && (
        <Editor
          key={example} resource={resource} namespace={namespace} definition={definition.data} initial={newObject(definition.data, resource, namespace, example)}
          onWritten={(object) => void navigate(objectAddress(resource, formatScalar(getAt(object, ['metadata', 'namespace'])), formatScalar(getAt(object, ['metadata', 'name']))))}
          onCancel={() => void navigate(list)}
        />
      )}
    </>
  );
}

/** EditOperandPage edits a custom resource. Changes of others are shown when the user saves, and not before. */
export function EditOperandPage() {
  const resource = useResource();
  const { name = '' } = useParams();
  const [namespace] = useNamespace();
  const navigate = useNavigate();
  const definition = useDefinition(resource, namespace);
  const operand = useOperand({ resource, namespace, name });
  const address = pageAddress(resource, namespace, name);
  // Editing begins with the object as it was read first, whatever changes later.
  const [first, setFirst] = useState<Record<string, unknown>>();
  if (first === undefined && operand.isSuccess && !operand.isFetching) setFirst(operand.data.object);
  return (
    <>
      <DetailsHeader title={`Edit ${name}`} parent={{ path: address, title: name }} />
      {(operand.isPending || definition.isPending) && <LoadingState what="the object" />}
      {operand.isError && <ErrorState error={operand.error} onRetry={() => void operand.refetch()} />}
      {definition.isError && <ErrorState error={definition.error} onRetry={() => void definition.refetch()} />}
      {first !== undefined && definition.isSuccess && (
        <Editor resource={resource} namespace={namespace} definition={definition.data} initial={withoutStatus(first)} onWritten={() => void navigate(address)} onCancel={() => void navigate(address)} />
      )}
    </>
  );
}
