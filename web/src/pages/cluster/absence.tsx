import { Content, FormGroup, FormHelperText, HelperText, HelperTextItem, TextInput } from '@patternfly/react-core';
import { useState } from 'react';

import { api, unwrap, type Schemas } from '../../api/client';
import { ConfirmDialog } from '../../components/confirm';
import { GuardedButton } from '../../components/permissions';
import { NothingState } from '../../components/states';
import { mayCreateVersion, useWrite } from './data';

/** AbsentVersion says what a cluster without a ClusterVersion is, and how it gets one. */
export function AbsentVersion({ absence }: { absence: Schemas['Absence'] }) {
  const [isOpen, setIsOpen] = useState(false);
  return (
    <>
      <NothingState
        title="The version of this cluster is not managed"
        actions={absence.kindExists && <GuardedButton permissions={mayCreateVersion} onClick={() => { setIsOpen(true); }}>Create the ClusterVersion</GuardedButton>}
      >
        <Content component="p">{absence.text}</Content>
        <Content component="p">{absence.advice}</Content>
      </NothingState>
      {isOpen && <CreateDialog onClose={() => { setIsOpen(false); }} />}
    </>
  );
}

function CreateDialog({ onClose }: { onClose: () => void }) {
  const [channel, setChannel] = useState('');
  const [upstream, setUpstream] = useState('');
  const create = useWrite(() => unwrap(api.POST('/api/v1/cluster/init', { body: { channel, upstream } })), onClose);
  return (
    <ConfirmDialog title="Create the ClusterVersion" action="Create" isPending={create.isPending} error={create.error} onConfirm={() => { create.mutate(undefined); }} onClose={onClose}>
      <Content component="p">The cluster-version-operator then applies its own release to the cluster and keeps it as the release says. To stop that, the operator has to be stopped.</Content>
      <FormGroup label="Channel" fieldId="channel">
        <TextInput id="channel" value={channel} onChange={(_event, value) => { setChannel(value.trim()); }} placeholder="stable-1.4" />
        <FormHelperText><HelperText><HelperTextItem>Updates come from this channel. Without one, the cluster looks for no updates.</HelperTextItem></HelperText></FormHelperText>
      </FormGroup>
      <FormGroup label="Update service" fieldId="upstream">
        <TextInput id="upstream" type="url" value={upstream} onChange={(_event, value) => { setUpstream(value.trim()); }} placeholder="https://updates.example.com/api/upgrades_info/v1/graph" />
        <FormHelperText><HelperText><HelperTextItem>Without one, the operator asks the service that it is configured with.</HelperTextItem></HelperText></FormHelperText>
      </FormGroup>
    </ConfirmDialog>
  );
}

