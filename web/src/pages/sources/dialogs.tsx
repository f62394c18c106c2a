import { Content, List, ListItem } from '@patternfly/react-core';
import { useQuery } from '@tanstack/react-query';

import { api, ApiError, unwrap, type Schemas } from '../../api/client';
import { ConfirmDialog } from '../../components/confirm';
import { LoadingState, ProblemAlert } from '../../components/states';
import { useWrite } from '../cluster/data';
import type { Source, SourceAction } from './data';
import { AddDialog, EditDialog } from './forms';

interface Props {
  source?: Source | undefined;
  action: SourceAction | 'add';
  hubRevision?: string | undefined;
  onClose: () => void;
}

/** SourceDialog asks before something is done with a catalog. */
export function SourceDialog({ source, action, hubRevision, onClose }: Props) {
  if (source === undefined) return <AddDialog onClose={onClose} />;
  switch (action) {
    case 'add':
      return <AddDialog onClose={onClose} />;
    case 'edit':
      return <EditDialog source={source} onClose={onClose} />;
    case 'delete':
      return <DeleteDialog source={source} onClose={onClose} />;
    case 'refresh':
      return <RefreshDialog source={source} onClose={onClose} />;
    case 'enable':
    case 'disable':
      return <EnableDialog source={source} isEnabled={action === 'enable'} hubRevision={hubRevision} onClose={onClose} />;
  }
}

function RefreshDialog({ source: { name }, onClose }: { source: Source; onClose: () => void }) {
  const refresh = useWrite(() => unwrap(api.POST('/api/v1/sources/{name}/refresh', { params: { path: { name } } })), onClose);
  return (
    <ConfirmDialog title={`Poll ${name} now`} action="Poll now" isPending={refresh.isPending} error={refresh.error} onConfirm={() => { refresh.mutate(undefined); }} onClose={onClose}>
      <Content component="p">The tag of the image is looked up now instead of at the end of the interval. New content is served, and extensions are updated to it.</Content>
    </ConfirmDialog>
  );
}

function EnableDialog({ source, isEnabled, hubRevision, onClose }: { source: Source; isEnabled: boolean; hubRevision?: string | undefined; onClose: () => void }) {
  const { name, isDefault, revision = '' } = source;
  const path = { name };
  const change = useWrite(() => (isDefault === true
    ? unwrap(api.POST('/api/v1/default-sources/{name}', { params: { path }, body: { enabled: isEnabled, revision: hubRevision ?? '' } }))
    : unwrap(api.POST('/api/v1/sources/{name}/settings', { params: { path }, body: { enabled: isEnabled, revision } }))), onClose);
  const verb = isEnabled ? 'Enable' : 'Disable';
  return (
    <ConfirmDialog title={`${verb} ${name}`} action={verb} isPending={change.isPending} error={change.error} onConfirm={() => { change.mutate(undefined); }} onClose={onClose}>
      <Content component="p">
        {isEnabled
          ? 'The content of the catalog is read and served again.'
          : 'The catalog is no longer served. What is installed from it stays, and gets no updates until the catalog is enabled.'}
      </Content>
      {isDefault === true && <Content component="p">It is a default catalog: the change is written to the OperatorHub of the cluster.</Content>}
    </ConfirmDialog>
  );
}

function DeleteDialog({ source, onClose }: { source: Source; onClose: () => void }) {
  const { name, namespace = '' } = source;
  const params = { path: { name }, query: { namespace } };
  const plan = useQuery({ queryKey: ['live', 'subscriptions,clusterextensions', 'deletion', namespace, name], queryFn: () => unwrap(api.GET('/api/v1/sources/{name}/deletion', { params })) });
  const typed = plan.data?.typed;
  const remove = useWrite(() => unwrap(api.POST('/api/v1/sources/{name}/deletion', {
    params, body: { typed: typed ?? '', revision: plan.data?.revision ?? '' },
  })), onClose);
  return (
    <ConfirmDialog
      title={`Delete ${namespace === '' ? name : `${namespace}/${name}`}`} action="Delete" isDanger typed={typed} isDisabled={!plan.isSuccess} isPending={remove.isPending}
      error={remove.error} onConfirm={() => { remove.mutate(undefined); }} onClose={onClose}
    >
      {plan.isPending && <LoadingState what="what depends on the catalog" />}
      {plan.isError && <ProblemAlert title="What depends on the catalog is not known" message={plan.error.message} advice={plan.error instanceof ApiError ? plan.error.advice : undefined} />}
      {plan.isSuccess && <DeletionPlan plan={plan.data} />}
    </ConfirmDialog>
  );
}

function DeletionPlan({ plan: { text, dependents = [], problems = [] } }: { plan: Schemas['DeletionPlan'] }) {
  return (
    <>
      <Content component="p">{text}</Content>
      {problems.map((p) => <ProblemAlert key={p.kind} title={`${p.kind} could not be listed: some of them may depend on the catalog`} message={p.message} advice={p.advice} isForbidden={p.forbidden} />)}
      {dependents.length === 0 && problems.length === 0 && <Content component="p">Nothing that is installed depends on it.</Content>}
      {dependents.length > 0 && (
        <List>
          {dependents.map((d) => <ListItem key={`${d.kind}/${d.namespace ?? ''}/${d.name}`}>{d.kind} {d.namespace === undefined ? d.name : `${d.namespace}/${d.name}`} (package {d.package}): {d.text}</ListItem>)}
        </List>
      )}
    </>
  );
}
