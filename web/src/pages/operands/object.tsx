import { Button, Card, CardBody, CardTitle, Flex, FlexItem, List, ListItem, PageSection, Stack, StackItem, Tab, Tabs, TabTitleText, Tooltip } from '@patternfly/react-core';
import { Table, Tbody, Td, Th, Thead, Tr } from '@patternfly/react-table';
import { useMutation, useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { Link, useNavigate, useParams, useSearchParams } from 'react-router';

import { api, unwrap, type Schemas } from '../../api/client';
import { ConfirmDialog } from '../../components/confirm';
import { Conditions, DetailsHeader, Facts } from '../../components/details';
import { LivenessHint } from '../../components/liveness';
import { useNamespace } from '../../components/namespace';
import { formatScalar, getAt } from '../../components/schemaform/schema';
import { ErrorState, LoadingState, NothingState, ProblemAlert } from '../../components/states';
import { Age } from '../../components/time';
import { YamlViewer } from '../../components/yaml';
import { formatYaml, isRecord, isSame } from '../../components/yamltext';
import { useLive } from '../../live';
import { editAddress, listAddress, liveKind, maskSecrets, missingPermission, useAccess, useDefinition, useResource, type ResourcePath } from './shared';
import { DescribedFacts } from './value';

type Details = Schemas['OperandDetails'];
type Definition = Schemas['OperandDefinition'];

/** Target is a custom resource in the address. */
interface Target {
  resource: ResourcePath;
  namespace: string;
  name: string;
}

/** useOperand reads the custom resource in the address. */
export function useOperand({ resource, namespace, name }: Target) {
  return useQuery({
    queryKey: ['live', liveKind(resource), 'operand', namespace, name],
    queryFn: () => unwrap(api.GET('/api/v1/operands/{group}/{version}/{plural}/object', { params: { path: resource, query: { namespace, name } } })),
  });
}

/** OperandPage shows a custom resource: what its operator describes, conditions, YAML, and the objects that it owns. */
export function OperandPage() {
  const resource = useResource();
  const { name = '' } = useParams();
  const [namespace] = useNamespace();
  const target = { resource, namespace, name };
  const liveness = useLive([liveKind(resource)], namespace);
  const definition = useDefinition(resource, namespace);
  const operand = useOperand(target);
  const [parameters, setParameters] = useSearchParams();
  const tab = parameters.get('tab') ?? 'details';
  const setTab = (value: string) => {
    setParameters((before) => {
      before.set('tab', value);
      return before;
    }, { replace: true });
  };
  return (
    <>
      <DetailsHeader title={name} parent={{ path: listAddress(resource, namespace), title: definition.data?.displayName ?? definition.data?.kind ?? resource.plural }}>
        <LivenessHint liveness={liveness} />
        {operand.isSuccess && <Actions target={target} details={operand.data} />}
      </DetailsHeader>
      <PageSection isFilled>
        {operand.isPending && <LoadingState what="the object" />}
        {operand.isError && <ErrorState error={operand.error} onRetry={() => void operand.refetch()} />}
        {operand.isSuccess && (
          <Tabs activeKey={tab} onSelect={(_event, key) => { setTab(String(key)); }} mountOnEnter unmountOnExit aria-label={`About ${name}`}>
            <Tab eventKey="details" title={<TabTitleText>Details</TabTitleText>}><DetailsTab details={operand.data} definition={definition.data} /></Tab>
            <Tab eventKey="yaml" title={<TabTitleText>YAML</TabTitleText>}><YamlTab details={operand.data} definition={definition.data} /></Tab>
            <Tab eventKey="related" title={<TabTitleText>Related objects</TabTitleText>}><RelatedTab target={target} /></Tab>
          </Tabs>
        )}
      </PageSection>
    </>
  );
}

function Actions({ target, details }: { target: Target; details: Details }) {
  const { resource, namespace, name } = target;
  const access = useAccess(resource, namespace, name);
  const [isDeleting, setDeleting] = useState(false);
  const isGone = getAt(details.object, ['metadata', 'deletionTimestamp']) !== undefined;
  return (
    <Flex>
      <FlexItem>
        {access.update
          ? <Button variant="primary" component={(props) => <Link {...props} to={editAddress(resource, namespace, name)} />}>Edit</Button>
          : <Tooltip content={missingPermission('update', resource, namespace)}><Button variant="primary" isAriaDisabled>Edit</Button></Tooltip>}
      </FlexItem>
      <FlexItem>
        {access.delete
          ? <Button variant="danger" isDisabled={isGone} onClick={() => { setDeleting(true); }}>{isGone ? 'Being deleted' : 'Delete'}</Button>
          : <Tooltip content={missingPermission('delete', resource, namespace)}><Button variant="danger" isAriaDisabled>Delete</Button></Tooltip>}
      </FlexItem>
      {isDeleting && <DeleteDialog target={target} details={details} onClose={() => { setDeleting(false); }} />}
    </Flex>
  );
}

function DeleteDialog({ target: { resource, namespace, name }, details, onClose }: { target: Target; details: Details; onClose: () => void }) {
  const navigate = useNavigate();
  const uid = formatScalar(getAt(details.object, ['metadata', 'uid']));
  const finalizers = getAt(details.object, ['metadata', 'finalizers']);
  const removal = useMutation({
    mutationFn: () => unwrap(api.POST('/api/v1/operands/{group}/{version}/{plural}/delete', { params: { path: resource }, body: { namespace, name, uid } })),
    onSuccess: () => navigate(listAddress(resource, namespace)),
  });
  return (
    <ConfirmDialog title={`Delete ${name}?`} action="Delete" typed={name} isDanger isPending={removal.isPending} error={removal.error} onConfirm={() => { removal.mutate(); }} onClose={onClose}>
      <p>The operator removes what it created for {name}. That can include data that cannot be restored.</p>
      {Array.isArray(finalizers) && finalizers.length > 0 && (
        <>
          <p>The object stays until these finalizers are removed, usually by the operator:</p>
          <List>{finalizers.map(formatScalar).map((finalizer) => <ListItem key={finalizer}>{finalizer}</ListItem>)}</List>
        </>
      )}
    </ConfirmDialog>
  );
}

function DetailsTab({ details, definition }: { details: Details; definition: Definition | undefined }) {
  const labels = getAt(details.object, ['metadata', 'labels']);
  return (
    <Stack hasGutter>
      <StackItem>
        <Card>
          <CardTitle>Details</CardTitle>
          <CardBody>
            <Facts
              facts={[
                ['State', details.state ?? 'The object reports none.'], ['Problem', details.message], ['Kind', formatScalar(details.object['kind'])],
                ['Namespace', formatScalar(getAt(details.object, ['metadata', 'namespace']))],
                ['Created', <Age key="created" time={formatScalar(getAt(details.object, ['metadata', 'creationTimestamp']))} />],
                ['Labels', isRecord(labels) ? Object.entries(labels).map(([key, value]) => `${key}=${formatScalar(value)}`).join(', ') : undefined],
              ]}
            />
          </CardBody>
        </Card>
      </StackItem>
      {definition !== undefined && definition.statusDescriptors.length > 0 && (
        <StackItem><Card><CardTitle>Status</CardTitle><CardBody><DescribedFacts descriptors={definition.statusDescriptors} value={details.object['status']} /></CardBody></Card></StackItem>
      )}
      {definition !== undefined && definition.specDescriptors.length > 0 && (
        <StackItem><Card><CardTitle>Configuration</CardTitle><CardBody><DescribedFacts descriptors={definition.specDescriptors} value={details.object['spec']} /></CardBody></Card></StackItem>
      )}
      {details.conditions !== undefined && (
        <StackItem><Card><CardTitle>Conditions</CardTitle><CardBody><Conditions conditions={details.conditions} /></CardBody></Card></StackItem>
      )}
    </Stack>
  );
}

function YamlTab({ details, definition }: { details: Details; definition: Definition | undefined }) {
  const [isShown, setShown] = useState(false);
  if (definition === undefined) return <LoadingState what="which values are secret" />;
  const masked = maskSecrets(details.object, definition.specDescriptors);
  const hasSecrets = !isSame(masked, details.object);
  return (
    <>
      {hasSecrets && <Button variant="link" onClick={() => { setShown(!isShown); }}>{isShown ? 'Hide secret values' : 'Show secret values'}</Button>}
      <YamlViewer label="The object as YAML" value={formatYaml(isShown ? details.object : masked)} />
    </>
  );
}

function RelatedTab({ target: { resource, namespace, name } }: { target: Target }) {
  const related = useQuery({
    queryKey: ['live', liveKind(resource), 'related', namespace, name],
    queryFn: () => unwrap(api.GET('/api/v1/operands/{group}/{version}/{plural}/related', { params: { path: resource, query: { namespace, name } } })),
  });
  if (related.isPending) return <LoadingState what="the related objects" />;
  if (related.isError) return <ErrorState error={related.error} onRetry={() => void related.refetch()} />;
  const { items, forbidden = [], incomplete = [] } = related.data;
  return (
    <>
      {forbidden.length > 0 && <ProblemAlert title="Some kinds are missing" message={`You may not list: ${forbidden.join(', ')}.`} isForbidden />}
      {incomplete.length > 0 && <ProblemAlert title="Some objects are missing" message={`There are too many objects of these kinds to search all: ${incomplete.join(', ')}.`} />}
      {items.length === 0 && <NothingState title="No related objects">No object that you may list is owned by {name}.</NothingState>}
      {items.length > 0 && (
        <Table aria-label="Related objects" variant="compact">
          <Thead><Tr><Th>Kind</Th><Th>Namespace</Th><Th>Name</Th><Th>Created</Th></Tr></Thead>
          <Tbody>
            {items.map((item) => (
              <Tr key={`${item.apiVersion}/${item.kind}/${item.namespace ?? ''}/${item.name}`}>
                <Td dataLabel="Kind">{item.kind}</Td><Td dataLabel="Namespace">{item.namespace}</Td><Td dataLabel="Name">{item.name}</Td><Td dataLabel="Created"><Age time={item.created} /></Td>
              </Tr>
            ))}
          </Tbody>
        </Table>
      )}
    </>
  );
}
