import { Card, CardBody, CardTitle, Content, FormGroup, FormSelect, FormSelectOption, List, ListItem, Stack, StackItem, TextInput } from '@patternfly/react-core';
import { useState } from 'react';
import { useSearchParams } from 'react-router';

import { api, unwrap, type Schemas } from '../../api/client';
import { ConfirmDialog } from '../../components/confirm';
import { Conditions, Facts } from '../../components/details';
import { GuardedButton } from '../../components/permissions';
import { mayChangeVersion, useWrite } from './data';

type Settings = Schemas['VersionSettings'];

/** VersionDetails shows the settings of the ClusterVersion, its release and its conditions. */
export function VersionDetails({ settings }: { settings: Settings }) {
  const { desired } = settings;
  return (
    <Stack hasGutter>
      <StackItem>
        <Card>
          <CardTitle>Version</CardTitle>
          <CardBody>
            <Facts
              facts={[
                ['Version', settings.desired.version], ['Last completed version', settings.completed ?? 'none'], ['Requested', settings.requested ?? 'no update'],
                ['Channel', <Channel key="channel" settings={settings} />], ['Update service', settings.upstream ?? 'the default of the operator'], ['Cluster ID', settings.clusterID],
              ]}
            />
          </CardBody>
        </Card>
      </StackItem>
      <StackItem>
        <Card>
          <CardTitle>Release and signatures</CardTitle>
          <CardBody>
            <Facts
              facts={[
                ['Release image', <span key="image" className="mainstay-text">{desired.image}</span>],
                ['Signature', describeSignature(settings)],
                ['Signatures are read from', settings.signatureStores?.join(', ') ?? 'the stores that the release names'],
                ['Channels with the release', desired.channels?.join(', ') ?? 'not known'],
              ]}
            />
          </CardBody>
        </Card>
      </StackItem>
      {settings.unmanaged !== undefined && <StackItem><Unmanaged objects={settings.unmanaged} /></StackItem>}
      <StackItem>
        <Card>
          <CardTitle>Conditions</CardTitle>
          <CardBody><Conditions conditions={settings.conditions ?? []} /></CardBody>
        </Card>
      </StackItem>
    </Stack>
  );
}

/** describeSignature says whether the signature of the present release was verified. */
export function describeSignature({ history = [], desired }: Pick<Settings, 'history' | 'desired'>): string {
  const entry = history.find((e) => e.image === desired.image);
  if (entry === undefined) return 'not known';
  if (entry.verified) return 'verified';
  return history.at(-1) === entry ? 'not verified: the signature of the first release is not checked' : `not verified${entry.acceptedRisks === undefined ? '' : `: ${entry.acceptedRisks}`}`;
}

function Unmanaged({ objects }: { objects: Schemas['UnmanagedObject'][] }) {
  return (
    <Card>
      <CardTitle>Objects that the operator does not manage</CardTitle>
      <CardBody>
        <Content component="p">The field spec.overrides excludes these objects of the release. While there is one, the cluster is not updated to another minor version.</Content>
        <List>
          {objects.map((o) => (
            <ListItem key={`${o.kind}/${o.namespace ?? ''}/${o.name}`}>{o.kind} {o.namespace === undefined ? o.name : `${o.namespace}/${o.name}`}{o.group !== undefined && ` (${o.group})`}</ListItem>
          ))}
        </List>
      </CardBody>
    </Card>
  );
}

function Channel({ settings }: { settings: Settings }) {
  const [parameters, setParameters] = useSearchParams();
  const close = () => { setParameters({ tab: 'details' }); };
  return (
    <>
      {settings.channel ?? 'none'}{' '}
      <GuardedButton variant="link" isInline permissions={mayChangeVersion} onClick={() => { setParameters({ tab: 'details', dialog: 'channel' }); }}>Change the channel</GuardedButton>
      {parameters.get('dialog') === 'channel' && <ChannelDialog settings={settings} onClose={close} />}
    </>
  );
}

function ChannelDialog({ settings, onClose }: { settings: Settings; onClose: () => void }) {
  const current = settings.channel ?? '';
  const known = settings.desired.channels ?? [];
  const [channel, setChannel] = useState(current);
  const save = useWrite(
    () => unwrap(api.POST('/api/v1/cluster/channel', { body: { channel, allowExplicit: channel === '', generation: settings.generation } })),
    onClose,
  );
  const options = current === '' || known.includes(current) ? known : [current, ...known];
  return (
    <ConfirmDialog title="Change the channel" action="Save" isDisabled={channel === current} isPending={save.isPending} error={save.error} onConfirm={() => { save.mutate(undefined); }} onClose={onClose}>
      <Content component="p">A channel decides which updates the update service offers. Another channel changes nothing on the cluster until somebody requests an update.</Content>
      <FormGroup label="Channel" fieldId="channel">
        {known.length > 0 && (
          <FormSelect id="channel" value={channel} onChange={(_event, value) => { setChannel(value); }}>
            {options.map((name) => <FormSelectOption key={name} value={name} label={known.includes(name) ? name : `${name} (does not have the present release)`} />)}
            <FormSelectOption value="" label="None: look for no updates" />
          </FormSelect>
        )}
        {known.length === 0 && <TextInput id="channel" value={channel} onChange={(_event, value) => { setChannel(value.trim()); }} list="channels" />}
        <datalist id="channels">{suggestChannels(settings.desired.version).map((name) => <option key={name} value={name} />)}</datalist>
      </FormGroup>
    </ConfirmDialog>
  );
}

/** suggestChannels returns the usual names of channels for a version, for a release that names none. */
export function suggestChannels(version: string): string[] {
  const match = /^(\d+\.\d+)\./.exec(version);
  return match === null ? [] : ['stable', 'fast', 'candidate'].map((prefix) => `${prefix}-${match[1] ?? ''}`);
}
