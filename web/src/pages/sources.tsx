import { Content, PageSection, Tab, Tabs, TabTitleText, Title } from '@patternfly/react-core';
import { useSearchParams } from 'react-router';

import { LivenessHint } from '../components/liveness';
import { useNamespace } from '../components/namespace';
import { useLive } from '../live';
import { SourceList } from './sources/list';
import { Tenants } from './sources/tenants';

const kinds = ['clustercatalogs', 'catalogsources', 'operatorhubs', 'operatorgroups', 'subscriptions'];

/** SourcesPage shows where packages come from, and who may use them. */
export function SourcesPage() {
  const [namespace] = useNamespace();
  const liveness = useLive(kinds, namespace);
  const [parameters, setParameters] = useSearchParams();
  const tab = parameters.get('tab') ?? 'catalogs';
  const select = (key: string) => {
    setParameters({ ...(namespace === '' ? {} : { namespace }), tab: key });
  };
  return (
    <>
      <PageSection>
        <Title headingLevel="h1">Catalogs and tenants</Title>
        <Content component="p">Where packages come from, and who may install them{namespace === '' ? '' : ` in namespace ${namespace}`}.</Content>
        <LivenessHint liveness={liveness} />
      </PageSection>
      <PageSection isFilled>
        <Tabs activeKey={tab} aria-label="Parts of the page" onSelect={(_event, key) => { select(String(key)); }}>
          <Tab eventKey="catalogs" title={<TabTitleText>Catalogs</TabTitleText>}>{tab === 'catalogs' && <div className="mainstay-tab"><SourceList /></div>}</Tab>
          <Tab eventKey="tenants" title={<TabTitleText>OperatorGroups</TabTitleText>}>{tab === 'tenants' && <div className="mainstay-tab"><Tenants /></div>}</Tab>
        </Tabs>
      </PageSection>
    </>
  );
}
