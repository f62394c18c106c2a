import { Alert, Card, CardBody, CardTitle, List, ListItem, Stack, StackItem, Title } from '@patternfly/react-core';

import type { Schemas } from '../api/client';
import { asSentence } from './sentence';

/** ExplanationCard says why something is as it is, and what a person can do: the words of `mainstay … explain`. */
export function ExplanationCard({ explanation }: { explanation: Schemas['Explanation'] }) {
  const { summary, why = [], do: advice = [] } = explanation;
  if (why.length === 0 && advice.length === 0) return <Alert isInline component="h2" variant="info" title={asSentence(summary)} />;
  return (
    <Card>
      <CardTitle component="h2">{asSentence(summary)}</CardTitle>
      <CardBody>
        <Stack hasGutter>
          {why.length > 0 && (
            <StackItem>
              <Title headingLevel="h3" size="md">Why</Title>
              <Reasons reasons={why} />
            </StackItem>
          )}
          {advice.length > 0 && (
            <StackItem>
              <Title headingLevel="h3" size="md">What to do</Title>
              <List>{advice.map((text) => <ListItem key={text}>{text}</ListItem>)}</List>
            </StackItem>
          )}
        </Stack>
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
