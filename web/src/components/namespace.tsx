import { FormSelect, FormSelectOption, TextInput } from '@patternfly/react-core';
import { useQuery } from '@tanstack/react-query';
import type { FocusEvent } from 'react';
import { useSearchParams } from 'react-router';

import { api, unwrap } from '../api/client';

/** useNamespace returns the namespace in the address. It is empty for all namespaces. */
export function useNamespace(): [string, (namespace: string) => void] {
  const [parameters, setParameters] = useSearchParams();
  const set = (namespace: string) => {
    setParameters((before) => {
      if (namespace === '') before.delete('namespace');
      else before.set('namespace', namespace);
      return before;
    });
  };
  return [parameters.get('namespace') ?? '', set];
}

/** NamespaceSelect chooses the namespace of the page. Users who may not list namespaces type its name. */
export function NamespaceSelect() {
  const [namespace, setNamespace] = useNamespace();
  const namespaces = useQuery({ queryKey: ['namespaces'], queryFn: () => unwrap(api.GET('/api/v1/namespaces')) });
  if (namespaces.data?.forbidden === true) {
    return (
      <TextInput
        aria-label="Namespace" placeholder="All namespaces" defaultValue={namespace} key={namespace}
        onBlur={(event: FocusEvent<HTMLInputElement>) => { setNamespace(event.currentTarget.value.trim()); }}
        onKeyDown={(event) => { if (event.key === 'Enter') setNamespace(event.currentTarget.value.trim()); }}
      />
    );
  }

  const names = namespaces.data?.names ?? [];
  return (
    <FormSelect aria-label="Namespace" value={namespace} onChange={(_event, value) => { setNamespace(value); }}>
      <FormSelectOption value="" label="All namespaces" />
      {namespace !== '' && !names.includes(namespace) && <FormSelectOption value={namespace} label={namespace} />}
      {names.map((name) => <FormSelectOption key={name} value={name} label={name} />)}
    </FormSelect>
  );
}
