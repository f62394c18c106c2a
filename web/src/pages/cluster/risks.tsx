import { Title } from '@patternfly/react-core';
import { Table, Tbody, Td, Th, Thead, Tr } from '@patternfly/react-table';

import { api, ApiError, unwrap, type Schemas } from '../../api/client';
import { LinkedText } from '../../components/linkedtext';
import { GuardedButton } from '../../components/permissions';
import { ProblemAlert } from '../../components/states';
import { mayChangeVersion, useWrite } from './data';

const applies: Readonly<Record<Schemas['UpdateRisk']['applies'], string>> = { True: 'Applies to this cluster', False: 'Does not apply to this cluster', Unknown: 'Not known whether it applies' };

/** KnownRisks lists the known issues of updates. An accepted one no longer prevents an update from being recommended. */
export function KnownRisks({ risks, generation }: { risks: Schemas['UpdateRisk'][]; generation: number }) {
  const accept = useWrite((names: string[]) => unwrap(api.POST('/api/v1/cluster/risks', { body: { risks: names, generation } })), () => undefined);
  const accepted = risks.filter((risk) => risk.accepted).map((risk) => risk.name);
  const toggle = ({ name, accepted: isAccepted }: Schemas['UpdateRisk']) => { accept.mutate(isAccepted ? accepted.filter((a) => a !== name) : [...accepted, name]); };
  return (
    <>
      <Title headingLevel="h2" size="md">Known issues</Title>
      {accept.isError && <ProblemAlert title="This was not done" message={accept.error.message} advice={accept.error instanceof ApiError ? accept.error.advice : undefined} />}
      <Table aria-label="Known issues" variant="compact">
        <Thead><Tr><Th>Issue</Th><Th>Applies</Th><Th>Updates</Th><Th screenReaderText="Action" /></Tr></Thead>
        <Tbody>
          {risks.map((risk) => (
            <Tr key={risk.name}>
              <Td dataLabel="Issue">{risk.name}<div className="mainstay-message"><LinkedText text={`${risk.message} ${risk.url}`} /></div></Td>
              <Td dataLabel="Applies">{applies[risk.applies]}{risk.accepted && <div>Accepted</div>}</Td>
              <Td dataLabel="Updates">{risk.versions.join(', ')}</Td>
              <Td isActionCell>
                <GuardedButton variant="secondary" size="sm" permissions={mayChangeVersion} isDisabled={accept.isPending} onClick={() => { toggle(risk); }}>
                  {risk.accepted ? 'No longer accept' : 'Accept'}
                </GuardedButton>
              </Td>
            </Tr>
          ))}
        </Tbody>
      </Table>
    </>
  );
}
