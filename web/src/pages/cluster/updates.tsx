import { Alert, Button, Content, Flex, Label, Stack, StackItem, Switch, Title } from '@patternfly/react-core';
import { Table, Tbody, Td, Th, Thead, Tr } from '@patternfly/react-table';
import { Link, useSearchParams } from 'react-router';

import type { Schemas } from '../../api/client';
import { LinkedText } from '../../components/linkedtext';
import { GuardedButton } from '../../components/permissions';
import { NothingState } from '../../components/states';
import { mayChangeVersion } from './data';
import { KnownRisks } from './risks';
import { UpdateDialog } from './updatedialog';

type Option = Schemas['Option'];

/** AvailableUpdates lists the updates by minor version. Those with known issues are shown after a switch. */
export function AvailableUpdates({ cluster }: { cluster: Schemas['ClusterDetails'] }) {
  const [parameters, setParameters] = useSearchParams();
  const showsAll = parameters.get('issues') === 'shown';
  const chosen = parameters.get('update');
  const { minors, blocked, risks } = cluster.settings;
  const all = minors.flatMap((minor) => minor.updates);
  const hidden = all.filter((o) => o.knownIssues === true).length;
  const set = (name: string, value: string) => {
    setParameters((before) => {
      if (value === '') before.delete(name);
      else before.set(name, value);
      return before;
    }, { replace: true });
  };
  return (
    <Stack hasGutter>
      {blocked !== undefined && <StackItem><Blocked blocked={blocked} /></StackItem>}
      {all.length === 0 && <StackItem><NothingState title="No update is available">The update service offers none in the channel of the cluster. Another channel may have one.</NothingState></StackItem>}
      {hidden > 0 && (
        <StackItem>
          <Switch id="issues" label={`Show updates with known issues (${hidden})`} isChecked={showsAll} onChange={(_event, checked) => { set('issues', checked ? 'shown' : ''); }} />
        </StackItem>
      )}
      {all.length > 0 && all.length === hidden && !showsAll && <StackItem><Content component="p">All available updates have known issues.</Content></StackItem>}
      {minors.map((minor) => {
        const updates = minor.updates.filter((o) => showsAll || o.knownIssues !== true);
        return updates.length > 0 && (
          <StackItem key={minor.version}>
            <Title headingLevel="h2" size="md">Updates to {minor.version}</Title>
            <UpdateTable updates={updates} onChoose={(version) => { set('update', version); }} />
          </StackItem>
        );
      })}
      {risks !== undefined && showsAll && <StackItem><KnownRisks risks={risks} generation={cluster.settings.generation} /></StackItem>}
      {chosen !== null && <UpdateDialog version={chosen} pools={cluster.pools ?? []} onClose={() => { set('update', ''); }} />}
    </Stack>
  );
}

function Blocked({ blocked }: { blocked: Schemas['Blocker'] }) {
  return (
    <Alert
      isInline component="h2" variant="warning" title="Updates to another minor version are blocked"
      actionLinks={<Flex><Link to="?tab=operators&state=CannotUpdate">ClusterOperators that cannot be updated</Link><Link to="/installed">Installed operators</Link></Flex>}
    >
      <p>{blocked.reason}: <LinkedText text={blocked.message} /></p>
      <p>Updates to patch versions are possible.</p>
    </Alert>
  );
}

function UpdateTable({ updates, onChoose }: { updates: Option[]; onChoose: (version: string) => void }) {
  return (
    <Table aria-label="Available updates" variant="compact">
      <Thead><Tr><Th>Version</Th><Th>Recommended</Th><Th>Known issues</Th><Th screenReaderText="Action" /></Tr></Thead>
      <Tbody>
        {updates.map((option) => (
          <Tr key={option.release.version}>
            <Td dataLabel="Version">
              {option.release.version}
              {option.release.url !== undefined && <>{' '}<Button component="a" variant="link" isInline href={option.release.url} target="_blank" rel="noreferrer">Release notes</Button></>}
            </Td>
            <Td dataLabel="Recommended"><Recommendation option={option} /></Td>
            <Td dataLabel="Known issues" className="mainstay-message">
              {option.message === undefined ? 'None that concerns this cluster' : <LinkedText text={option.message} />}
              {option.accepted !== undefined && <div>Accepted: {option.accepted.join(', ')}</div>}
            </Td>
            <Td isActionCell>
              <GuardedButton variant="secondary" size="sm" permissions={mayChangeVersion} onClick={() => { onChoose(option.release.version); }} aria-label={`Update to ${option.release.version}`}>Update</GuardedButton>
            </Td>
          </Tr>
        ))}
      </Tbody>
    </Table>
  );
}

const assessments: Readonly<Record<Option['assessment'], readonly ['success' | 'warning' | 'danger', string]>> = {
  Recommended: ['success', 'Recommended'], Blocked: ['warning', 'Blocked by the cluster'], Unknown: ['warning', 'Not known yet'], NotRecommended: ['danger', 'Not recommended'],
};

function Recommendation({ option: { assessment } }: { option: Option }) {
  const [status, word] = assessments[assessment];
  return <Label isCompact variant="outline" status={status}>{word}</Label>;
}
