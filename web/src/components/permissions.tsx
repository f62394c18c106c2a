import { Button, Label, List, ListItem, Tooltip, type ButtonProps } from '@patternfly/react-core';
import { useQuery } from '@tanstack/react-query';

import { api, unwrap, type Schemas } from '../api/client';

/** Rule is a rule of a Role or ClusterRole. */
export interface Rule {
  verbs: readonly string[];
  apiGroups?: readonly string[] | undefined;
  resources?: readonly string[] | undefined;
  resourceNames?: readonly string[] | undefined;
  nonResourceURLs?: readonly string[] | undefined;
  /** farReaching means that the rule can be used to gain further rights. */
  farReaching?: boolean | undefined;
}

/** PermissionRules shows rules in words, those that reach furthest first. */
export function PermissionRules({ rules }: { rules: readonly Rule[] }) {
  const described = rules.map((rule) => ({ text: describeRule(rule), isFarReaching: rule.farReaching === true }));
  described.sort((a, b) => Number(b.isFarReaching) - Number(a.isFarReaching));
  return (
    <List>
      {described.map(({ text, isFarReaching: far }) => (
        <ListItem key={text}>
          {text}{far && <>{' '}<Label isCompact status="warning" variant="outline">Far-reaching</Label></>}
        </ListItem>
      ))}
    </List>
  );
}

/** describeRule returns a rule as a phrase, such as "read secrets named a, b". */
export function describeRule(rule: Rule): string {
  const verbs = describeVerbs(rule.verbs);
  if (rule.nonResourceURLs !== undefined && rule.nonResourceURLs.length > 0) return `${verbs} the paths ${rule.nonResourceURLs.join(', ')}`;

  const groups = (rule.apiGroups ?? []).filter((group) => group !== '');
  let what = joinWords((rule.resources ?? []).map((resource) => (resource === '*' ? 'all resources' : resource)));
  if (groups.includes('*')) what += ' of every API group';
  else if (groups.length > 0) what += ` (${groups.join(', ')})`;

  const names = rule.resourceNames ?? [];
  return names.length === 0 ? `${verbs} ${what}` : `${verbs} ${what} named ${names.join(', ')}`;
}

const readVerbs = ['get', 'list', 'watch'];
const changeVerbs = ['update', 'patch'];
const deleteVerbs = ['delete', 'deletecollection'];

/** describeVerbs returns the verbs as a phrase, such as "read, create and delete". Verbs that are only partly there stay as they are. */
export function describeVerbs(verbs: readonly string[]): string {
  if (verbs.includes('*')) return 'do everything with';
  const left = new Set(verbs);
  const words: string[] = [];
  for (const [all, word] of [[readVerbs, 'read'], [['create'], 'create'], [changeVerbs, 'change'], [deleteVerbs, 'delete']] as const) {
    if (!all.every((verb) => left.has(verb))) continue;
    words.push(word);
    all.forEach((verb) => left.delete(verb));
  }
  return joinWords([...words, ...left]);
}

function joinWords(words: readonly string[]): string {
  return words.length < 2 ? words.join('') : `${words.slice(0, -1).join(', ')} and ${words.at(-1) ?? ''}`;
}

type Permission = Schemas['Permission'];

/** describePermission returns what a user may not do, such as "create subscriptions in namespace a". */
export function describePermission({ verb, group, resource, namespace }: Permission): string {
  const what = group === undefined || group === '' ? resource : `${resource}.${group}`;
  return namespace === undefined || namespace === '' ? `${verb} ${what}` : `${verb} ${what} in namespace ${namespace}`;
}

/** useMissingPermissions asks which of the permissions the user lacks. Until the answer is there, none is missing: the API server decides in any case. */
export function useMissingPermissions(permissions: readonly Permission[]): readonly Permission[] {
  const review = useQuery({
    queryKey: ['access', permissions],
    queryFn: () => unwrap(api.POST('/api/v1/access', { body: { permissions: [...permissions] } })),
    enabled: permissions.length > 0,
    staleTime: 60_000,
  });
  return permissions.filter((_permission, index) => review.data?.allowed[index] === false);
}

/** GuardedButton is a button that is disabled, and says why, if the user lacks a permission for what it does. */
export function GuardedButton({ permissions, ...button }: Omit<ButtonProps, 'ref' | 'isAriaDisabled'> & { permissions: readonly Permission[] }) {
  const missing = useMissingPermissions(permissions);
  if (missing.length === 0) return <Button {...button} />;
  return (
    <Tooltip content={`You are not allowed to ${missing.map(describePermission).join(', or to ')}.`}>
      <Button {...button} isAriaDisabled />
    </Tooltip>
  );
}
