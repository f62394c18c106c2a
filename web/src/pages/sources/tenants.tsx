import { Alert, Button, Content, Label, Stack, StackItem, Title } from '@patternfly/react-core';
import { Table, Tbody, Td, Th, Thead, Tr } from '@patternfly/react-table';
import { useQuery } from '@tanstack/react-query';
import { Link, useSearchParams } from 'react-router';

import { api, unwrap, type Schemas } from '../../api/client';
import { useNamespace } from '../../components/namespace';
import { ErrorState, LoadingState, NothingState, ProblemAlert } from '../../components/states';

/** Tenants lists the OperatorGroups, what their operators manage, and who may do what with them. */
export function Tenants() {
  const [namespace] = useNamespace();
  const [parameters, setParameters] = useSearchParams();
  const chosen = parameters.get('access');
  const tenants = useQuery({
    queryKey: ['live', 'operatorgroups,subscriptions', 'tenants', namespace],
    queryFn: () => unwrap(api.GET('/api/v1/tenants', { params: { query: { namespace } } })),
  });
  if (tenants.isPending) return <LoadingState what="the OperatorGroups" />;
  if (tenants.isError) return <ErrorState error={tenants.error} onRetry={() => void tenants.refetch()} />;

  const { items, problems = [] } = tenants.data;
  const choose = (name: string) => { setParameters((before) => { before.set('access', name); return before; }); };
  return (
    <Stack hasGutter>
      {problems.map((p) => <StackItem key={p.kind}><ProblemAlert title={`${p.kind} are missing from this list`} message={p.message} advice={p.advice} isForbidden={p.forbidden} /></StackItem>)}
      {items.length === 0 && problems.length === 0 && <StackItem><NothingState title="There are no OperatorGroups">An OperatorGroup decides which namespaces the operators of its namespace manage. OLM Classic installs nothing in a namespace without one. OLM v1 needs none.</NothingState></StackItem>}
      {items.length > 0 && <StackItem><TenantTable tenants={items} onChoose={choose} /></StackItem>}
      {chosen !== null && <StackItem><Access namespace={chosen} /></StackItem>}
    </Stack>
  );
}

function TenantTable({ tenants, onChoose }: { tenants: Schemas['Tenant'][]; onChoose: (namespace: string) => void }) {
  return (
    <Table aria-label="OperatorGroups" variant="compact">
      <Thead><Tr><Th>Namespace</Th><Th modifier="fitContent">OperatorGroup</Th><Th>Operators manage</Th><Th>Operators</Th><Th screenReaderText="Rights" /></Tr></Thead>
      <Tbody>
        {tenants.map((t) => (
          <Tr key={`${t.namespace}/${t.name}`}>
            <Td dataLabel="Namespace">{t.namespace}</Td>
            <Td dataLabel="OperatorGroup">
              {t.name === '' ? 'none' : t.name}
              {t.serviceAccount !== undefined && <div className="mainstay-message">Installs with the rights of service account {t.serviceAccount}</div>}
              {t.problem !== undefined && <Alert isInline isPlain variant="danger" title={t.problem}>{t.advice}</Alert>}
            </Td>
            <Td dataLabel="Operators manage">{t.scope}</Td>
            <Td dataLabel="Operators">
              {(t.operators ?? []).length === 0 ? 'none' : (t.operators ?? []).map((name) => <div key={name}><Link to={`/installed/subscriptions/${encodeURIComponent(t.namespace)}/${encodeURIComponent(name)}`}>{name}</Link></div>)}
            </Td>
            <Td dataLabel="Rights"><Button variant="secondary" size="sm" onClick={() => { onChoose(t.namespace); }} aria-label={`Who may do what in ${t.namespace}`}>Who may do what</Button></Td>
          </Tr>
        ))}
      </Tbody>
    </Table>
  );
}

function Access({ namespace }: { namespace: string }) {
  const access = useQuery({ queryKey: ['tenantaccess', namespace], queryFn: () => unwrap(api.GET('/api/v1/tenants/{name}/access', { params: { path: { name: namespace } } })) });
  return (
    <>
      <Title headingLevel="h2" size="md">Who may do what with operators in {namespace}</Title>
      <Content component="p">As far as you may read roles and their bindings. Members of a group have the rights of the group.</Content>
      {access.isPending && <LoadingState what="the rights" />}
      {access.isError && <ErrorState error={access.error} onRetry={() => void access.refetch()} />}
      {access.isSuccess && (access.data.problems ?? []).map((p) => <ProblemAlert key={p.kind} title={`${p.kind} are missing, and with them rights`} message={p.message} advice={p.advice} isForbidden={p.forbidden} />)}
      {access.isSuccess && access.data.entries.length > 0 && (
        <Table aria-label="Rights" variant="compact">
          <Thead><Tr><Th>Who</Th><Th>May</Th><Th>Where</Th></Tr></Thead>
          <Tbody>
            {access.data.entries.map((e) => (
              <Tr key={`${e.kind}/${e.namespace ?? ''}/${e.name}`}>
                <Td dataLabel="Who"><Label isCompact variant="outline">{e.kind}</Label> {e.namespace === undefined ? e.name : `${e.namespace}/${e.name}`}</Td>
                <Td dataLabel="May">{e.rights.join(', ')}</Td>
                <Td dataLabel="Where">{e.isClusterWide === true ? 'All namespaces' : 'This namespace'}</Td>
              </Tr>
            ))}
          </Tbody>
        </Table>
      )}
      {access.isSuccess && access.data.more !== undefined && <Content component="p">{access.data.more} more are not shown.</Content>}
    </>
  );
}
