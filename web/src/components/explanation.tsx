import { Card, CardBody, CardTitle, Content, List, ListItem } from '@patternfly/react-core';

import type { Schemas } from '../api/client';

/** ExplanationCard says why something is as it is, and what a person can do: the words of `mainstay … explain`. */
export function ExplanationCard({ explanation }: { explanation: Schemas['Explanation'] }) {
  const { summary, why, do: advice } = explanation;
  return (
    <Card>
      <CardTitle>{summary.replace(/^it /, 'It ')}</CardTitle>
      <CardBody>
        {why !== undefined && why.length > 0 && (
          <>
            <Content component="h2">Why</Content>
            <Reasons reasons={why} />
          </>
        )}
        {advice !== undefined && advice.length > 0 && (
          <>
            <Content component="h2">What to do</Content>
            <List>{advice.map((text) => <ListItem key={text}>{text}</ListItem>)}</List>
          </>
        )}
      </CardBody>
    </Card>
  );
}

function Reasons({ reasons }: { reasons: Schemas['Reason'][] }) {
  return (
    <List>
      {reasons.map((reason) => (
        <ListItem key={reason.text}>
          {reason.text}
          {reason.because !== undefined && reason.because.length > 0 && <Reasons reasons={reason.because} />}
        </ListItem>
      ))}
    </List>
  );
}
