import { Alert, Card, CardBody, CardTitle, CodeBlock, CodeBlockCode, Content, ExpandableSection, Label, List, ListItem, Stack, StackItem } from '@patternfly/react-core';
import { useState, type ReactNode } from 'react';

import type { Schemas } from '../api/client';
import { ProblemAlert } from './states';
import { asSentence } from './sentence';

type Plan = Schemas['PlanDetails'];

/** PlanCard shows what a change of an extension would do: the plan of operator-controller. */
export function PlanCard({ preview, title }: { preview: Schemas['PlanPreview']; title: string }) {
  const { plan, refusal, messages = [] } = preview;
  return (
    <Card>
      <CardTitle component="h2">{title}</CardTitle>
      <CardBody>
        <Stack hasGutter>
          {refusal !== undefined && (
            <StackItem>
              <ProblemAlert title="This would be refused" message={plan === undefined ? refusal.detail : ''} advice={refusal.advice} />
              {plan?.problems !== undefined && <Lines title="Problems" lines={plan.problems.map((p) => `${p.check}: ${p.message}`)} />}
            </StackItem>
          )}
          <StackItem><Messages messages={messages} /></StackItem>
          {plan === undefined && refusal === undefined && <StackItem>There is no plan to show, because you are not allowed to read it. The controller reports problems after the change.</StackItem>}
          {plan !== undefined && <StackItem><PlanContents plan={plan} /></StackItem>}
        </Stack>
      </CardBody>
    </Card>
  );
}

/** Messages shows what an operation reported. */
export function Messages({ messages }: { messages: readonly Schemas['Message'][] }) {
  return <>{messages.map((m) => <Alert key={m.text} isInline isPlain variant={m.isWarning === true ? 'warning' : 'info'} title={m.text} />)}</>;
}

function PlanContents({ plan }: { plan: Plan }) {
  const { bundle, contents, objects } = plan;
  return (
    <Stack hasGutter>
      <StackItem><Content component="p">{summarizePlan(plan)}</Content></StackItem>
      {bundle?.deprecations !== undefined && <StackItem><Alert isInline variant="warning" title="Deprecated">{bundle.deprecations.join(' ')}</Alert></StackItem>}
      <StackItem><Lines title="Why this bundle" lines={(plan.why ?? []).map(asSentence)} /></StackItem>
      <StackItem><Lines title="Missing dependencies" lines={plan.missingDependencies ?? []} /></StackItem>
      <StackItem><Lines title="Extensions that are created for dependencies" lines={(plan.createdExtensions ?? []).map((e) => `${e.name}: ${e.package} ${e.version}`)} /></StackItem>
      {contents?.rights !== undefined && (
        <StackItem><Section title={`Rights that it gets (${contents.rights.length})`}>{contents.rights.map((r) => <Rights key={`${r.role} ${r.subjects.join()}`} rights={r} />)}</Section></StackItem>
      )}
      <StackItem><Lines title="Images that run" lines={plan.images ?? []} /></StackItem>
      <StackItem><Lines title="CRDs" lines={contents?.crds ?? []} /></StackItem>
      {objects?.changes !== undefined && <StackItem><Changes changes={objects.changes} /></StackItem>}
      {plan.note !== undefined && plan.note !== '' && <StackItem>{plan.note}</StackItem>}
    </Stack>
  );
}

const safety: Readonly<Record<string, string>> = {
  safe: 'The changes of CRDs are safe for existing data.',
  unsafe: 'The changes of CRDs can lose data or break clients.',
  unknown: 'It is unknown whether the changes of CRDs are safe.',
  off: 'Changes of CRDs are not checked.',
};

/** summarizePlan returns what a plan does in sentences. */
export function summarizePlan({ action, installed, bundle, objects, crdUpgradeSafety = '' }: Plan): string {
  const to = bundle === undefined ? 'no bundle' : `version ${bundle.version}${bundle.catalog === undefined ? '' : ` from catalog ${bundle.catalog}`}`;
  const sentences: Record<string, string> = {
    none: `Nothing changes: ${to} stays.`,
    install: `It installs ${to}.`,
    update: `It updates version ${installed?.version ?? 'unknown'} to ${to}.`,
    change: `It keeps ${to} and changes its objects.`,
    'go back': `It goes back from version ${installed?.version ?? 'unknown'} to ${to}.`,
  };
  const counts = objects === undefined ? '' : `Objects: ${objects.added} added, ${objects.changed} changed, ${objects.removed} removed, ${objects.unchanged} unchanged.`;
  return [sentences[action] ?? '', counts, safety[crdUpgradeSafety] ?? ''].filter((s) => s !== '').join(' ');
}

function Rights({ rights }: { rights: Schemas['PlannedRights'] }) {
  return (
    <>
      <Content component="p">{rights.subjects.join(', ')}, by {rights.role}:</Content>
      <List>
        {rights.rules === undefined ? <ListItem>the rules that the role has on the cluster</ListItem> : rights.rules.map((rule) => <ListItem key={rule} className="mainstay-message">{rule}</ListItem>)}
      </List>
    </>
  );
}

/** Lines shows a list with a title. It shows nothing if the list is empty. */
export function Lines({ title, lines }: { title: string; lines: readonly string[] }) {
  if (lines.length === 0) return null;
  return <Section title={`${title} (${lines.length})`} isOpen={lines.length < 6}><List>{lines.map((line) => <ListItem key={line} className="mainstay-message">{line}</ListItem>)}</List></Section>;
}

/** Section is a part that can be opened and closed. */
export function Section({ title, children, isOpen = false }: { title: string; children: ReactNode; isOpen?: boolean }) {
  const [isExpanded, setExpanded] = useState(isOpen);
  return <ExpandableSection toggleText={title} isExpanded={isExpanded} onToggle={(_event, open) => { setExpanded(open); }}>{children}</ExpandableSection>;
}

const marks = { added: 'success', changed: 'info', removed: 'danger' } as const;

/** Changes shows which objects change, each with its difference. */
export function Changes({ changes }: { changes: readonly Schemas['Change'][] }) {
  return (
    <Section title={`Changes of objects (${changes.length})`}>
      {changes.map((c) => {
        const name = `${c.kind} ${c.namespace === undefined ? c.name : `${c.namespace}/${c.name}`}`;
        return (
          <ExpandableSection key={`${c.apiVersion} ${name}`} toggleContent={<><Label isCompact variant="outline" status={marks[c.change as keyof typeof marks]}>{c.change}</Label> {name} <span className="mainstay-message">{c.apiVersion}</span></>}>
            <Code text={c.diff} />
          </ExpandableSection>
        );
      })}
    </Section>
  );
}

/** Manifests shows objects as YAML. */
export function Manifests({ title, manifests }: { title: string; manifests: readonly Schemas['Manifest'][] }) {
  return (
    <Section title={`${title} (${manifests.length})`}>
      {manifests.map((m) => {
        const name = `${m.kind} ${m.namespace === undefined ? m.name : `${m.namespace}/${m.name}`}`;
        return <ExpandableSection key={name} toggleText={name}><Code text={m.yaml} /></ExpandableSection>;
      })}
    </Section>
  );
}

function Code({ text }: { text: string }) {
  return <CodeBlock><CodeBlockCode>{text}</CodeBlockCode></CodeBlock>;
}
